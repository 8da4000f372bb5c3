// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_CHECKPOINT_HPP
#define KVCACHE_CHECKPOINT_HPP

/// @file kvcache/checkpoint.hpp
/// Checkpoints. Parameters are the structs of kvcache/checkpoint.h.
///
///     auto config = kvc::make<kvc_checkpoint_config>();   // folder, pages, keep_last
///     kvc::save_checkpoint(manager.get(), {storage.get()}, config);
///     ...
///     const kvc::Restored restored = kvc::restore_checkpoint(fresh.get(), {storage.get()}, config);
///
/// Failures throw kvc::Error. Whoever may call the C functions at the same time may call these.

#include <kvcache/checkpoint.h>

#include <kvcache/types.hpp>
#include <string>
#include <vector>

namespace kvc {
inline namespace cpp {

/// What a restore made.
struct Restored {
  std::vector<kvc_namespace_pair> namespaces;  ///< By their old ids.
  std::vector<kvc_request_pair> requests;      ///< Likewise; they wait.
  kvc_checkpoint_info info;                    ///< What was restored.
};

/// Saves what a manager has cached; storages: one for each group, or nullptr.
inline kvc_checkpoint_info save_checkpoint(kvc_manager* m, const std::vector<kvc_storage*>& storages,
                                           const kvc_checkpoint_config& config) {
  return ask<kvc_checkpoint_info>(kvc_checkpoint_save, m, storages.data(), storages.size(), &config);
}
/// What save_checkpoint() would write.
inline kvc_checkpoint_needs measure_checkpoint(kvc_manager* m, const std::vector<kvc_storage*>& storages,
                                               const kvc_checkpoint_config& config) {
  return ask<kvc_checkpoint_needs>(kvc_checkpoint_measure, m, storages.data(), storages.size(), &config);
}
/// Saves it as one stream to a descriptor.
inline kvc_checkpoint_info save_stream(kvc_manager* m, const std::vector<kvc_storage*>& storages,
                                       const kvc_checkpoint_config& config, int fd) {
  return ask<kvc_checkpoint_info>(kvc_checkpoint_save_stream, m, storages.data(), storages.size(), &config,
                                  fd);
}

namespace detail {
/// restore(namespaces, capacity, requests, capacity, info), again if the arrays are too small and `again`.
template <typename Restore>
Restored restored(size_t namespaces, size_t requests, bool again, Restore&& restore) {
  for (;;) {
    Restored out = {std::vector<kvc_namespace_pair>(namespaces), std::vector<kvc_request_pair>(requests),
                    make<kvc_checkpoint_info>()};
    const kvc_status status =
        restore(out.namespaces.data(), namespaces, out.requests.data(), requests, &out.info);
    const bool grows = out.info.num_namespaces > namespaces || out.info.num_requests > requests;
    if (status != KVC_ERROR_BUFFER_TOO_SMALL || !again || !grows) {
      check(status);
      out.namespaces.resize(out.info.num_namespaces);
      out.requests.resize(out.info.num_requests);
      return out;
    }
    namespaces = out.info.num_namespaces, requests = out.info.num_requests;
  }
}
}  // namespace detail

/// Fills a new manager, and the storages of its groups, with a checkpoint.
inline Restored restore_checkpoint(kvc_manager* m, const std::vector<kvc_storage*>& storages,
                                   const kvc_checkpoint_config& config) {
  return detail::restored(16, 16, true, [&](auto... room) {
    return kvc_checkpoint_restore(m, storages.data(), storages.size(), &config, room...);
  });
}
/// The same from a stream; so many namespaces and requests at most, since a pipe can be read once.
inline Restored restore_stream(kvc_manager* m, const std::vector<kvc_storage*>& storages,
                               const kvc_checkpoint_config& config, int fd, size_t most_namespaces = 65536,
                               size_t most_requests = 65536) {
  return detail::restored(most_namespaces, most_requests, false, [&](auto... room) {
    return kvc_checkpoint_restore_stream(m, storages.data(), storages.size(), &config, fd, room...);
  });
}

/// Ids of the checkpoints of a folder, ascending.
inline std::vector<uint64_t> list_checkpoints(const std::string& folder) {
  std::vector<uint64_t> ids(64);
  for (;;) {
    size_t count = 0;
    const kvc_status status = kvc_checkpoint_list(folder.c_str(), ids.data(), ids.size(), &count);
    if (status != KVC_ERROR_BUFFER_TOO_SMALL) check(status);
    ids.resize(count);
    if (status == KVC_OK) return ids;
  }
}
/// As kvc_checkpoint_read_info, kvc_checkpoint_validate, and so on; id 0 = the newest.
///@{
inline kvc_checkpoint_info checkpoint_info(const std::string& folder, uint64_t id = 0) {
  return ask<kvc_checkpoint_info>(kvc_checkpoint_read_info, folder.c_str(), id);
}
inline kvc_checkpoint_info validate_checkpoint(const std::string& folder, uint64_t id = 0) {
  return ask<kvc_checkpoint_info>(kvc_checkpoint_validate, folder.c_str(), id);
}
inline void remove_checkpoint(const std::string& folder, uint64_t id) {
  check(kvc_checkpoint_remove(folder.c_str(), id));
}
inline uint64_t collect_checkpoints(const std::string& folder, uint32_t keep_last = 0) {
  return ask<uint64_t>(kvc_checkpoint_collect, folder.c_str(), keep_last);
}
inline kvc_checkpoint_info compact_checkpoint(const kvc_checkpoint_config& config) {
  return ask<kvc_checkpoint_info>(kvc_checkpoint_compact, &config);
}
///@}

}  // namespace cpp
}  // namespace kvc
#endif  // KVCACHE_CHECKPOINT_HPP
