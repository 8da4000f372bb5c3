// SPDX-License-Identifier: Apache-2.0
// The calls of checkpoints with files of a test's own, which fail or end the process.
#pragma once
#include "api/page_args.h"
#include "checkpoint/checkpoint.h"
#include "world.h"

namespace kvc::test {

inline Spoken say(uint64_t seed, size_t tokens) {
  Spoken spoken;
  spoken.tokens = test::tokens_of(seed, tokens);
  return spoken;
}

// The calls of the library with files of the test's.
struct Calls {
  Engine& engine;
  std::vector<GroupMemory> groups;
  const std::string path;
  CheckpointOptions options;

  Calls(Engine& of, std::string folder) : engine(of), path(std::move(folder)) {
    options.folder = path.c_str();
    options.model = "model", options.weights = of.form.weights;
    for (kvc_storage* storage : of.storages) {
      kvc::Pages pages;
      EXPECT_EQ(read_pages(*storage, &of.pages, &pages), KVC_OK);
      groups.push_back({&storage->layout, storage->slab(), 0, pages.shape, pages.part, pages.fingerprint});
    }
  }
  kvc_status save(Files& files, kvc_checkpoint_info* info) {
    *info = {};
    return save_checkpoint(files, *engine.m->impl, groups, options, info);
  }
  kvc_status restore(Files& files, kvc_checkpoint_info* info) {
    *info = {};
    kvc_namespace_pair names[8];
    kvc_request_pair requests[8];
    return restore_checkpoint(files, *engine.m->impl, groups, options, {names, 8, requests, 8}, info);
  }
};

}  // namespace kvc::test
