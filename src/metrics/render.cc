// SPDX-License-Identifier: Apache-2.0
#include "metrics/render.h"

#include <cmath>
#include <cstdio>

namespace kvc {

LatencyReading read_latency(const Histogram& histogram) {
  const Histogram::Reading from(histogram);
  LatencyReading out = {from.count(), from.sum(), {}};
  for (uint32_t power = LatencyReading::kFirstPower; power <= LatencyReading::kLastPower; ++power)
    out.up_to[power - LatencyReading::kFirstPower] = from.count_up_to(power);
  return out;
}

namespace {

const char* type_name(FamilyType type) {
  switch (type) {
    case FamilyType::kGauge:
      return "gauge";
    case FamilyType::kCounter:
      return "counter";
    case FamilyType::kHistogram:
      return "histogram";
  }
  return "unknown";
}

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%09llu", static_cast<unsigned long long>(ns / 1000000000),
                static_cast<unsigned long long>(ns % 1000000000));
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  for (char& c : text)
    if (c == ',') c = '.';  // a locale's
  return text;
}

class TextWriter {
 public:
  void begin(const Family& family) {
    const std::string name = family.name;
    text_ += "# HELP " + name + ' ' + family.help + "\n# TYPE " + name + ' ' + type_name(family.type) + '\n';
    if (*family.unit != 0) text_ += "# UNIT " + name + ' ' + family.unit + '\n';
  }
  void add(const Family& family, const std::string& labels, const MetricValue& value) {
    if (const auto* latency = std::get_if<const LatencyReading*>(&value); latency != nullptr) {
      add(family.name, labels, **latency);
    } else if (const auto* real = std::get_if<double>(&value); real != nullptr) {
      sample(family.name, "", labels, number(*real));
    } else {
      sample(family.name, family.type == FamilyType::kCounter ? "_total" : "", labels,
             std::to_string(std::get<uint64_t>(value)));
    }
  }
  std::string finish() {
    text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  void sample(const char* name, const char* suffix, const std::string& labels, const std::string& value) {
    text_ += name;
    text_ += suffix;
    if (!labels.empty()) text_ += '{' + labels + '}';
    text_ += ' ' + value + '\n';
  }
  void add(const char* name, const std::string& labels, const LatencyReading& latency) {
    const std::string before = labels.empty() ? "" : labels + ',';
    for (uint32_t power = LatencyReading::kFirstPower; power <= LatencyReading::kLastPower; ++power) {
      sample(name, "_bucket", before + "le=\"" + seconds(uint64_t{1} << power) + '"',
             std::to_string(latency.up_to[power - LatencyReading::kFirstPower]));
    }
    sample(name, "_bucket", before + "le=\"+Inf\"", std::to_string(latency.count));
    sample(name, "_count", labels, std::to_string(latency.count));
    sample(name, "_sum", labels, seconds(latency.sum_ns));
  }

  std::string text_;
};

std::string join(const std::string& a, const char* b) {
  if (a.empty() || *b == 0) return a + b;
  return a + ',' + b;
}

}  // namespace

std::string render_metrics(const std::vector<MetricsPart>& parts, bool with_vllm) {
  TextWriter writer;
  for (size_t f = 0; f < kNumFamilies; ++f) {
    const Family& family = kFamilies[f];
    if (family.is_vllm && !with_vllm) continue;
    bool begun = false;
    for (const MetricsPart& part : parts) {
      for (size_t v = 0; v < family.num_values; ++v) {
        const FamilyValue& from = kFamilyValues[family.first_value + v];
        MetricValue value;
        if (!from.read(part.data, &value)) continue;
        if (!begun) writer.begin(family);
        begun = true;
        writer.add(family, join(part.labels, from.labels), value);
      }
    }
  }
  return writer.finish();
}

}  // namespace kvc
