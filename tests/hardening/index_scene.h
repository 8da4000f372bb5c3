// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/index.h. The index is made for a call and ended by clean().
#pragma once
#include <kvcache/events.h>
#include <kvcache/index.h>

#include <cstring>

namespace kvc::test {

struct IndexScene {
  static constexpr size_t kBlocks = 4;

  kvc_index_config config = {};
  kvc_index *index = nullptr, *made = nullptr;
  kvc_event events[kBlocks] = {};
  uint8_t digests[kBlocks * 32] = {}, root[32] = {}, made_digests[64 * 32] = {};
  uint64_t workers[4] = {}, removed = 0;
  uint32_t matched[4 * 9] = {};
  kvc_index_applied applied = {};
  kvc_index_worker info = {};
  kvc_index_stats stats = {};
  unsigned char dump[4096] = {};
  size_t size = 0;

  IndexScene() {
    config.struct_size = sizeof config;
    config.max_blocks = 64, config.max_workers = 4, config.num_media = 2, config.ttl_ns = 10;
    applied.struct_size = sizeof applied, info.struct_size = sizeof info, stats.struct_size = sizeof stats;
    for (size_t i = 0; i < kBlocks; ++i) {
      events[i].sequence = i, events[i].kind = KVC_EVENT_STORED;
      std::memset(events[i].digest, static_cast<int>(i + 1), 32);
      std::memcpy(digests + 32 * i, events[i].digest, 32);
    }
  }
  IndexScene(const IndexScene&) = delete;
  ~IndexScene() { clean(); }
  bool open() { return index != nullptr || kvc_index_create(&config, &index) == KVC_OK; }
  bool add() { return open() && kvc_index_add_worker(index, 1, "a worker", 5) == KVC_OK; }
  bool fill() {
    return add() && kvc_index_apply(index, 1, 0, events, sizeof *events, kBlocks, 5, nullptr) == KVC_OK;
  }
  bool resync() { return fill() && kvc_index_begin_resync(index, 1, 0) == KVC_OK; }
  // `dump` is of a filled index, and `index` is empty.
  bool save() {
    if (!fill() || kvc_index_dump(index, dump, sizeof dump, &size) != KVC_OK) return false;
    return kvc_index_remove_worker(index, 1) == KVC_OK;
  }
  void clean() {
    kvc_index_destroy(index);
    kvc_index_destroy(made);
    index = made = nullptr;
  }
};

}  // namespace kvc::test
