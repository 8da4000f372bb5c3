// SPDX-License-Identifier: Apache-2.0
// Batches and hashes equal those of vLLM's own encoder and hash function, byte for byte (golden.py), and what
// is read back is what was written.
#include "golden.h"

#include <gtest/gtest.h>
#include <kvcache/events.h>

#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "events/decode.h"
#include "events/encode.h"
#include "events/hash_chain.h"

namespace kvc {
namespace {

constexpr double kTime = 1790000000.25;

Digest256 sha_of(const std::string& text) {
  Sha256 sha;
  sha.update(text.data(), text.size());
  return sha.finish();
}
Digest256 digest(size_t number) { return sha_of("block " + std::to_string(number)); }
Digest256 extra(size_t number) { return sha_of("image " + std::to_string(number)); }
std::string hex(const void* data, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    const uint8_t byte = static_cast<const uint8_t*>(data)[i];
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}
std::string hex(const Digest256& d) { return hex(d.bytes, sizeof d.bytes); }

std::vector<int32_t> tokens(uint64_t first, size_t count) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(static_cast<int32_t>((first + i) * 7919 % (uint64_t{1} << (7 * (i % 4 + 1)))));
  return out;
}

// A batch with the memory that its runs point to.
class Batch {
 public:
  explicit Batch(int64_t rank) { format.rank = rank; }

  Batch& group(const char* kind, uint32_t window) {
    groups.push_back({kind, window});
    return *this;
  }
  Batch& store(int parent, std::vector<size_t> blocks, uint64_t first_token, uint32_t group = 0,
               std::string_view lora = {}, std::map<size_t, size_t> images = {}) {
    WireRun run;
    run.kind = KVC_EVENT_STORED;
    run.group = group;
    if (parent >= 0) run.parent = &digests({static_cast<size_t>(parent)})[0];
    run.hashes = digests(blocks);
    run.tokens = tokens_.emplace_back(tokens(first_token, format.block_size * blocks.size())).data();
    std::vector<Digest256>& extras = digests_.emplace_back(blocks.size(), Digest256{});
    for (const auto& [block, image] : images) extras[block] = extra(image);
    run.extras = extras.data();
    run.lora_name = lora;
    runs.push_back(run);
    return *this;
  }
  Batch& remove(std::vector<size_t> blocks, uint32_t group = 0) {
    WireRun run;
    run.kind = KVC_EVENT_REMOVED;
    run.group = group;
    run.hashes = digests(blocks);
    runs.push_back(run);
    return *this;
  }
  Batch& clear() {
    runs.emplace_back().kind = KVC_EVENT_ALL_CLEARED;
    return *this;
  }
  std::vector<uint8_t> encode() const {
    const size_t bound = wire_bound(format, groups, runs);
    std::vector<uint8_t> out(bound + 16, 0xc1);
    const size_t size = encode_batch(format, kTime, groups, runs, out.data());
    EXPECT_LE(size, bound);
    for (size_t i = size; i < out.size(); ++i) EXPECT_EQ(out[i], 0xc1) << "written behind its end";
    out.resize(size);
    return out;
  }

  WireFormat format;
  std::vector<WireGroup> groups;
  std::vector<WireRun> runs;

 private:
  std::vector<Digest256>& digests(const std::vector<size_t>& blocks) {
    std::vector<Digest256>& out = digests_.emplace_back();
    for (const size_t block : blocks) out.push_back(digest(block));
    return out;
  }
  std::deque<std::vector<int32_t>> tokens_;
  std::deque<std::vector<Digest256>> digests_;
};

std::vector<size_t> range(size_t count) {
  std::vector<size_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(i);
  return out;
}

// Those of golden.py.
std::map<std::string, Batch> all_batches() {
  std::map<std::string, Batch> all;
  const auto add = [&](const char* name, int64_t rank) -> Batch& {
    return all.emplace(name, rank).first->second;
  };
  add("plain", 0).group("", 0).store(-1, {0, 1}, 0);
  add("empty", 7);
  add("cleared", -1).clear();
  add("groups", 300)
      .group("full_attention", 0)
      .group("sliding_window", 4096)
      .store(-1, {0}, 5)
      .store(0, {1, 2}, 21, 1)
      .remove({2}, 1)
      .remove({0, 1})
      .clear()
      .store(-1, {3}, 0);
  add("keys", 3)
      .group("full_attention", 0)
      .group("", 0)
      .store(-1, {4, 5}, 0, 0, "sql-adapter", {{1, 1}})
      .store(5, {6, 7}, 9, 0, {}, {{1, 2}})
      .store(7, {8}, 9, 1, "");
  Batch& cpu = add("cpu", 70000);
  cpu.format.medium = "CPU";
  cpu.group("", 0).store(-1, range(20), 1).remove(range(40));
  for (const size_t count : {15u, 16u}) {
    Batch& many = add(count == 15 ? "many15" : "many16", 0).group("", 0);
    for (size_t i = 0; i < count; ++i) many.remove({i});
  }
  return all;
}

void set_way(const std::string& form, const std::string& way, WireFormat* format) {
  format->arrays = form == "array";
  format->hash = way == "u64"   ? WireHash::kLastBytes
                 : way == "i64" ? WireHash::kFirstBytes
                                : WireHash::kBytes;
}

std::ifstream golden(const char* name) {
  std::ifstream file(std::string(kGoldenFolder) + "/" + name);
  EXPECT_TRUE(file.good()) << name;
  return file;
}

TEST(GoldenEvents, EqualThoseOfTheEngineByteForByte) {
  std::map<std::string, Batch> all = all_batches();
  std::ifstream file = golden("golden_batches.txt");
  size_t compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, form, way, bytes;
    words >> name >> form >> way >> bytes;
    ASSERT_EQ(all.count(name), 1u) << name;
    Batch& batch = all.at(name);
    set_way(form, way, &batch.format);
    const std::vector<uint8_t> own = batch.encode();
    EXPECT_EQ(hex(own.data(), own.size()), bytes) << name << " " << form << " " << way;
    ++compared;
  }
  EXPECT_EQ(compared, all.size() * 6);
}

uint64_t number_of(const Digest256& digest, WireHash way) {
  uint64_t out = 0;
  const size_t first = way == WireHash::kFirstBytes ? 0 : 24;
  for (size_t i = first; i < first + 8; ++i) out = out << 8 | digest.bytes[i];
  return out;
}

TEST(GoldenEvents, AreReadBackAsTheyWereWritten) {
  WireDecoder decoder;
  for (auto& [name, batch] : all_batches()) {
    for (const char* form : {"map", "array"}) {
      for (const char* way : {"u64", "i64", "bytes"}) {
        SCOPED_TRACE(name + " " + form + " " + way);
        set_way(form, way, &batch.format);
        const std::vector<uint8_t> bytes = batch.encode();
        ASSERT_EQ(decoder.decode(bytes.data(), bytes.size()), KVC_OK) << last_error();
        EXPECT_EQ(decoder.time(), kTime);
        EXPECT_EQ(decoder.rank(), batch.format.rank);
        ASSERT_EQ(decoder.events().size(), batch.runs.size());
        for (size_t i = 0; i < batch.runs.size(); ++i) {
          const WireRun& run = batch.runs[i];
          const WireEvent& event = decoder.events()[i];
          EXPECT_EQ(event.kind, run.kind);
          if (run.kind == KVC_EVENT_ALL_CLEARED) continue;
          const WireGroup& group = batch.groups[run.group];
          EXPECT_EQ(event.group, group.kind.empty() ? -1 : static_cast<int32_t>(run.group));
          EXPECT_EQ(event.medium, batch.format.medium);
          ASSERT_EQ(event.hashes.size(), run.hashes.size());
          for (size_t j = 0; j < run.hashes.size(); ++j)
            EXPECT_EQ(event.hashes[j], number_of(run.hashes[j], batch.format.hash));
          if (run.kind == KVC_EVENT_REMOVED) continue;
          EXPECT_EQ(event.has_parent, run.parent != nullptr);
          EXPECT_EQ(event.parent, run.parent == nullptr ? 0 : number_of(*run.parent, batch.format.hash));
          EXPECT_EQ(event.block_size, batch.format.block_size);
          ASSERT_EQ(event.tokens.size(), run.hashes.size() * batch.format.block_size);
          EXPECT_TRUE(std::equal(event.tokens.begin(), event.tokens.end(), run.tokens));
          EXPECT_EQ(event.lora_name.data() == nullptr, run.lora_name.data() == nullptr);
          EXPECT_EQ(event.lora_name, run.lora_name);
          EXPECT_EQ(event.spec_kind, group.kind);
          for (size_t j = 0; j < event.extra_keys.size(); ++j)
            EXPECT_EQ(event.extra_keys[j].empty(),
                      run.lora_name.data() == nullptr && run.extras[j] == Digest256{});
        }
      }
    }
  }
}

TEST(GoldenHashes, EqualThoseOfTheEngine) {
  std::ifstream file = golden("golden_hashes.txt");
  size_t compared = 0;
  Digest256 parent = {};
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, size, hash;
    words >> name;
    if (name == "#") continue;
    if (name == "root") {
      words >> size >> hash;
      EXPECT_EQ(hex(vllm_root(size)), hash);
    } else if (name == "big") {  // counts of five bytes
      words >> size >> hash;
      Batch batch(0);
      batch.format.block_size = 1024;
      batch.format.hash = WireHash::kBytes;
      std::vector<int32_t> small;
      for (int32_t i = 0; i < 65536; ++i) small.push_back(i % 100);
      batch.group("", 0).store(-1, range(64), 0);
      batch.runs[0].tokens = small.data();
      const std::vector<uint8_t> bytes = batch.encode();
      EXPECT_EQ(std::to_string(bytes.size()), size);
      EXPECT_EQ(hex(sha_of({bytes.begin(), bytes.end()})), hash);
    } else {
      size_t place = 0;
      words >> size >> place >> hash;
      ChainKeys keys;
      if (name == "lora" || name == "all") keys.lora_name = "sql", keys.lora_path = "/adapters/sql";
      if (name == "all") keys.extra = extra(place);
      if ((name == "salt" || name == "all") && place == 0) keys.salt = "tenant";
      if (place == 0) parent = vllm_root("vllm-none-hash");
      const std::vector<int32_t> block = tokens(100 * place, std::stoul(size));
      parent = vllm_hash(parent, block.data(), block.size(), keys);
      EXPECT_EQ(hex(parent), hash) << line;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 3u + 4 * 3 * 3);
}

// SGLang: sha256(parent || tokens as little-endian uint32), by the tokens' bytes alone.
TEST(GoldenHashes, OfSGLangAreOfTheParentAndTheTokens) {
  const std::vector<int32_t> block = tokens(3, 16);
  const std::string bytes(reinterpret_cast<const char*>(block.data()), block.size() * sizeof(int32_t));
  const Digest256 first = sglang_hash(nullptr, block.data(), block.size(), {});
  EXPECT_EQ(first, sha_of(bytes));
  const std::string parent(reinterpret_cast<const char*>(first.bytes), sizeof first.bytes);
  EXPECT_EQ(sglang_hash(&first, block.data(), block.size(), {}), sha_of(parent + bytes));
}

}  // namespace
}  // namespace kvc
