// SPDX-License-Identifier: Apache-2.0
// Rows of checkpoints and files of tiers. Their folder does not exist: what is in one is tested in
// tests/checkpoint.
#include <fcntl.h>
#include <kvcache/checkpoint.h>
#include <kvcache/inspect.h>

#include "hardening/every_call.h"
#include "hardening/recording.h"

namespace kvc::test {
namespace {

constexpr char kNowhere[] = "/nonexistent/kvc/checkpoints";

// Each thread's own arguments.
struct Arguments {
  Arguments() {
    pages.struct_size = sizeof pages;
    pages.model = pages.weights = "x", pages.model_size = pages.weights_size = 1;
    config.struct_size = sizeof config;
    config.folder = kNowhere;
    config.pages = &pages;
    stream = config;
    stream.folder = nullptr;
    needs.struct_size = sizeof needs;
    info.struct_size = sizeof info;
    file_info.struct_size = sizeof file_info;
  }
  kvc_page_config pages = {};
  kvc_checkpoint_config config = {}, stream = {};
  kvc_checkpoint_needs needs = {};
  kvc_checkpoint_info info = {};
  kvc_page_file_info file_info = {};
  kvc_storage* storages[32] = {};
  uint64_t ids[4] = {};
  size_t count = 0, num_groups = 0;
  uint64_t bytes = 0;
  uint8_t digest[32] = {};
};
Arguments& mine() {
  thread_local Arguments arguments;
  return arguments;
}

int32_t nowhere_fd() {
  static const int32_t fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  return fd;
}

bool count_groups(Scene& s) {
  kvc_properties properties = {};
  properties.struct_size = sizeof properties;
  if (kvc_manager_properties(s.m, &properties) != KVC_OK) return false;
  mine().num_groups = properties.num_groups;
  return true;
}

}  // namespace

void add_checkpoint_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_manager_content_digest, s.m, mine().digest).allocating());
  calls.push_back(
      KVC_CALL(kvc_checkpoint_save, s.m, mine().storages, mine().num_groups, &mine().config, &mine().info)
          .allocating()
          .answering(KVC_ERROR_NOT_FOUND)
          .may_be_null({4})
          .after(count_groups));
  calls.push_back(KVC_CALL(kvc_checkpoint_restore, s.m, mine().storages, mine().num_groups, &mine().config,
                           nullptr, 0u, nullptr, 0u, &mine().info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND)
                      .may_be_null({4, 6, 8})
                      .after(count_groups));
  calls.push_back(
      KVC_CALL(kvc_checkpoint_measure, s.m, mine().storages, mine().num_groups, &mine().config, &mine().needs)
          .allocating()
          .answering(KVC_ERROR_NOT_FOUND)
          .after(count_groups));
  calls.push_back(KVC_CALL(kvc_checkpoint_save_stream, s.m, mine().storages, mine().num_groups,
                           &mine().stream, nowhere_fd(), &mine().info)
                      .allocating()
                      .may_be_null({5})
                      .after(count_groups));
  calls.push_back(KVC_CALL(kvc_checkpoint_restore_stream, s.m, mine().storages, mine().num_groups,
                           &mine().config, nowhere_fd(), nullptr, 0u, nullptr, 0u, &mine().info)
                      .allocating(record_bytes() == 0)
                      .answering(record_bytes() == 0 ? KVC_ERROR_NOT_FOUND : KVC_ERROR_UNSUPPORTED)
                      .may_be_null({5, 7, 9})
                      .after(count_groups));
  calls.push_back(KVC_CALL(kvc_checkpoint_collect, kNowhere, 0u, &mine().bytes)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_checkpoint_list, kNowhere, mine().ids, 4u, &mine().count)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_checkpoint_read_info, kNowhere, 0u, &mine().info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_checkpoint_validate, kNowhere, 0u, &mine().info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND)
                      .may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_checkpoint_remove, kNowhere, 1u).allocating().answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_checkpoint_compact, &mine().config, &mine().info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND)
                      .may_be_null({1}));
  calls.push_back(KVC_CALL(kvc_page_file_read_info, kNowhere, 0, &mine().file_info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_page_file_read_part, kNowhere, 0u, 0, &mine().file_info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
  calls.push_back(KVC_CALL(kvc_page_file_purge, kNowhere, mine().digest, &mine().file_info)
                      .allocating()
                      .answering(KVC_ERROR_NOT_FOUND));
}

}  // namespace kvc::test
