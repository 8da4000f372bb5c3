// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_PUBLISHER_HPP
#define KVCACHE_PUBLISHER_HPP

/// @file kvcache/publisher.hpp
/// Publishers. See kvcache/publisher.h.

#include <kvcache/publisher.h>

#include <kvcache/types.hpp>
#include <vector>

namespace kvc {
inline namespace cpp {

/// A manager's events on the wire; move-only. Any thread may call any function. End it before its manager.
class Publisher {
 public:
  /// A batch that is kept.
  struct Batch {
    uint64_t sequence;          ///< Its number.
    std::vector<char> payload;  ///< In MessagePack.
  };

  /// From a configuration.
  explicit Publisher(const kvc_publisher_config& config)
      : p_(ask<kvc_publisher*>(kvc_publisher_create, &config)) {}
  kvc_publisher* get() const noexcept { return p_.get(); }  ///< For C functions.

  /// As kvc_publisher_poll, and so on.
  ///@{
  uint64_t poll() { return ask<uint64_t>(kvc_publisher_poll, get()); }
  void resync() { check(kvc_publisher_resync(get())); }
  void name_namespace(const kvc_publisher_namespace& name) {
    check(kvc_publisher_name_namespace(get(), &name));
  }
  kvc_publisher_stats stats() const { return ask<kvc_publisher_stats>(kvc_publisher_read_stats, get()); }
  ///@}

  /// The first batch whose number is not below `sequence`. False: there is none yet.
  bool read(uint64_t sequence, Batch* batch) const {
    for (;;) {
      size_t size = 0;
      const kvc_status status = kvc_publisher_read(get(), sequence, &batch->sequence, batch->payload.data(),
                                                   batch->payload.size(), &size);
      if (status == KVC_ERROR_NOT_FOUND) return false;
      if (status != KVC_ERROR_BUFFER_TOO_SMALL) check(status);
      batch->payload.resize(size);
      if (status == KVC_OK) return true;
    }
  }

 private:
  Owner<kvc_publisher, kvc_publisher_destroy> p_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_PUBLISHER_HPP
