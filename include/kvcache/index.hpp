// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_INDEX_HPP
#define KVCACHE_INDEX_HPP

/// @file kvcache/index.hpp
/// The index of a router. See kvcache/index.h.

#include <kvcache/index.h>

#include <array>
#include <kvcache/types.hpp>
#include <string>
#include <vector>

namespace kvc {
inline namespace cpp {

/// 32 bytes: of a prefix position, or of a namespace.
using Digest = std::array<uint8_t, 32>;

/// Which worker has how much of a prompt. Any thread may call any function; matches never wait.
class Index {
 public:
  /// What match() found. Reuse it: it keeps its memory.
  class Matches {
   public:
    size_t size() const noexcept { return count_; }                     ///< Workers with the first block.
    uint64_t worker(size_t i) const { return workers_[i]; }             ///< Its number.
    uint32_t blocks(size_t i) const { return matched_[i * columns_]; }  ///< Its blocks, in any medium.
    /// Its blocks in one medium.
    uint32_t blocks(size_t i, uint32_t medium) const { return matched_[i * columns_ + 1 + medium]; }

   private:
    friend class Index;
    std::vector<uint64_t> workers_;
    std::vector<uint32_t> matched_;
    size_t columns_ = 1, count_ = 0;
  };

  /// With all defaults, or a configuration.
  explicit Index(const kvc_index_config& config = make<kvc_index_config>())
      : index_(ask<kvc_index*>(kvc_index_create, &config)),
        max_workers_(config.max_workers != 0 ? config.max_workers : 256),
        num_media_(config.num_media != 0 ? config.num_media : 4) {}
  kvc_index* get() const noexcept { return index_.get(); }  ///< For C functions.

  /// As kvc_index_add_worker, and so on.
  ///@{
  void add_worker(uint64_t worker, uint64_t now_ns = 0, const char* name = nullptr) {
    check(kvc_index_add_worker(get(), worker, name, now_ns));
  }
  void remove_worker(uint64_t worker) { check(kvc_index_remove_worker(get(), worker)); }
  void touch_worker(uint64_t worker, uint64_t now_ns) {
    check(kvc_index_touch_worker(get(), worker, now_ns));
  }
  uint64_t expire(uint64_t now_ns) { return ask<uint64_t>(kvc_index_expire, get(), now_ns); }
  kvc_index_applied apply(uint64_t worker, uint32_t medium, Span<const kvc_event> events,
                          uint64_t now_ns = 0) {
    return ask<kvc_index_applied>(kvc_index_apply, get(), worker, medium, events.data(), sizeof(kvc_event),
                                  events.size(), now_ns);
  }
  void begin_resync(uint64_t worker, uint32_t medium = KVC_INDEX_ALL_MEDIA) {
    check(kvc_index_begin_resync(get(), worker, medium));
  }
  void end_resync(uint64_t worker, uint32_t medium, uint64_t next_sequence) {
    check(kvc_index_end_resync(get(), worker, medium, next_sequence));
  }
  kvc_index_worker worker_info(uint64_t worker) const {
    return ask<kvc_index_worker>(kvc_index_worker_info, get(), worker);
  }
  kvc_index_stats stats() const { return ask<kvc_index_stats>(kvc_index_read_stats, get()); }
  ///@}

  /// Blocks of each worker, from `digests` [num_blocks] (kvc_index_match).
  void match(Span<const Digest> digests, Matches& out) const {
    prepare(out);
    check(kvc_index_match(get(), digests.size() == 0 ? nullptr : digests.data()->data(), digests.size(),
                          out.workers_.data(), out.matched_.data(), out.workers_.size(), &out.count_));
  }
  /// The same from tokens; `root`: nullptr = the default namespace (kvc_index_match_tokens).
  void match(Span<const int32_t> tokens, uint32_t block_size, Matches& out,
             const Digest* root = nullptr) const {
    prepare(out);
    check(kvc_index_match_tokens(get(), root == nullptr ? nullptr : root->data(), tokens.data(),
                                 tokens.size(), block_size, out.workers_.data(), out.matched_.data(),
                                 out.workers_.size(), &out.count_));
  }

  /// The numbers of all workers.
  std::vector<uint64_t> workers() const {
    std::vector<uint64_t> all(max_workers_);
    size_t count = 0;
    check(kvc_index_list_workers(get(), all.data(), all.size(), &count));
    all.resize(count);
    return all;
  }
  /// The bytes of kvc_index_dump.
  std::string dump() const {
    std::string bytes;
    for (size_t size = 0;;) {
      const kvc_status status = kvc_index_dump(get(), bytes.data(), bytes.size(), &size);
      if (status != KVC_ERROR_BUFFER_TOO_SMALL) {
        check(status);
        return bytes.resize(size), bytes;
      }
      bytes.resize(size);
    }
  }
  /// Loads a dump (kvc_index_load).
  void load(Span<const char> bytes) { check(kvc_index_load(get(), bytes.data(), bytes.size())); }

  /// Identity of a namespace (kvc_index_root).
  static Digest root(const kvc_namespace_config* config = nullptr) {
    Digest digest;
    check(kvc_index_root(config, digest.data()));
    return digest;
  }
  /// Digests of the full blocks of a prompt (kvc_index_digests).
  static std::vector<Digest> digests(Span<const int32_t> tokens, uint32_t block_size,
                                     const Digest* root = nullptr) {
    std::vector<Digest> out(block_size == 0 ? 0 : tokens.size() / block_size);
    size_t count = 0;
    check(kvc_index_digests(root == nullptr ? nullptr : root->data(), tokens.data(), tokens.size(),
                            block_size, out.empty() ? nullptr : out.data()->data(), out.size(), &count));
    return out;
  }

 private:
  void prepare(Matches& out) const {
    out.columns_ = 1 + size_t{num_media_};
    out.workers_.resize(max_workers_);
    out.matched_.resize(max_workers_ * out.columns_);
  }

  Owner<kvc_index, kvc_index_destroy> index_;
  uint32_t max_workers_, num_media_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_INDEX_HPP
