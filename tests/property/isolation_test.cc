// SPDX-License-Identifier: Apache-2.0
// Two tenants with a static split (docs/SEMANTICS.md, "Quotas"): what one of them sees does not depend on the
// other. Tenant B makes the same random calls on two managers; on one of them tenant A makes others in
// between, and has items in the same steps. All answers to B must be equal, block ids excepted.
//   --operations N    calls of both (default 200000)    --seed S    of the first pair of managers (default 1)
#include <kvcache/events.h>
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/step.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "calls.h"
#include "property/random.h"

namespace {

[[noreturn]] void give_up(const char* what) {
  std::printf("FAILED: %s: %s\n", what, kvc_last_error());
  std::exit(1);
}

void demand(kvc_status status, const char* what) {
  if (status != KVC_OK) give_up(what);
}

uint64_t present_seed = 0;  // of the pair of managers

struct Shape {
  uint32_t block_size, num_groups, num_pools;
  uint64_t pool_blocks[2];
  bool fills;
};

using View = std::vector<uint64_t>;

struct Handle {
  uint64_t id[2];  // on each manager
};

// What a tenant puts into a step.
struct Items {
  std::vector<size_t> frees, running;  // indices of its requests
  std::vector<uint64_t> committed;
  std::vector<std::vector<int32_t>> extensions, prompts;
  std::vector<kvc_request_config> configs;  // of the prompts
};

class Tenant {
 public:
  // On managers [first, 2), with a share of each pool.
  Tenant(const Shape& shape, kvc_manager** managers, size_t first, const char* name, const uint64_t* blocks,
         Random random)
      : shape_(shape), managers_(managers), first_(first), random_(random) {
    kvc_namespace_config config{};
    config.struct_size = sizeof config;
    config.tenant = name, config.tenant_size = std::strlen(name);
    for (size_t m = 0; m < 2; ++m) {
      demand(kvc_manager_open_namespace(managers_[m], &config, &ns_[m]), "open_namespace");
      for (uint32_t p = 0; p < shape.num_pools; ++p)
        demand(kvc_manager_set_quota(managers_[m], ns_[m], p, blocks[p], blocks[p]), "set_quota");
    }
  }

  void call();
  Items items();
  void compare(const char* what) {
    if (first_ == 0 && view_[0] != view_[1]) {
      std::printf("--seed %llu, after %s:\nalone:", static_cast<unsigned long long>(present_seed), what);
      for (const uint64_t v : view_[0]) std::printf(" %llu", static_cast<unsigned long long>(v));
      std::printf("\nwith others:");
      for (const uint64_t v : view_[1]) std::printf(" %llu", static_cast<unsigned long long>(v));
      give_up("another tenant's calls changed an answer");
    }
    view_[0].clear(), view_[1].clear();
  }
  void see_events();
  uint64_t ns(size_t m) const { return ns_[m]; }

 private:
  friend void step(Tenant& b, Tenant& a, kvc_manager** managers, const Shape& shape, Random& random);

  template <typename Call>
  kvc_status each(Call&& call) {  // makes the call on its managers; the status of the last
    kvc_status status = KVC_OK;
    for (size_t m = first_; m < 2; ++m)
      view_[m].push_back(static_cast<uint64_t>(status = call(managers_[m], m)));
    return status;
  }
  std::vector<int32_t> tokens(uint64_t most) {
    std::vector<int32_t> out(random_.below(most + 1));
    for (int32_t& token : out) token = static_cast<int32_t>(random_.below(2));
    return out;
  }
  std::vector<int32_t> prompt() { return tokens(shape_.block_size * (random_.chance(90) ? 7 : 24)); }
  size_t any(size_t count) { return random_.below(count); }
  kvc_request_info info(size_t i) {
    kvc_request_info out{};
    out.struct_size = sizeof out;
    demand(kvc_manager_request_info(managers_[1], requests_[i].id[1], &out), "request_info");
    return out;
  }
  // What a tenant can see of a request and of its share.
  void see(const Handle* request);

  const Shape& shape_;
  kvc_manager** managers_;
  const size_t first_;
  Random random_;
  uint64_t ns_[2] = {}, cursor_[2] = {};
  std::vector<Handle> requests_, pins_;
  std::vector<std::vector<int32_t>> held_[2];  // external holds, a prefix each
  View view_[2];
};

void Tenant::see(const Handle* request) {
  for (size_t m = first_; m < 2; ++m) {
    View& view = view_[m];
    for (uint32_t p = 0; p < shape_.num_pools; ++p) {
      kvc_quota_info q{};
      q.struct_size = sizeof q;
      demand(kvc_manager_quota_info(managers_[m], ns_[m], p, &q), "quota_info");
      view.insert(view.end(), &q.min_blocks, &q.block_hits + 1);
    }
    if (request == nullptr) continue;
    kvc_request_info info{};
    info.struct_size = sizeof info;
    view.push_back(static_cast<uint64_t>(kvc_manager_request_info(managers_[m], request->id[m], &info)));
    for (const uint64_t v :
         {info.num_tokens, info.num_committed, info.num_cached, info.capacity, info.num_blocks,
          info.lost_reuse_tokens, info.min_truncate_tokens, uint64_t{info.admitted}})
      view.push_back(v);
    for (uint32_t g = 0; g < shape_.num_groups && info.admitted; ++g) {
      int32_t row[64];
      demand(kvc_manager_export_tables(managers_[m], &request->id[m], 1, g, -1, row, 64), "export_tables");
      uint64_t filled = 0;
      for (size_t j = 0; j < 64; ++j) filled |= uint64_t{row[j] >= 0} << j;
      view.push_back(filled);
    }
  }
}

// Its own events, in their order; others may stand between them.
void Tenant::see_events() {
  for (size_t m = first_; m < 2; ++m) {
    std::vector<kvc_event> events(256);
    for (size_t count = 1; count != 0;) {
      kvc_event_batch batch = {sizeof batch, events.data(), sizeof(kvc_event), events.size(), 0, nullptr, 0};
      demand(kvc_manager_poll_events(managers_[m], &cursor_[m], &batch), "poll_events");
      count = batch.count;
      for (size_t i = 0; i < count; ++i) {
        const kvc_event& e = events[i];
        if (e.namespace_id != ns_[m]) continue;
        if (e.kind != KVC_EVENT_NAMESPACE_CLEARED && e.block < 0)
          continue;  // of waypoints: when they go, others decide
        uint64_t digest;
        std::memcpy(&digest, e.digest, sizeof digest);
        for (const uint64_t v : {uint64_t{e.kind}, e.epoch, e.token_offset, uint64_t{e.group}, digest})
          view_[m].push_back(v);
      }
    }
  }
  compare("the events");
}

void Tenant::call() {
  const uint64_t pick = random_.below(100);
  const std::vector<int32_t> text = prompt();
  Handle made{};
  const Handle* touched = nullptr;
  const auto id_of = [&](const Handle& h) { return [&h](size_t m) { return h.id[m]; }; };
  if (pick < 30 && requests_.size() < 12) {
    const bool waits = random_.chance(20);
    kvc_request_config config{};
    config.struct_size = sizeof config;
    if (random_.chance(20)) config.slots = random_.between(1, 3 * shape_.block_size);
    if (random_.chance(10)) config.lookahead = random_.between(1, shape_.block_size);
    const kvc_status status = each([&](kvc_manager* m, size_t i) {
      uint64_t cached = 0;
      const kvc_status s =
          waits ? kvc_manager_create_request(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0), &config,
                                             &made.id[i])
                : kvc_manager_allocate_request(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0),
                                               &config, &made.id[i], &cached);
      view_[i].push_back(cached);
      return s;
    });
    if (status == KVC_OK) requests_.push_back(made), touched = &requests_.back();
  } else if (pick < 38) {
    each([&](kvc_manager* m, size_t i) {
      kvc_probe_info p{};
      p.struct_size = sizeof p;
      const kvc_status s = kvc_manager_probe(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0), &p);
      for (const uint64_t v :
           {p.num_cached, p.blocks_needed, p.blocks_available, p.lost_reuse_tokens, uint64_t{p.fits}})
        view_[i].push_back(v);
      return s;
    });
  } else if (pick < 42) {
    const kvc_status status = each([&](kvc_manager* m, size_t i) {
      uint64_t count = 0;
      const kvc_status s = kvc_manager_pin_prefix(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0),
                                                  &made.id[i], &count);
      view_[i].push_back(count);
      return s;
    });
    if (status == KVC_OK) pins_.push_back(made);
  } else if (pick < 46 && !pins_.empty()) {
    const size_t i = any(pins_.size());
    each([&](kvc_manager* m, size_t k) { return kvc_manager_unpin_prefix(m, pins_[i].id[k]); });
    pins_.erase(pins_.begin() + static_cast<ptrdiff_t>(i));
  } else if (pick < 49) {
    each([&](kvc_manager* m, size_t i) {
      uint64_t dropped = 0;
      const kvc_status s =
          kvc_manager_drop_prefix(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0), &dropped);
      view_[i].push_back(dropped);
      return s;
    });
  } else if (pick < 52) {
    const auto group = static_cast<uint32_t>(random_.below(shape_.num_groups));
    kvc_status status = KVC_OK;
    std::vector<int32_t> rows[2];
    status = each([&](kvc_manager* m, size_t i) {
      size_t count = 0;
      rows[i].resize(64);
      const kvc_status s = kvc_manager_acquire_prefix(m, PROMPT(ns_[i], text.data(), text.size(), nullptr, 0),
                                                      group, rows[i].data(), rows[i].size(), &count);
      rows[i].resize(s == KVC_OK ? count : 0);
      for (const int32_t block : rows[i]) view_[i].push_back(block >= 0);
      return s;
    });
    if (status == KVC_OK)
      for (size_t m = first_; m < 2; ++m) held_[m].push_back(rows[m]);
  } else if (pick < 56 && !held_[1].empty()) {
    const size_t i = any(held_[1].size());
    const bool spoils = random_.chance(30);
    each([&](kvc_manager* m, size_t k) {
      uint64_t count = 0;
      if (spoils) kvc_manager_unpublish_blocks(m, held_[k][i].data(), held_[k][i].size(), &count);
      const kvc_status s = kvc_manager_release_blocks(m, held_[k][i].data(), held_[k][i].size());
      held_[k].erase(held_[k].begin() + static_cast<ptrdiff_t>(i));
      return s;
    });
  } else if (pick < 57) {
    each([&](kvc_manager* m, size_t i) { return kvc_manager_reset_namespace(m, ns_[i]); });
  } else if (pick < 58) {  // what belongs to nobody gets nothing
    int32_t block = 0;
    each([&](kvc_manager* m, size_t) { return kvc_manager_acquire_blocks(m, 0, &block, 1); });
  } else if (!requests_.empty()) {
    const size_t i = any(requests_.size());
    const kvc_request_info now = info(i);
    const auto id = id_of(requests_[i]);
    touched = &requests_[i];
    if (now.admitted == 0 && pick < 80) {
      each([&](kvc_manager* m, size_t k) {
        uint64_t cached = 0;
        const kvc_status s = kvc_manager_admit_request(m, id(k), &cached);
        view_[k].push_back(cached);
        return s;
      });
    } else if (pick < 70) {
      const std::vector<int32_t> more = tokens(random_.chance(60) ? 1 : 2 * shape_.block_size);
      each([&](kvc_manager* m, size_t k) {
        return kvc_manager_append_tokens(m, id(k), more.data(), more.size());
      });
    } else if (pick < 82) {
      const uint64_t count = std::min(now.num_tokens, now.capacity);
      each([&](kvc_manager* m, size_t k) { return kvc_manager_commit_tokens(m, id(k), count); });
    } else if (pick < 84) {
      const uint64_t count = now.capacity + random_.below(2 * shape_.block_size);
      each([&](kvc_manager* m, size_t k) { return kvc_manager_reserve_tokens(m, id(k), count); });
    } else if (pick < 86) {
      const uint64_t count = random_.below(now.num_tokens + 1);
      each([&](kvc_manager* m, size_t k) { return kvc_manager_truncate_request(m, id(k), count); });
    } else if (pick < 89 && requests_.size() < 12) {
      const kvc_status status =
          each([&](kvc_manager* m, size_t k) { return kvc_manager_fork_request(m, id(k), &made.id[k]); });
      if (status == KVC_OK) requests_.push_back(made), touched = &requests_.back();
    } else if (pick < 92) {
      each([&](kvc_manager* m, size_t k) { return kvc_manager_preempt_request(m, id(k)); });
    } else {
      if (now.admitted && random_.chance(80))
        each([&](kvc_manager* m, size_t k) {
          return kvc_manager_commit_tokens(m, id(k), std::min(now.num_tokens, now.capacity));
        });
      each([&](kvc_manager* m, size_t k) { return kvc_manager_free_request(m, id(k)); });
      requests_.erase(requests_.begin() + static_cast<ptrdiff_t>(i));
      touched = nullptr;
    }
  }
  see(touched);
  compare("a call");
}

Items Tenant::items() {
  Items out;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (random_.chance(50)) continue;
    if (random_.chance(15)) {
      out.frees.push_back(i);
      continue;
    }
    const kvc_request_info now = info(i);
    out.running.push_back(i);
    out.committed.push_back(std::min(now.num_tokens, now.capacity));
    out.extensions.push_back(tokens(random_.chance(80) ? 1 : shape_.block_size + 1));
  }
  while (requests_.size() + out.prompts.size() < 12 && random_.chance(40)) {
    kvc_request_config config{};
    config.struct_size = sizeof config;
    if (shape_.fills && random_.chance(80)) config.flags |= KVC_REQUEST_PUBLISH_ENQUEUED;
    if (shape_.fills && random_.chance(50)) config.flags |= KVC_REQUEST_SHARE_FILLING;
    out.prompts.push_back(prompt()), out.configs.push_back(config);
  }
  return out;
}

// One step of the engine: on the first manager B's items alone, on the second those of both.
void step(Tenant& b, Tenant& a, kvc_manager** managers, const Shape& shape, Random& random) {
  static uint64_t lag = 0;
  const Items of_b = b.items(), of_a = a.items();
  const bool a_first = random.chance(50), fails = shape.fills && random.chance(25);
  lag = random.below(2);
  std::vector<Handle> made_b(of_b.prompts.size()), made_a(of_a.prompts.size());
  std::vector<bool> done_b(of_b.prompts.size()), done_a(of_a.prompts.size());
  for (size_t m = 0; m < 2; ++m) {
    struct Part {
      Tenant* tenant;
      const Items* items;
    };
    std::vector<Part> parts{{&b, &of_b}};
    if (m == 1) parts.insert(a_first ? parts.begin() : parts.end(), Part{&a, &of_a});
    std::vector<uint64_t> frees, requests, committed, extend_offsets{0}, admit_offsets{0}, namespaces;
    std::vector<int32_t> extend_tokens, admit_tokens;
    std::vector<kvc_request_config> configs;
    for (const Part& part : parts) {
      const Items& items = *part.items;
      for (const size_t i : items.frees) frees.push_back(part.tenant->requests_[i].id[m]);
      for (size_t k = 0; k < items.running.size(); ++k) {
        requests.push_back(part.tenant->requests_[items.running[k]].id[m]);
        committed.push_back(items.committed[k]);
        extend_tokens.insert(extend_tokens.end(), items.extensions[k].begin(), items.extensions[k].end());
        extend_offsets.push_back(extend_tokens.size());
      }
      for (const auto& text : items.prompts) {
        admit_tokens.insert(admit_tokens.end(), text.begin(), text.end());
        admit_offsets.push_back(admit_tokens.size());
        namespaces.push_back(part.tenant->ns(m));
      }
      configs.insert(configs.end(), items.configs.begin(), items.configs.end());
    }
    const size_t num_new = namespaces.size();
    std::vector<kvc_status> status(frees.size() + requests.size() + num_new + 1);
    std::vector<uint64_t> admitted(num_new + 1), cached(num_new + 1);
    std::vector<kvc_block_copy> copies(shape.num_groups * requests.size() + 1);
    extend_tokens.push_back(0), admit_tokens.push_back(0);
    kvc_step s{};
    s.struct_size = sizeof s;
    s.num_frees = frees.size(), s.frees = frees.data();
    s.num_requests = requests.size(), s.requests = requests.data(), s.committed = committed.data();
    s.extend_offsets = extend_offsets.data(), s.extend_tokens = extend_tokens.data();
    s.num_admissions = num_new, s.admit_offsets = admit_offsets.data(), s.admit_tokens = admit_tokens.data();
    s.admit_namespaces = namespaces.data(), s.admit_configs = configs.data();
    s.status = status.data(), s.admitted = admitted.data(), s.cached = cached.data();
    s.copies = copies.data(), s.copy_capacity = copies.size();
    demand(kvc_manager_step(managers[m], &s), "step");
    size_t f = 0, r = 0, n = 0;
    for (const Part& part : parts) {
      View& view = part.tenant->view_[m];
      for (size_t k = 0; k < part.items->frees.size(); ++k)
        view.push_back(static_cast<uint64_t>(status[f++]));
      for (size_t k = 0; k < part.items->running.size(); ++k)
        view.push_back(static_cast<uint64_t>(status[frees.size() + r++]));
      for (size_t k = 0; k < part.items->prompts.size(); ++k, ++n) {
        view.push_back(static_cast<uint64_t>(status[frees.size() + requests.size() + n]));
        view.push_back(cached[n]);
        (part.tenant == &b ? made_b : made_a)[k].id[m] = admitted[n];
        (part.tenant == &b ? done_b : done_a)[k] = admitted[n] != 0;
      }
    }
    if (fails) {
      uint64_t preempted[64];
      size_t count = 0;
      demand(kvc_manager_fail_step(managers[m], s.step_id, preempted, 64, &count), "fail_step");
    }
    if (s.step_id > lag) demand(kvc_manager_retire_step(managers[m], s.step_id - lag), "retire_step");
    kvc_pending_work work = {sizeof work, nullptr, 0, 0, nullptr, 0, 0};
    std::vector<kvc_block_copy> pairs(4096);
    std::vector<int32_t> zeros(4096);
    work.copies = pairs.data(), work.copy_capacity = pairs.size();
    work.zero_blocks = zeros.data(), work.zero_capacity = zeros.size();
    demand(kvc_manager_take_pending(managers[m], &work), "take_pending");
  }
  const auto settle = [](Tenant& tenant, const Items& items, const std::vector<Handle>& made,
                         const std::vector<bool>& done) {
    for (size_t k = items.frees.size(); k-- > 0;)
      tenant.requests_.erase(tenant.requests_.begin() + static_cast<ptrdiff_t>(items.frees[k]));
    for (size_t k = 0; k < made.size(); ++k)
      if (done[k]) tenant.requests_.push_back(made[k]);
  };
  settle(b, of_b, made_b, done_b);
  settle(a, of_a, made_a, done_a);
  b.see(b.requests_.empty() ? nullptr : &b.requests_.back());
  b.compare("a step");
  a.compare("a step");
}

// A pair of managers from creation to end.
uint64_t run(uint64_t seed, uint64_t most) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  static const uint32_t kBlockSizes[] = {1, 2, 4, 4};
  Shape shape{kBlockSizes[random.below(4)], 1, 1, {}, random.chance(40)};
  kvc_group_config groups[2] = {};
  for (kvc_group_config& group : groups) group.struct_size = sizeof group;
  if (random.chance(50)) {
    shape.num_groups = 2;
    groups[1].kind = random.chance(60) ? KVC_GROUP_SLIDING_WINDOW : KVC_GROUP_FULL;
    if (groups[1].kind == KVC_GROUP_SLIDING_WINDOW)
      groups[1].window_tokens = random.between(1, 4 * shape.block_size),
      groups[1].num_sink_tokens = static_cast<uint32_t>(random.below(shape.block_size + 1));
    groups[1].pool = random.chance(60), shape.num_pools = 1 + groups[1].pool;
  }
  kvc_pool_config pools[2] = {};
  uint64_t share_a[2], share_b[2];
  for (uint32_t p = 0; p < shape.num_pools; ++p) {
    share_a[p] = random.between(2, 30), share_b[p] = random.between(4, 30);
    pools[p] = {sizeof pools[p], shape.pool_blocks[p] = share_a[p] + share_b[p], 0};
  }
  kvc_manager_config config{};
  config.struct_size = sizeof config;
  config.pools = pools, config.num_pools = shape.num_pools;
  config.groups = groups, config.num_groups = shape.num_groups;
  config.block_size = shape.block_size;
  config.max_nodes = 1 << 16, config.max_request_tokens = 60 * shape.block_size;
  config.event_capacity = 1 << 16, config.max_quotas = 2;
  config.watermark_blocks = random.chance(30) ? random.between(1, 3) : 0;
  config.flags = random.chance(30) ? KVC_MANAGER_ZERO_CROSS_NAMESPACE : 0;
  if (shape.fills) config.flags |= KVC_MANAGER_FILLS;
  if (random.chance(30))  // with other weights, and with FREQUENCY, the age of a block counts those of all
    config.policy = KVC_POLICY_FRAGMENTATION, config.policy_weight = random.chance(70);
  kvc_manager* managers[2];
  for (kvc_manager*& m : managers) demand(kvc_manager_create(&config, &m), "create");
  uint64_t made = 0;
  {
    Tenant a(shape, managers, 1, "A", share_a, Random(random.next()));
    Tenant b(shape, managers, 0, "B", share_b, Random(random.next()));
    while (made < most) {
      for (uint64_t i = random.below(4); i > 0; --i, ++made) a.call();
      random.chance(12) ? step(b, a, managers, shape, random) : b.call();
      ++made;
      if (random.chance(6)) b.see_events();
      if (random.chance(1))
        for (kvc_manager* m : managers) demand(kvc_manager_check(m), "check");
    }
  }
  for (kvc_manager* m : managers) demand(kvc_manager_check(m), "check");
  for (kvc_manager* m : managers) kvc_manager_destroy(m);
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t operations = 200000, seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--operations") operations = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
  }
  uint64_t made = 0, pairs = 0;
  for (; made < operations; ++pairs) {
    present_seed = seed + pairs;
    made += run(present_seed, 3000);
  }
  std::printf("%llu calls on %llu pairs of managers: no answer to one tenant depends on the other\n",
              static_cast<unsigned long long>(made), static_cast<unsigned long long>(pairs));
  return 0;
}
