// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/publisher.h. The publisher is made for a call and ended by
// clean(): it reads the manager at its end.
#pragma once
#include <kvcache/publisher.h>

namespace kvc::test {

struct PublisherScene {
  kvc_publisher_config config = {};
  kvc_publisher_namespace name = {};
  kvc_publisher *publisher = nullptr, *made = nullptr;
  kvc_publisher_stats stats = {};
  uint64_t num_batches = 0, found = 0;
  size_t size = 0;
  char payload[1 << 16];

  PublisherScene() = default;
  PublisherScene(const PublisherScene&) = delete;
  ~PublisherScene() { clean(); }
  void bind(kvc_manager* manager) {
    config.struct_size = sizeof config;
    config.manager = manager;
    config.max_blocks = 8, config.replay_batches = 4, config.replay_bytes = 1 << 20;
    name.struct_size = sizeof name, stats.struct_size = sizeof stats;
    name.lora_name = "adapter", name.lora_path = "/adapter", name.cache_salt = "salt";
  }
  bool open() { return kvc_publisher_create(&config, &publisher) == KVC_OK; }
  void clean() {
    kvc_publisher_destroy(publisher);
    kvc_publisher_destroy(made);
    publisher = made = nullptr;
  }
};

}  // namespace kvc::test
