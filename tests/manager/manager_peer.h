// SPDX-License-Identifier: Apache-2.0
// What tests of the manager share: a view of its state that can also be written, managers of small shapes,
// and token sequences. Used while no other thread calls the manager.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "api/create.h"
#include "api/guard.h"
#include "manager/manager.h"

namespace kvc {

class ManagerPeer {
 public:
  explicit ManagerPeer(kvc_manager* m)
      : state_(m->impl->read([](const StateReader& state) { return state; })),
        matcher_(state_.shape, state_.blocks, hash_, arena_, mutex_) {}

  BlockPool& pool() { return writable(state_.pool()); }
  PrefixTree& tree() { return writable(state_.tree()); }
  Uses& uses() { return writable(state_.tree().notes().uses()); }
  NamespaceTable& namespaces() { return writable(state_.namespaces()); }
  // As if so many resets of all namespaces had been made before anything was published.
  void age_namespaces(uint64_t resets) { namespaces().global_resets_ = resets; }
  PinTable& pins() { return writable(state_.pins); }
  Counters& counters() { return writable(state_.counters); }
  Request& request(uint64_t id) { return writable(*state_.requests.table().find(id)); }
  uint64_t& live_requests() { return writable(state_.requests.admissions.num_admitted()); }
  uint64_t& num_requests() { return writable(state_.requests.count()); }
  kvc_block_copy* copies() { return state_.requests.waiting_copies.list().out; }
  size_t& num_copies() { return writable(state_.requests.waiting_copies.list().count); }

  // The rules of matching, of this manager's shape and blocks.
  const Matcher& matcher() const { return matcher_; }
  bool serves_boundary(const Request& request, uint32_t group, size_t position) const {
    return state_.shape.serves_boundary(group, request.prompt_len, position);
  }

 private:
  template <typename T>
  static T& writable(const T& part) {
    return const_cast<T&>(part);
  }
  const StateReader state_;
  Memory memory_{default_env()};
  Arena arena_{memory_};
  TableHash hash_;
  std::mutex mutex_;
  const Matcher matcher_;
};

struct ManagerOf {
  ManagerOf() = default;
  explicit ManagerOf(kvc_manager_config config, Env env = default_env()) { create(config, env); }
  ManagerOf(const ManagerOf&) = delete;
  ManagerOf& operator=(const ManagerOf&) = delete;
  ~ManagerOf() { kvc_manager_destroy(m); }
  kvc_status create(kvc_manager_config config, Env env) {
    config.struct_size = sizeof config;
    if (config.seed == 0) config.seed = 1;
    const kvc_status status = create_manager(&config, env, &m);
    EXPECT_TRUE(status == KVC_OK || status == KVC_ERROR_OUT_OF_MEMORY) << last_error();
    return status;
  }
  kvc_manager* m = nullptr;
};

inline kvc_group_config full_group() {
  kvc_group_config group = {};
  group.struct_size = sizeof group;
  return group;
}
inline kvc_group_config window_group(uint64_t window, uint32_t sinks = 0, uint64_t retention = 0) {
  kvc_group_config group = full_group();
  group.kind = KVC_GROUP_SLIDING_WINDOW;
  group.window_tokens = window;
  group.num_sink_tokens = sinks;
  group.retention_tokens = retention;
  return group;
}

inline kvc_group_config chunk_group(uint64_t chunk) {
  kvc_group_config group = full_group();
  group.kind = KVC_GROUP_CHUNKED_LOCAL;
  group.chunk_tokens = chunk;
  return group;
}

inline std::vector<int32_t> tokens_from(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

inline kvc_extra_key key_over(uint64_t first, uint64_t count, uint8_t mark = 1) {
  kvc_extra_key key = {};
  key.first_token = first;
  key.num_tokens = count;
  key.digest[0] = mark;
  return key;
}

}  // namespace kvc
