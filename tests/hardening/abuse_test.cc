// SPDX-License-Identifier: Apache-2.0
// Random calls with ids that are live, stale, of another manager or of another kind, forged in one bit or 0;
// with NULL where that is wrong, tokens and keys out of range, and lengths up to SIZE_MAX. Every call answers
// an error code or does what it should; a refused one leaves the digest as it was. Meanwhile other managers
// come and go.
//   --calls N   (default 10^6; a hundred times as many take minutes)     --seed S
#include <gtest/gtest.h>
#include <kvcache.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "property/random.h"

namespace {

uint64_t calls_ = 1000000, seed_ = 1;

constexpr uint64_t kBlocks = 24, kRequests = 6, kMaxTokens = 64;
constexpr size_t kRoom = 256;  // entries of every array that is written, more than any answer has

class Abuser {
 public:
  explicit Abuser(uint64_t seed) : random_(seed) {
    kvc_manager_config config = {};
    config.struct_size = sizeof config;
    config.num_blocks = kBlocks, config.block_size = 4, config.max_requests = kRequests, config.seed = 1;
    config.max_request_tokens = kMaxTokens, config.vocab_size = 50, config.event_capacity = 32;
    config.flags = KVC_MANAGER_ZERO_FOREIGN;
    expect_ok(kvc_manager_create(&config, &m_));
    expect_ok(kvc_manager_create(&config, &other_));
    for (int i = 0; i < 3; ++i) {  // ids of another manager
      uint64_t id = 0, pinned = 0;
      const int32_t tokens[9] = {1, 2, 3, 4, 5, 6, 7, 8, i};
      expect_ok(kvc_manager_allocate_request(other_, tokens, 9, nullptr, 0, nullptr, &id, nullptr));
      expect_ok(kvc_manager_commit_tokens(other_, id, 9));
      known_.push_back(id);
      expect_ok(kvc_manager_pin_prefix(other_, 0, tokens, 8, nullptr, 0, &id, &pinned));
      known_.push_back(id);
      expect_ok(kvc_manager_open_namespace(other_, identity(i), &id));
      known_.push_back(id);
    }
    digest_ = digest();
  }
  ~Abuser() {
    kvc_manager_destroy(m_);
    kvc_manager_destroy(other_);
  }
  Abuser(const Abuser&) = delete;
  Abuser& operator=(const Abuser&) = delete;

  void run(uint64_t calls) {
    for (uint64_t i = 0; i < calls && !::testing::Test::HasFailure(); ++i) {
      const int kind = static_cast<int>(random_.below(kKinds));
      const kvc_status status = call(kind);
      ++(status == KVC_OK ? done[kind] : refused[kind]);
      const uint64_t now = digest();
      if (status != KVC_OK) {
        ASSERT_EQ(now, digest_) << "call " << i << " of kind " << kind
                                << " was refused and changed something";
      }
      ASSERT_TRUE(status >= KVC_OK && status <= KVC_ERROR_AGAIN && status != KVC_ERROR_INTERNAL &&
                  status != KVC_ERROR_CORRUPT && status != KVC_ERROR_OUT_OF_MEMORY)
          << "call " << i << " of kind " << kind << ": " << kvc_last_error();
      digest_ = now;
      if (i % 256 != 0) continue;
      ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << "call " << i << ": " << kvc_last_error();
    }
    ASSERT_EQ(kvc_manager_check(m_), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_manager_check(other_), KVC_OK) << kvc_last_error();
  }

  static constexpr int kKinds = 27;
  uint64_t done[kKinds] = {}, refused[kKinds] = {};

 private:
  void expect_ok(kvc_status status) { EXPECT_EQ(status, KVC_OK) << kvc_last_error(); }
  uint64_t digest() {
    uint64_t value = 0;
    expect_ok(kvc_manager_digest(m_, &value));
    return value;
  }
  const kvc_namespace_config* identity(uint64_t i) {
    static const char names[] = "abcdefgh";
    identity_ = {};
    identity_.struct_size = random_.chance(5) ? random_.below(5000) / 8 * 8 : sizeof identity_;
    identity_.tenant = names + i % 4, identity_.tenant_size = 1;
    if (i > 3 && random_.chance(5)) identity_.tenant = nullptr;
    if (random_.chance(3)) identity_.model = names, identity_.model_size = 65537;
    return random_.chance(98) || i <= 3 ? &identity_ : nullptr;
  }
  // Mostly an id of the right kind that lives; else anything.
  uint64_t any(const std::vector<uint64_t>& live) {
    const uint64_t dice = random_.below(100);
    if (dice < 70 && !live.empty()) return live[random_.below(live.size())];
    if (dice < 75) return 0;
    if (dice < 78) return random_.next();
    uint64_t id = known_.empty() ? 1 : known_[random_.below(known_.size())];
    if (dice < 90) id ^= uint64_t{1} << random_.below(64);
    return id;
  }
  void learn(std::vector<uint64_t>& live, uint64_t id) {
    live.push_back(id);
    if (live.size() > kRequests) live.erase(live.begin());  // lives on, but is not thought of often
    if (known_.size() < 64)
      known_.push_back(id);
    else
      known_[9 + random_.below(55)] = id;  // the first ones are of the other manager
  }
  // Tokens in a buffer that ends where they do, so that the sanitizers see what is read past them.
  const int32_t* tokens(size_t* count) {
    const size_t n = random_.below(40);
    tokens_.resize(n);
    const uint64_t family = random_.below(3);
    for (size_t i = 0; i < n; ++i) tokens_[i] = static_cast<int32_t>(i < 20 ? family : random_.below(2));
    if (n != 0 && random_.chance(3)) tokens_[random_.below(n)] = random_.chance(50) ? 50 : -1;
    *count = n;
    if (random_.chance(3)) *count = SIZE_MAX >> random_.below(33);
    tokens_.shrink_to_fit();
    return n != 0 && random_.chance(97) ? tokens_.data() : nullptr;
  }
  const kvc_extra_key* keys(size_t* count) {
    const size_t n = random_.chance(80) ? 0 : 1 + random_.below(3);
    keys_.assign(n, {});
    for (size_t i = 0; i < n; ++i) keys_[i] = {8 * i + random_.below(6), random_.below(5), {}};
    if (n != 0 && random_.chance(10)) keys_[n - 1].num_tokens = random_.next();
    *count = n;
    if (random_.chance(2)) *count = SIZE_MAX >> random_.below(56);
    if (*count > n && *count <= 64) *count = n;  // as many as tokens: would be read
    return n != 0 && random_.chance(95) ? keys_.data() : nullptr;
  }
  uint64_t number() {
    const uint64_t dice = random_.below(100);
    if (dice < 40) return random_.below(8);
    return dice < 80 ? random_.below(48) : dice < 90 ? UINT64_MAX - random_.below(3) : random_.next();
  }
  // A capacity that is true, or beyond any answer.
  size_t room() { return random_.chance(80) ? kRoom : random_.chance(50) ? random_.below(4) : SIZE_MAX; }
  int32_t* blocks_out() { return random_.chance(95) ? blocks_ : nullptr; }
  uint32_t group() { return random_.chance(90) ? 0 : static_cast<uint32_t>(random_.next()); }
  const kvc_request_config* config() {
    if (random_.chance(60)) return nullptr;
    config_ = {};
    config_.struct_size = random_.chance(95) ? sizeof config_ : random_.below(sizeof config_);
    config_.namespace_id = random_.chance(50) ? 0 : any(spaces_);
    if (random_.chance(20)) config_.slots = number();
    if (random_.chance(10)) config_.lookahead = number();
    if (random_.chance(10)) config_.external_tokens = number();
    if (random_.chance(10)) config_.max_cached_tokens = number();
    if (random_.chance(5)) config_.flags = static_cast<uint32_t>(random_.below(32));
    if (random_.chance(10)) config_.drop_tail_blocks = static_cast<uint32_t>(number());
    if (random_.chance(2)) config_.priority = 1;
    return &config_;
  }
  // Raw blocks that are held, or not.
  size_t some_blocks() {
    const size_t n = random_.below(5);
    for (size_t i = 0; i < n; ++i) {
      blocks_[i] = !raw_.empty() && random_.chance(80) ? raw_[random_.below(raw_.size())]
                                                       : static_cast<int32_t>(random_.below(kBlocks + 4)) - 2;
      if (random_.chance(2)) blocks_[i] = static_cast<int32_t>(random_.next());
    }
    return n;
  }
  void* maybe(void* pointer) { return random_.chance(98) ? pointer : nullptr; }
  uint64_t* id_out() { return static_cast<uint64_t*>(maybe(&id_)); }
  size_t* count_out() { return static_cast<size_t*>(maybe(&count_)); }

  kvc_status call(int kind);
  kvc_status call_step();

  Random random_;
  kvc_manager *m_ = nullptr, *other_ = nullptr;
  uint64_t digest_ = 0, id_ = 0, number_ = 0, cursor_ = 0;
  size_t count_ = 0;
  std::vector<uint64_t> live_, pins_, spaces_, known_;
  std::vector<int32_t> tokens_, raw_;
  std::vector<kvc_extra_key> keys_;
  kvc_namespace_config identity_ = {};
  kvc_request_config config_ = {};
  int32_t blocks_[kRoom] = {};
  int64_t slots_[kRoom] = {};
  uint64_t ids_[kRoom] = {};
  kvc_block_copy copies_[kRoom] = {};
  kvc_event events_[64] = {};
};

kvc_status Abuser::call(int kind) {
  size_t n = 0, k = 0;
  kvc_status status = KVC_OK;
  switch (kind) {
    case 0: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_create_request(m_, prompt, n, spans, k, config(), out);
      if (status == KVC_OK) learn(live_, id_);
      return status;
    }
    case 1:
    case 2: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_allocate_request(m_, prompt, n, spans, k, config(), out, &number_);
      if (status == KVC_OK) learn(live_, id_);
      return status;
    }
    case 3:
      return kvc_manager_admit_request(m_, any(live_), &number_);
    case 4:
      return kvc_manager_reserve_tokens(m_, any(live_), number());
    case 5: {
      const int32_t* const more = tokens(&n);
      return kvc_manager_append_tokens(m_, any(live_), more, n);
    }
    case 6:
      return kvc_manager_commit_tokens(m_, any(live_), number());
    case 7:
      return kvc_manager_truncate_request(m_, any(live_), number());
    case 8:
      status = kvc_manager_fork_request(m_, any(live_), id_out());
      if (status == KVC_OK) learn(live_, id_);
      return status;
    case 9:
      return kvc_manager_preempt_request(m_, any(live_));
    case 10:
      return kvc_manager_free_request(m_, any(live_));
    case 11: {
      const uint64_t id = any(live_);  // what an engine does
      kvc_request_info info = {};
      info.struct_size = sizeof info;
      status = kvc_manager_request_info(m_, id, &info);
      return status != KVC_OK ? status
                              : kvc_manager_commit_tokens(m_, id, std::min(info.num_tokens, info.capacity));
    }
    case 12:
      status = kvc_manager_list_requests(m_, ids_, room(), count_out());
      if (status == KVC_OK) live_.assign(ids_, ids_ + count_);
      return status;
    case 13: {
      ids_[0] = any(live_), ids_[1] = any(live_);
      n = random_.below(3);
      return kvc_manager_export_tables(m_, ids_, n, group(), -1, blocks_out(),
                                       random_.chance(90) ? kRoom / 2 : SIZE_MAX / (1 + random_.below(3)));
    }
    case 14:
      return kvc_manager_export_slots(m_, any(live_), group(), random_.below(8), number(), slots_,
                                      random_.chance(90) ? 8 : random_.below(20));
    case 15:
      return kvc_manager_take_copies(m_, copies_, room(), count_out());
    case 16:
      return kvc_manager_take_zero_blocks(m_, blocks_, room(), count_out());
    case 17: {
      kvc_probe_info info = {};
      info.struct_size = random_.chance(95) ? sizeof info : random_.below(sizeof info);
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      return kvc_manager_probe(m_, any(spaces_), prompt, n, spans, k, &info);
    }
    case 18: {
      const int32_t* const prompt = tokens(&n);
      const kvc_extra_key* const spans = keys(&k);
      uint64_t* const out = id_out();
      status = kvc_manager_pin_prefix(m_, random_.chance(80) ? 0 : any(spaces_), prompt, n, spans, k, out,
                                      &number_);
      if (status == KVC_OK) learn(pins_, id_);
      return status;
    }
    case 19:
      return kvc_manager_unpin_prefix(m_, any(pins_));
    case 20: {
      const int32_t* const prompt = tokens(&n);
      return kvc_manager_drop_prefix(m_, any(spaces_), prompt, n, nullptr, random_.below(2), &number_);
    }
    case 21: {
      n = random_.chance(80) ? random_.below(4) : SIZE_MAX >> random_.below(56);
      if (n > kRoom) n |= kBlocks;  // more than there are
      status = kvc_manager_acquire_blocks(m_, group(), blocks_, n);
      if (status == KVC_OK) raw_.insert(raw_.end(), blocks_, blocks_ + n);
      if (raw_.size() > 32) raw_.erase(raw_.begin(), raw_.begin() + 8);
      return status;
    }
    case 22: {
      const int32_t* const prompt = tokens(&n);
      status = kvc_manager_acquire_prefix(m_, random_.chance(80) ? 0 : any(spaces_), group(), prompt, n,
                                          nullptr, 0, blocks_, room(), count_out());
      if (status == KVC_OK) raw_.insert(raw_.end(), blocks_, blocks_ + count_);
      if (raw_.size() > 64) raw_.erase(raw_.begin(), raw_.begin() + 32);
      return status;
    }
    case 23: {
      const int32_t* const prompt = tokens(&n);
      const size_t count = some_blocks();
      return kvc_manager_publish_blocks(m_, random_.chance(80) ? 0 : any(spaces_), group(), prompt, n,
                                        nullptr, 0, blocks_, count);
    }
    case 24:
      return kvc_manager_release_blocks(m_, blocks_, some_blocks());
    case 25:
      switch (random_.below(7)) {
        case 0:
          status = kvc_manager_open_namespace(m_, identity(4 + random_.below(4)), id_out());
          if (status == KVC_OK && id_ != 0) learn(spaces_, id_);
          return status;
        case 1:
          return kvc_manager_close_namespace(m_, any(spaces_));
        case 2:
          return random_.chance(10) ? kvc_manager_reset(m_, any(spaces_))
                                    : kvc_manager_retire_step(m_, number());
        case 3:
          return kvc_manager_compact(m_, group(), copies_, room(), count_out());
        case 4:
          return kvc_manager_evict_blocks(m_, random_.below(3), count_out());
        case 5: {
          if (random_.chance(10)) cursor_ = random_.next();
          status =
              kvc_manager_poll_events(m_, &cursor_, events_, random_.chance(90) ? sizeof *events_ : number(),
                                      64, count_out(), nullptr, 0);
          if (status != KVC_OK) cursor_ = 0;
          return status;
        }
        default: {
          kvc_block_info info = {};
          info.struct_size = sizeof info;
          return kvc_manager_block_info(m_, static_cast<int32_t>(random_.below(40)) - 8, &info);
        }
      }
    default:
      return call_step();
  }
}

// A step of few items; a refused item leaves the state alone, so a step of refused items changes nothing but
// its number, whose retirement follows at once.
kvc_status Abuser::call_step() {
  kvc_step step = {};
  step.struct_size = random_.chance(97) ? sizeof step : random_.below(6000) / 8 * 8;
  if (step.struct_size > sizeof step) step.struct_size = 8;
  uint64_t frees[2] = {any(live_), any(live_)}, requests[2] = {any(live_), any(live_)},
           committed[2] = {number(), 0};
  uint64_t lengths[2] = {number(), number()}, offsets[3] = {0, random_.below(3), 3}, made[2] = {},
           cached[2] = {};
  uint64_t admits[2] = {any(live_), 0}, admit_offsets[3] = {0, random_.below(5), 8};
  int32_t prompt[8] = {1, 1, 2, 2, 1, 1, 2, random_.chance(95) ? 2 : -1}, rows[4] = {0, 1, 2, 3};
  kvc_status status[16] = {};
  if (random_.chance(5)) offsets[1] = random_.next();
  if (random_.chance(5)) admit_offsets[random_.below(3)] = random_.next();
  if (random_.chance(5)) rows[random_.below(4)] = static_cast<int32_t>(random_.next());
  step.fill_id = -1, step.flags = static_cast<uint32_t>(random_.below(random_.chance(98) ? 4 : 64));
  step.num_frees = random_.below(3), step.num_preempts = random_.below(2),
  step.num_truncates = random_.below(2);
  step.num_requests = random_.below(3), step.num_admissions = random_.below(3);
  if (random_.chance(2)) step.num_requests = SIZE_MAX >> random_.below(32);
  step.frees = frees, step.preempts = frees + 1, step.truncates = requests + 1,
  step.truncate_lengths = lengths;
  step.requests = requests, step.committed = random_.chance(50) ? committed : nullptr;
  step.extend_offsets = random_.chance(70) ? offsets : nullptr, step.extend_tokens = prompt;
  step.admit_requests = random_.chance(50) ? admits : nullptr, step.admit_offsets = admit_offsets;
  step.admit_tokens = prompt, step.status = status, step.admitted = made, step.cached = cached;
  step.block_tables = random_.chance(70) ? blocks_ : nullptr, step.num_rows = 4, step.row_stride = kRoom / 4;
  step.rows = rows, step.slots = random_.chance(70) ? slots_ : nullptr, step.slot_capacity = kRoom;
  step.copies = copies_, step.copy_capacity = random_.chance(95) ? kRoom : 0;
  step.retired_step = random_.chance(95) ? 0 : random_.next();
  const kvc_status whole = kvc_manager_step(m_, static_cast<kvc_step*>(maybe(&step)));
  if (whole != KVC_OK) return whole;
  for (size_t i = 0; i < step.num_admissions; ++i)
    if (made[i] != 0) learn(live_, made[i]);
  EXPECT_EQ(kvc_manager_retire_step(m_, step.step_id), KVC_OK) << kvc_last_error();
  return KVC_OK;
}

TEST(Abuse, RandomCallsAreRefusedWithoutEffectOrAreFine) {
  std::atomic<bool> stop{false};
  std::thread others([&] {  // other managers end while this one works
    while (!stop) {
      Abuser abuser(7);
      abuser.run(200);
    }
  });
  Abuser abuser(seed_);
  abuser.run(calls_);
  stop = true;
  others.join();
  uint64_t done = 0, refused = 0;
  for (int kind = 0; kind < Abuser::kKinds; ++kind) {
    EXPECT_GT(abuser.done[kind], calls_ / 2000) << "kind " << kind;
    EXPECT_GT(abuser.refused[kind], calls_ / 2000) << "kind " << kind;
    done += abuser.done[kind], refused += abuser.refused[kind];
  }
  std::printf("%llu calls done, %llu refused, seed %llu\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(seed_));
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--calls") == 0) calls_ = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) seed_ = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return RUN_ALL_TESTS();
}
