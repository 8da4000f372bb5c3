// SPDX-License-Identifier: Apache-2.0
// Manifests of checkpoints: any bytes are refused with a text, and so is what is malformed behind right
// checksums; what is accepted can be restored, and the manager is sound then.

#include <kvcache/prefix.h>
#include <kvcache/quota.h>
#include <kvcache/retention.h>

#include <cstring>
#include <string>
#include <vector>

#include "api/guard.h"
#include "base/crc32c.h"
#include "checkpoint/manifest.h"
#include "fuzz/target.h"
#include "manager/restore.h"

namespace {

constexpr size_t kHeader = 128, kSections = 14;

kvc_manager* make_manager(const kvc::Manifest& like) {
  std::vector<kvc_group_config> groups(like.groups.size());
  std::vector<kvc_pool_config> pools(like.contents.pools.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].struct_size = sizeof groups[g];
    groups[g].kind = KVC_GROUP_FULL;
    groups[g].pool = like.groups[g].pool;
  }
  for (kvc_pool_config& pool : pools) pool = {sizeof(kvc_pool_config), 16, 0};
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.block_size = like.contents.block_size;
  config.groups = groups.data(), config.num_groups = groups.size();
  config.pools = pools.data(), config.num_pools = pools.size();
  config.max_requests = 4, config.max_request_tokens = 256;
  config.flags = KVC_MANAGER_HINTS;
  config.policy = like.contents.lists.policy <= KVC_POLICY_FRAGMENTATION ? like.contents.lists.policy : 0u;
  config.event_capacity = 16;
  config.max_quotas = 2;
  config.seed = 1;
  kvc_manager* m = nullptr;
  return kvc_manager_create(&config, &m) == KVC_OK ? m : nullptr;
}

void read(const std::string& bytes) {
  kvc::Manifest manifest;
  const kvc_status status = kvc::decode_manifest("fuzz", bytes.data(), bytes.size(), &manifest);
  if (status != KVC_OK) {
    FUZZ_REQUIRE(kvc_last_error()[0] != '\0', "an error without a text");
    return;
  }
  const std::vector<kvc::Digest256> digests = manifest.contents.position_digests();
  static_cast<void>(manifest.contents.digest(digests));
  kvc::Manifest again;
  const std::string encoded = kvc::encode_manifest(manifest);
  FUZZ_REQUIRE(kvc::decode_manifest("again", encoded.data(), encoded.size(), &again) == KVC_OK,
               kvc_last_error());
  kvc_manager* m = make_manager(manifest);
  if (m == nullptr) return;
  uint64_t before = 0, after = 0;
  kvc_manager_digest(m, &before);
  {
    kvc::Restore restore(*m->impl, manifest.contents);
    kvc_status restored = restore.take();
    if (restored == KVC_OK) restored = restore.finish();
    FUZZ_REQUIRE(restored == KVC_OK || kvc_last_error()[0] != '\0', "an error without a text");
    if (restored == KVC_OK) before = 0;
  }
  kvc_manager_digest(m, &after);
  FUZZ_REQUIRE(before == 0 || before == after, "a failed restore changed the manager");
  FUZZ_REQUIRE(kvc_manager_check(m) == KVC_OK, kvc_last_error());
  kvc_manager_destroy(m);
}

// A small manifest with some of everything.
std::string beginning() {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = 16, config.block_size = 2, config.max_requests = 4, config.max_request_tokens = 64;
  config.seed = 1, config.max_quotas = 2;
  kvc_manager* m = nullptr;
  FUZZ_REQUIRE(kvc_manager_create(&config, &m) == KVC_OK, kvc_last_error());
  kvc_namespace_config tenant = {};
  tenant.struct_size = sizeof tenant;
  tenant.tenant = "t", tenant.tenant_size = 1;
  uint64_t ns = 0, id = 0;
  FUZZ_REQUIRE(kvc_manager_open_namespace(m, &tenant, &ns) == KVC_OK, kvc_last_error());
  const int32_t tokens[7] = {1, 2, 3, 4, 5, 6, 7};
  kvc_extra_key key = {};
  key.first_token = 1, key.num_tokens = 2;
  for (int i = 0; i < 3; ++i) {
    const kvc_prompt prompt = {sizeof prompt, i == 1 ? ns : 0, tokens + i % 2, 6, &key, 1};
    FUZZ_REQUIRE(kvc_manager_allocate_request(m, &prompt, nullptr, &id, nullptr) == KVC_OK, kvc_last_error());
    FUZZ_REQUIRE(kvc_manager_commit_tokens(m, id, 6) == KVC_OK, kvc_last_error());
    if (i != 2) kvc_manager_free_request(m, id);
  }
  FUZZ_REQUIRE(kvc_manager_set_quota(m, ns, 0, 2, 8) == KVC_OK, kvc_last_error());
  const kvc_prompt system = {sizeof system, 0, tokens, 6, &key, 1};
  uint64_t pinned = 0;
  FUZZ_REQUIRE(kvc_manager_register_prompt(m, "system", &system, &pinned) == KVC_OK, kvc_last_error());
  kvc::Manifest manifest;
  FUZZ_REQUIRE(m->impl->read_contents(true, &manifest.contents) == KVC_OK, kvc_last_error());
  kvc_manager_destroy(m);
  manifest.id = 1;
  manifest.model = "model", manifest.weights = "weights";
  manifest.groups.push_back({});
  manifest.groups[0].has_pages = 1;
  manifest.groups[0].part_bytes = 100;
  manifest.files.push_back({1, 8192, 5, 0});
  manifest.codecs.emplace_back("lz4");
  for (const kvc::Contents::Pool& pool : manifest.contents.pools) {
    for (size_t i = 0; i < pool.blocks.size(); ++i)
      manifest.pages.push_back(
          {{}, 4096 + 100 * i, i % 2 != 0 ? 50u : 100u, 0, 7, static_cast<uint32_t>(i % 2), 0});
  }
  return kvc::encode_manifest(manifest);
}

template <typename T>
T get(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
void put(std::string* bytes, size_t at, uint32_t value) {
  std::memcpy(bytes->data() + at, &value, sizeof value);
}

// Makes all checksums right.
void seal(std::string* bytes) {
  for (size_t i = 0; i < kSections; ++i) {
    const size_t entry = kHeader + 32 * i;
    const auto offset = get<uint64_t>(*bytes, entry + 8), size = get<uint64_t>(*bytes, entry + 16);
    if (offset <= bytes->size() && size <= bytes->size() - offset)
      put(bytes, entry + 4, kvc::crc32c(bytes->data() + offset, size));
  }
  put(bytes, 120, kvc::crc32c(bytes->data() + kHeader, 32 * kSections));
  put(bytes, 124, kvc::crc32c(bytes->data(), 124));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read({reinterpret_cast<const char*>(data), size});
  static const std::string first = [] {
    std::string made = beginning();
    kvc::Manifest manifest;
    FUZZ_REQUIRE(kvc::decode_manifest("first", made.data(), made.size(), &manifest) == KVC_OK,
                 kvc_last_error());
    return made;
  }();
  // The input is a list of changes to that one: where, and what.
  std::string bytes = first;
  for (size_t i = 0; i + 3 <= size; i += 3) {
    const size_t at = (data[i] | size_t{data[i + 1]} << 8) % bytes.size();
    bytes[at] = static_cast<char>(data[i + 2]);
  }
  seal(&bytes);
  read(bytes);
  return 0;
}
