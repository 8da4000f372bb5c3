// SPDX-License-Identifier: Apache-2.0
// Rows of the index of a router.
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

void add_workers(std::vector<Call>& calls) {
  const auto open = [](Scene& s) { return s.index.open(); };
  const auto add = [](Scene& s) { return s.index.add(); };
  const auto fill = [](Scene& s) { return s.index.fill(); };
  calls.push_back(KVC_CALL(kvc_index_create, &s.index.config, &s.index.made).allocating());
  calls.push_back(KVC_CALL(kvc_index_destroy, std::exchange(s.index.made, nullptr)).after([](Scene& s) {
    return kvc_index_create(&s.index.config, &s.index.made) == KVC_OK;
  }));
  calls.push_back(
      KVC_CALL(kvc_index_add_worker, s.index.index, 1u, "a worker", 5u).after(open).may_be_null({2}));
  calls.push_back(KVC_CALL(kvc_index_remove_worker, s.index.index, 1u).after(fill));
  calls.push_back(KVC_CALL(kvc_index_touch_worker, s.index.index, 1u, 5u).after(add));
  calls.push_back(
      KVC_CALL(kvc_index_expire, s.index.index, 100u, &s.index.removed).after(fill).may_be_null({2}));
  calls.push_back(
      KVC_CALL(kvc_index_list_workers, s.index.index, s.index.workers, std::size(s.index.workers), &s.count)
          .after(add));
  calls.push_back(KVC_CALL(kvc_index_worker_info, s.index.index, 1u, &s.index.info).after(fill));
  calls.push_back(KVC_CALL(kvc_index_read_stats, s.index.index, &s.index.stats).after(fill));
}

}  // namespace

void add_index_calls(std::vector<Call>& calls) {
  const auto add = [](Scene& s) { return s.index.add(); };
  const auto fill = [](Scene& s) { return s.index.fill(); };
  add_workers(calls);
  calls.push_back(KVC_CALL(kvc_index_apply, s.index.index, 1u, 0u, s.index.events, sizeof *s.index.events,
                           std::size(s.index.events), 5u, &s.index.applied)
                      .after(add)
                      .may_be_null({7}));
  calls.push_back(KVC_CALL(kvc_index_begin_resync, s.index.index, 1u, KVC_INDEX_ALL_MEDIA).after(fill));
  calls.push_back(KVC_CALL(kvc_index_end_resync, s.index.index, 1u, 0u, 7u).after([](Scene& s) {
    return s.index.resync();
  }));
  calls.push_back(KVC_CALL(kvc_index_root, &s.identity, s.index.root).may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_index_match, s.index.index, s.index.digests, IndexScene::kBlocks,
                           s.index.workers, s.index.matched, std::size(s.index.workers), &s.count)
                      .after(fill));
  calls.push_back(KVC_CALL(kvc_index_match_tokens, s.index.index, s.index.root, s.tokens.data(), size_t{16},
                           4u, s.index.workers, s.index.matched, std::size(s.index.workers), &s.count)
                      .after(fill)
                      .may_be_null({1}));
  calls.push_back(KVC_CALL(kvc_index_digests, s.index.root, s.tokens.data(), size_t{16}, 4u,
                           s.index.made_digests, sizeof s.index.made_digests / 32, &s.count)
                      .may_be_null({0}));
  calls.push_back(KVC_CALL(kvc_index_dump, s.index.index, s.index.dump, sizeof s.index.dump, &s.index.size)
                      .allocating()
                      .after(fill));
  calls.push_back(
      KVC_CALL(kvc_index_load, s.index.index, s.index.dump, s.index.size).allocating().after([](Scene& s) {
        return s.index.save();
      }));
}

}  // namespace kvc::test
