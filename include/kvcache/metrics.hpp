// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_METRICS_HPP
#define KVCACHE_METRICS_HPP

/// @file kvcache/metrics.hpp
/// Metrics. What they are is in kvcache/metrics.h.
///
///     kvc::MetricsSource sources[] = {{manager.get(), {{"model", "llama"}}}, {tier.get(), {{"model",
///     "llama"}}}}; kvc::enable_latencies(sources);                    // right after creation std::string
///     text = kvc::render_metrics(sources);   // for each scrape
///
/// Failures throw kvc::Error.

#include <kvcache/metrics.h>

#include <kvcache/types.hpp>
#include <utility>
#include <vector>

namespace kvc {
inline namespace cpp {

/// An object whose metrics are wanted, with its labels.
class MetricsSource {
 public:
  /// Pairs of a name and a value.
  using Labels = std::vector<std::pair<std::string, std::string>>;
  /// Of an object, such as kvc::Manager::get().
  ///@{
  MetricsSource(kvc_manager* manager, Labels labels = {}) : labels_(std::move(labels)) {
    to_.manager = manager;
  }
  MetricsSource(kvc_storage* storage, Labels labels = {}) : labels_(std::move(labels)) {
    to_.storage = storage;
  }
  MetricsSource(kvc_tier* tier, Labels labels = {}) : labels_(std::move(labels)) { to_.tier = tier; }
  MetricsSource(kvc_offload* offload, Labels labels = {}) : labels_(std::move(labels)) {
    to_.offload = offload;
  }
  MetricsSource(kvc_scheduler* scheduler, Labels labels = {}) : labels_(std::move(labels)) {
    to_.scheduler = scheduler;
  }
  ///@}
  const kvc_metrics_source& object() const { return to_; }  ///< For C, without labels.
  const Labels& labels() const { return labels_; }          ///< As given.

 private:
  kvc_metrics_source to_ = make<kvc_metrics_source>();
  Labels labels_;
};

/// Sources for C. They refer to the labels of `from`.
class MetricsSources {
 public:
  /// Takes them over; `from` must outlive this.
  explicit MetricsSources(Span<const MetricsSource> from) {
    size_t count = 0;
    for (const MetricsSource& source : from) count += source.labels().size();
    labels_.reserve(count);  // pointers to them stay
    for (const MetricsSource& source : from) {
      all_.push_back(source.object());
      all_.back().labels = labels_.data() + labels_.size();
      all_.back().num_labels = source.labels().size();
      for (const auto& label : source.labels())
        labels_.push_back({label.first.c_str(), label.second.c_str()});
    }
  }
  const kvc_metrics_source* data() const { return all_.data(); }  ///< The first.
  size_t size() const { return all_.size(); }                     ///< How many.

 private:
  std::vector<kvc_metrics_source> all_;
  std::vector<kvc_label> labels_;
};

/// The metrics of the sources as OpenMetrics text. flags: KVC_METRICS_*.
inline std::string render_metrics(Span<const MetricsSource> sources, uint32_t flags = 0) {
  const MetricsSources all(sources);
  std::string text(size_t{1} << 16, '\0');
  for (;;) {
    size_t size = 0;
    const kvc_status status = kvc_metrics_render(all.data(), all.size(), flags, &text[0], text.size(), &size);
    if (status != KVC_ERROR_BUFFER_TOO_SMALL) {
      check(status);
      text.resize(size);
      return text;
    }
    text.resize(size + size / 8);  // numbers grow
  }
}

/// Makes objects measure their calls: right after their creation.
inline void enable_latencies(Span<const MetricsSource> sources) {
  const MetricsSources all(sources);
  check(kvc_metrics_enable_latencies(all.data(), all.size()));
}

/// One latency of an object: KVC_LATENCY_*.
inline kvc_latency read_latency(const MetricsSource& source, uint32_t latency) {
  return ask<kvc_latency>(kvc_metrics_read_latency, &source.object(), latency);
}

/// The memory of objects, by kind.
inline kvc_memory_profile read_memory(Span<const MetricsSource> sources) {
  const MetricsSources all(sources);
  return ask<kvc_memory_profile>(kvc_metrics_read_memory, all.data(), all.size());
}

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_METRICS_HPP
