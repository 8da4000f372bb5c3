// SPDX-License-Identifier: Apache-2.0
// Random arguments, most of them good: ids that are live, stale, of another manager or of another kind,
// forged in one bit or 0; NULL where that is wrong, tokens and keys out of range, lengths up to SIZE_MAX.
#pragma once
#include <kvcache/manager.h>
#include <kvcache/request.h>

#include <vector>

#include "property/random.h"

namespace kvc::test {

constexpr uint64_t kBlocks = 24, kRequests = 6, kMaxTokens = 64;
constexpr size_t kRoom = 256;  // entries of every array that is written, more than any answer has

class BadArguments {
 protected:
  explicit BadArguments(uint64_t seed) : random_(seed) {}
  ~BadArguments() = default;

  // Those up to 3 are good.
  const kvc_namespace_config* identity(uint64_t i) {
    static const char names[] = "abcdefgh";
    kvc_namespace_config& named = identity_.config;
    named = {};
    named.struct_size = sizeof named;
    named.tenant = names + i % 4, named.tenant_size = 1;
    if (i <= 3) return &named;
    if (random_.chance(5)) named.struct_size = random_.below(5000) / 8 * 8;
    if (random_.chance(5)) named.tenant = nullptr;
    if (random_.chance(3)) named.model = names, named.model_size = 65537;
    return random_.chance(98) ? &named : nullptr;
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
    const uint64_t apart = random_.chance(50) ? 8 : 0;
    for (size_t i = 0; i < n; ++i)
      keys_[i] = {apart * i + random_.below(6), random_.below(5), {static_cast<uint8_t>(random_.below(2))}};
    if (n != 0 && random_.chance(10)) keys_[n - 1].num_tokens = random_.next();
    *count = n;
    if (random_.chance(2)) *count = SIZE_MAX >> random_.below(56);
    if (*count > n && *count <= 1024) *count = n;  // as many as there may be over the tokens: would be read
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
  uint32_t group() {
    return random_.chance(90) ? static_cast<uint32_t>(random_.chance(10))
                              : static_cast<uint32_t>(random_.next());
  }
  const kvc_request_config* config() {
    if (random_.chance(60)) return nullptr;
    config_ = {};
    config_.struct_size = random_.chance(95) ? sizeof config_ : random_.below(sizeof config_);
    if (random_.chance(20)) config_.slots = number();
    if (random_.chance(10)) config_.lookahead = number();
    if (random_.chance(10)) config_.external_tokens = number();
    if (random_.chance(10)) config_.max_cached_tokens = number();
    if (random_.chance(5)) config_.flags = static_cast<uint32_t>(random_.below(32));
    if (random_.chance(20)) config_.headroom = static_cast<uint32_t>(random_.below(5));
    if (random_.chance(15)) config_.cross_tokens = random_.chance(80) ? random_.below(20) : number();
    if (random_.chance(15)) config_.cross_digest[0] = static_cast<uint8_t>(random_.below(3));
    if (random_.chance(10)) config_.drop_tail_blocks = static_cast<uint32_t>(number());
    return &config_;
  }
  // External blocks that are held, or not.
  size_t some_blocks() {
    const size_t n = random_.below(5);
    for (size_t i = 0; i < n; ++i) {
      blocks_[i] = !external_.empty() && random_.chance(80)
                       ? external_[random_.below(external_.size())]
                       : static_cast<int32_t>(random_.below(kBlocks + 4)) - 2;
      if (random_.chance(2)) blocks_[i] = static_cast<int32_t>(random_.next());
    }
    return n;
  }
  void* maybe(void* pointer) { return random_.chance(98) ? pointer : nullptr; }
  uint64_t* id_out() { return static_cast<uint64_t*>(maybe(&id_)); }
  size_t* count_out() { return static_cast<size_t*>(maybe(&count_)); }

  Random random_;
  uint64_t id_ = 0;
  size_t count_ = 0;
  std::vector<uint64_t> live_, pins_, namespaces_, known_;
  std::vector<int32_t> tokens_, external_;
  std::vector<kvc_extra_key> keys_;
  struct {
    kvc_namespace_config config;
    char beyond[4096];  // what a struct_size that is too large claims
  } identity_ = {};
  kvc_request_config config_ = {};
  int32_t blocks_[kRoom] = {};
};

}  // namespace kvc::test
