// SPDX-License-Identifier: Apache-2.0
#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>

#include "base/status.h"

namespace kvc {
namespace {

constexpr uint32_t kMaxRopeDim = 65536;

bool has_window(const kvc_model& model, uint32_t layer) {
  if (model.window_tokens == 0) return false;
  const bool none_named = std::all_of(std::begin(model.window_layers), std::end(model.window_layers),
                                      [](uint64_t bits) { return bits == 0; });
  return none_named || (model.window_layers[layer / 64] >> layer % 64 & 1) != 0;
}

bool is_local(const kvc_model& model, uint32_t layer) {
  return model.rope_local_theta != 0 && has_window(model, layer);
}

bool rotates(const kvc_model& model, uint32_t layer) {
  return (model.rope_flags & KVC_MODEL_ROPE_WINDOW_ONLY) == 0 || has_window(model, layer);
}

uint32_t scaling_of(const kvc_model& model, uint32_t layer) {
  const bool plain = is_local(model, layer) || !rotates(model, layer);
  return plain ? uint32_t{KVC_ROPE_NONE} : model.rope_scaling;
}

double low_rotations(const kvc_model& model) {
  return model.rope_low_rotations != 0 ? model.rope_low_rotations : 1;
}
double high_rotations(const kvc_model& model) {
  if (model.rope_high_rotations != 0) return model.rope_high_rotations;
  return model.rope_scaling == KVC_ROPE_LLAMA3 ? 4 : 32;
}

bool is_in_range(double value) { return value >= 1 / kMostRopeNumber && value <= kMostRopeNumber; }

kvc_status check_positive(const char* name, double value) {
  if (is_in_range(value)) return KVC_OK;
  return invalid("kvc_model.%s is %g; give a number from %g to %g", name, value, 1 / kMostRopeNumber,
                 kMostRopeNumber);
}

// The unchanged share of a frequency: 0 up to `low`, 1 from `high`; a step if both are equal.
double ramp(double x, double low, double high) {
  return low == high ? x > low : std::clamp((x - low) / (high - low), 0.0, 1.0);
}

// The pair, as a fraction, with so many rotations within the original context.
double pair_of(double rotations, double theta, double context, uint32_t dim) {
  return dim * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
}

double attention_factor_of(const kvc_model& model, uint32_t scaling) {
  if (scaling == KVC_ROPE_NONE) return 1;
  if (model.rope_attention_factor != 0) return model.rope_attention_factor;
  if (model.rope_factor <= 1) return 1;
  if (scaling == KVC_ROPE_YARN) return 0.1 * std::log(model.rope_factor) + 1;
  if (scaling != KVC_ROPE_LONGROPE) return 1;
  return std::sqrt(1 +
                   std::log(model.rope_factor) / std::log(static_cast<double>(model.rope_original_context)));
}

}  // namespace

kvc_status check_rope_fields(const kvc_model& model, uint32_t layer, uint32_t* dim) {
  if (model.num_layers > KVC_MODEL_MAX_LAYERS || layer >= model.num_layers)
    return invalid("layer is %u; the model has %u layers, from 0 on, at most %d", layer, model.num_layers,
                   KVC_MODEL_MAX_LAYERS);
  if ((model.state_layers[layer / 64] >> layer % 64 & 1) != 0)
    return invalid("layer %u has a state, and no rotary embedding; ask for a layer with keys", layer);
  const uint32_t rotating = model.rope_dim != 0 ? model.rope_dim : model.head_dim;
  if (rotating == 0 || rotating % 2 != 0 || rotating > kMaxRopeDim)
    return invalid("kvc_model.rope_dim is %u; an even number, 2 .. %u", rotating, kMaxRopeDim);
  constexpr uint32_t kFlags = KVC_MODEL_ROPE_EXACT_RAMP | KVC_MODEL_ROPE_WINDOW_ONLY;
  if ((model.rope_flags & ~kFlags) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_model.rope_flags %#x are not supported", model.rope_flags);
  KVC_TRY(check_positive("rope_theta", model.rope_theta));
  if (model.rope_local_theta != 0) KVC_TRY(check_positive("rope_local_theta", model.rope_local_theta));
  if (model.rope_attention_factor != 0)
    KVC_TRY(check_positive("rope_attention_factor", model.rope_attention_factor));
  const uint32_t scaling = scaling_of(model, layer);
  if (scaling > KVC_ROPE_LONGROPE)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_model.rope_scaling %u is not known", scaling);
  if (scaling != KVC_ROPE_NONE) KVC_TRY(check_positive("rope_factor", model.rope_factor));
  if (scaling == KVC_ROPE_DYNAMIC && (rotating == 2 || model.max_context == 0)) {
    return invalid(
        "dynamic scaling with rope_dim %u and max_context %llu; at least 4, and the trained context",
        rotating, ull(model.max_context));
  }
  if (scaling >= KVC_ROPE_YARN && model.rope_original_context < 2) {
    return invalid("kvc_model.rope_original_context is %llu; give the trained context",
                   ull(model.rope_original_context));
  }
  if (scaling == KVC_ROPE_YARN || scaling == KVC_ROPE_LLAMA3) {
    KVC_TRY(check_positive("rope_low_rotations", low_rotations(model)));
    KVC_TRY(check_positive("rope_high_rotations", high_rotations(model)));
    const bool step = scaling == KVC_ROPE_LLAMA3 && high_rotations(model) == low_rotations(model);
    if (high_rotations(model) <= low_rotations(model) && !step) {
      return invalid("kvc_model.rope_high_rotations is %g; above rope_low_rotations, %g",
                     high_rotations(model), low_rotations(model));
    }
    if (scaling == KVC_ROPE_YARN && model.rope_theta == 1)
      return invalid("YaRN with a rope_theta of 1; give another base");
  }
  *dim = rotating;
  return KVC_OK;
}

kvc_status check_rope(const kvc_model& model, uint32_t layer, const double* factors, uint32_t* dim) {
  uint32_t rotating = 0;
  KVC_TRY(check_rope_fields(model, layer, &rotating));
  const uint32_t scaling = scaling_of(model, layer);
  if (scaling == KVC_ROPE_LONGROPE && factors == nullptr) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "LongRoPE needs factors: short_factor or long_factor of the model's config.json");
  }
  for (uint32_t i = 0; scaling == KVC_ROPE_LONGROPE && i < rotating / 2; ++i) {
    if (is_in_range(factors[i])) continue;
    return invalid("factors[%u] is %g; give a number from %g to %g", i, factors[i], 1 / kMostRopeNumber,
                   kMostRopeNumber);
  }
  *dim = rotating;
  return KVC_OK;
}

double rope_frequencies(const kvc_model& model, uint32_t layer, uint64_t length, const double* factors,
                        uint32_t dim, double* frequencies) {
  if (!rotates(model, layer)) {
    std::fill_n(frequencies, dim / 2, 0.0);
    return 1;
  }
  const uint32_t scaling = scaling_of(model, layer);
  const double factor = model.rope_factor, context = static_cast<double>(model.rope_original_context);
  double theta = is_local(model, layer) ? model.rope_local_theta : model.rope_theta;
  if (scaling == KVC_ROPE_DYNAMIC) {
    const uint64_t trained =
        model.rope_original_context != 0 ? model.rope_original_context : model.max_context;
    const double stretch = static_cast<double>(std::max(length, trained)) / static_cast<double>(trained);
    theta *= std::pow(factor * (stretch - 1) + 1, static_cast<double>(dim) / (dim - 2));
  }
  double low = 0, high = 0;  // YaRN: the ends of the ramp, as pairs
  if (scaling == KVC_ROPE_YARN) {
    low = pair_of(high_rotations(model), theta, context, dim);
    high = pair_of(low_rotations(model), theta, context, dim);
    if ((model.rope_flags & KVC_MODEL_ROPE_EXACT_RAMP) == 0) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, dim - 1.0);
    if (low == high) high += 0.001;
  }
  for (uint32_t i = 0; i < dim / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * i / dim);
    double kept = 1;  // the unchanged share
    double slowed = factor;
    switch (scaling) {
      case KVC_ROPE_LINEAR:
        kept = 0;
        break;
      case KVC_ROPE_YARN:
        kept = 1 - ramp(i, low, high);
        break;
      case KVC_ROPE_LLAMA3:
        kept =
            ramp(context * frequency / (2 * std::numbers::pi), low_rotations(model), high_rotations(model));
        break;
      case KVC_ROPE_LONGROPE:
        kept = 0;
        slowed = factors[i];
        break;
      default:
        break;
    }
    frequencies[i] = kept == 1 ? frequency : frequency * (kept + (1 - kept) / slowed);
  }
  return attention_factor_of(model, scaling);
}

void rope_table(const double* frequencies, size_t count, double attention_factor, const int64_t* positions,
                size_t num_positions, float* table) {
  for (size_t n = 0; n < num_positions; ++n, table += 2 * count) {
    const auto position = static_cast<double>(positions != nullptr ? positions[n] : static_cast<int64_t>(n));
    for (size_t i = 0; i < count; ++i) {
      const double angle = position * frequencies[i];
      table[i] = static_cast<float>(attention_factor * std::cos(angle));
      table[count + i] = static_cast<float>(attention_factor * std::sin(angle));
    }
  }
}

}  // namespace kvc
