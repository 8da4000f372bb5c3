// SPDX-License-Identifier: Apache-2.0
// What the decoder takes and what it refuses: each form of a value, fields in any order, unknown ones; and
// every cut and every changed byte of good batches, read from memory that ends where they end.
#include "events/decode.h"

#include <gtest/gtest.h>
#include <kvcache/events.h>

#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "golden.h"
#include "seed.h"

namespace kvc {
namespace {

// A batch written by hand: each function appends a value.
class Text {
 public:
  Text& raw(std::initializer_list<int> bytes) {
    for (const int byte : bytes) out_ += static_cast<char>(byte);
    return *this;
  }
  Text& array(int count) { return raw({0x90 | count}); }
  Text& map(int count) { return raw({0x80 | count}); }
  Text& nil() { return raw({0xc0}); }
  Text& number(int value) { return raw({0xcd, value >> 8, value & 255}); }
  Text& text(const std::string& value) {
    raw({0xd9, static_cast<int>(value.size())});
    out_ += value;
    return *this;
  }
  Text& real() { return raw({0xcb, 0x41, 0xda, 0xac, 0x4e, 0xe0, 0x10, 0, 0}); }
  // The beginning of a batch of one event, whose rank is left out.
  Text& batch() { return array(2).real().array(1); }
  Text& field(const char* name) { return text(name); }
  Text& stored(int block_size = 1) {  // seven fields
    return field("type")
        .text("BlockStored")
        .field("block_hashes")
        .array(1)
        .number(7)
        .field("token_ids")
        .array(1)
        .number(70)
        .field("block_size")
        .number(block_size)
        .field("parent_block_hash")
        .nil();
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

// The input in memory of its size, behind which the address sanitizer looks.
kvc_status decode(WireDecoder& decoder, const std::string& bytes) {
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  const kvc_status status = decoder.decode(exact.get(), bytes.size());
  EXPECT_TRUE(status == KVC_OK || decoder.events().empty());
  for (const WireEvent& event : decoder.events()) {
    for (const std::string_view text : {event.medium, event.lora_name, event.spec_kind}) {
      if (text.data() == nullptr) continue;
      const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
      EXPECT_TRUE(begin >= exact.get() && begin + text.size() <= exact.get() + bytes.size());
    }
    EXPECT_TRUE(event.tokens.empty() || event.tokens.size() == event.hashes.size() * event.block_size);
    EXPECT_TRUE(event.extra_keys.empty() || event.extra_keys.size() == event.hashes.size());
    for (const int32_t token : event.tokens) EXPECT_GE(token, 0);
  }
  return status;
}

std::vector<std::string> golden_batches() {
  std::ifstream file(std::string(kGoldenFolder) + "/golden_batches.txt");
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    const std::string digits = line.substr(line.rfind(' ') + 1);
    std::string& bytes = all.emplace_back();
    for (size_t i = 0; i < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  EXPECT_EQ(all.size(), 48u);
  return all;
}

TEST(WireDecoder, TakesFieldsInAnyOrderAndPassesOverOthers) {
  Text text;
  text.batch().map(9).field("block_size").number(2).field("new_field").map(1).text("a").array(2).nil().map(0);
  text.field("token_ids").raw({0x92, 0xcc, 200, 0xce, 0, 1, 0, 0}).field("medium").text("CPU");
  text.field("block_hashes")
      .raw({0x91, 0xc4, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9})
      .field("parent_block_hash")
      .raw({0xd0, 0xff});
  text.field("extra_keys")
      .array(1)
      .array(1)
      .text("x")
      .field("lora_id")
      .number(5)
      .field("type")
      .text("BlockStored");
  WireDecoder decoder;
  ASSERT_EQ(decode(decoder, text.bytes()), KVC_OK) << last_error();
  ASSERT_EQ(decoder.events().size(), 1u);
  const WireEvent& event = decoder.events()[0];
  EXPECT_EQ(event.kind, static_cast<uint32_t>(KVC_EVENT_STORED));
  EXPECT_EQ(event.hashes[0], 0x0203040506070809u) << "the last eight bytes";
  EXPECT_TRUE(event.has_parent);
  EXPECT_EQ(event.parent, ~uint64_t{0}) << "-1";
  EXPECT_EQ(event.tokens[0], 200);
  EXPECT_EQ(event.tokens[1], 65536);
  EXPECT_EQ(event.lora_id, 5);
  EXPECT_EQ(event.extra_keys[0].size(), 4u);
  EXPECT_EQ(event.group, -1);
  EXPECT_EQ(decoder.rank(), -1);
  EXPECT_EQ(decoder.time(), 1790000000.25);
}

TEST(WireDecoder, TakesOlderAndNewerArrays) {
  WireDecoder decoder;
  // SGLang before it had a medium; a later vLLM with more fields; a tier that tells hashes alone.
  ASSERT_EQ(decode(decoder, Text()
                                .batch()
                                .array(6)
                                .text("BlockStored")
                                .array(1)
                                .number(7)
                                .nil()
                                .array(1)
                                .number(70)
                                .number(1)
                                .nil()
                                .bytes()),
            KVC_OK)
      << last_error();
  EXPECT_EQ(decoder.events()[0].medium.data(), nullptr);
  ASSERT_EQ(decode(decoder, Text()
                                .batch()
                                .array(6)
                                .text("BlockRemoved")
                                .array(1)
                                .number(7)
                                .text("GPU")
                                .number(2)
                                .text("new")
                                .array(1)
                                .nil()
                                .bytes()),
            KVC_OK)
      << last_error();
  EXPECT_EQ(decoder.events()[0].group, 2);
  ASSERT_EQ(decode(decoder, Text()
                                .batch()
                                .array(7)
                                .text("BlockStored")
                                .array(2)
                                .number(7)
                                .number(8)
                                .nil()
                                .array(0)
                                .number(16)
                                .nil()
                                .text("CPU")
                                .bytes()),
            KVC_OK)
      << last_error();
  EXPECT_EQ(decoder.events()[0].hashes.size(), 2u);
  EXPECT_TRUE(decoder.events()[0].tokens.empty());
}

TEST(WireDecoder, RefusesWithATextThatSaysWhere) {
  const auto event = [](int fields) { return Text().batch().map(fields); };
  Text deep;
  deep.batch().map(6).stored().field("x");
  for (int i = 0; i < 17; ++i) deep.array(1);
  deep.nil();
  const struct {
    Text text;
    kvc_status status;
    const char* says;
  } cases[] = {
      {Text(), KVC_ERROR_CORRUPT, "byte 0: the 0 bytes that follow are no value"},
      {Text().raw({0xc1}), KVC_ERROR_CORRUPT, "byte 0: the 1 bytes"},
      {Text().map(0), KVC_ERROR_CORRUPT, "the batch is a map; it must be an array"},
      {Text().array(1).real(), KVC_ERROR_CORRUPT, "the batch is an array of 1"},
      {Text().array(2).text("now").array(0), KVC_ERROR_CORRUPT, "the time of the batch is a text"},
      {Text().array(2).real().number(3), KVC_ERROR_CORRUPT, "the list of events is an integer (3)"},
      {Text().array(3).real().array(0).text("0"), KVC_ERROR_CORRUPT, "the rank of the batch is a text"},
      {Text().array(2).real().array(0).nil(), KVC_ERROR_CORRUPT,
       "1 bytes follow the batch, which ends at byte 11"},
      {Text().batch().nil(), KVC_ERROR_CORRUPT, "it is nil; it must be a map, or an array"},
      {Text().batch().array(1).number(1), KVC_ERROR_CORRUPT, "type is an integer (1)"},
      {Text().batch().array(1).text("BlockMoved"), KVC_ERROR_UNSUPPORTED,
       "event 0 is of the type \"BlockMoved\""},
      {event(1).field("medium").nil(), KVC_ERROR_CORRUPT, "the map has no \"type\""},
      {event(2).field("type").text("AllBlocksCleared").nil().nil(), KVC_ERROR_CORRUPT,
       "a key of the map is nil"},
      {event(2).field("type").text("AllBlocksCleared").field("type").text("AllBlocksCleared"),
       KVC_ERROR_CORRUPT, "event 0 has two types"},
      {event(6).stored().field("block_size").number(1), KVC_ERROR_CORRUPT, "it has block_size twice"},
      {event(1).field("type").text("BlockRemoved"), KVC_ERROR_CORRUPT,
       "event 0 (BlockRemoved) has no block_hashes"},
      {event(2).field("type").text("BlockStored").field("block_hashes").array(0), KVC_ERROR_CORRUPT,
       "event 0 (BlockStored) has no parent_block_hash"},
      {event(5).stored(2), KVC_ERROR_CORRUPT, "event 0 has 1 tokens; 1 blocks of 2 tokens need 2, or none"},
      {event(6).stored().field("extra_keys").array(0), KVC_OK, ""},
      {event(6).stored().field("extra_keys").array(2).nil().nil(), KVC_ERROR_CORRUPT,
       "has 2 extra_keys; its 1 blocks"},
      {event(6).stored().field("extra_keys").array(1).text("x"), KVC_ERROR_CORRUPT,
       "an entry of extra_keys is a text"},
      {event(6).stored().field("group_idx").raw({0xff}), KVC_ERROR_CORRUPT,
       "group_idx is a negative integer (-1)"},
      {event(6).stored().field("group_idx").raw({0xce, 0xff, 0, 0, 0}), KVC_ERROR_CORRUPT,
       "group_idx is an integer (4278190080)"},
      {event(6).stored().field("medium").number(1), KVC_ERROR_CORRUPT,
       "medium is an integer (1); it must be a text or nil"},
      {event(2)
           .field("type")
           .text("BlockRemoved")
           .field("block_hashes")
           .raw({0x91, 0xc4, 7, 1, 2, 3, 4, 5, 6, 7}),
       KVC_ERROR_CORRUPT, "an entry of block_hashes is bytes; it must be an integer, or 8 bytes or more"},
      {event(2).field("type").text("BlockStored").field("token_ids").raw({0x91, 0xce, 0x80, 0, 0, 0}),
       KVC_ERROR_CORRUPT, "an entry of token_ids is an integer (2147483648)"},
      {event(2).field("type").text("BlockStored").field("token_ids").raw({0x91, 0xff}), KVC_ERROR_CORRUPT,
       "an entry of token_ids is a negative integer (-1)"},
      {event(2).field("type").text("BlockRemoved").field("block_hashes").raw({0xdd, 0xff, 0xff, 0xff, 0xff}),
       KVC_ERROR_CORRUPT, "are no value of MessagePack"},  // more entries than bytes
      {deep, KVC_ERROR_CORRUPT, "are no value of MessagePack"},
  };
  WireDecoder decoder;
  for (const auto& c : cases) {
    SCOPED_TRACE(c.says);
    EXPECT_EQ(decode(decoder, c.text.bytes()), c.status);
    if (c.status == KVC_OK) continue;
    EXPECT_NE(std::string(last_error()).find(c.says), std::string::npos) << last_error();
  }
}

TEST(WireDecoder, RefusesEveryCut) {
  WireDecoder decoder;
  for (const std::string& bytes : golden_batches()) {
    ASSERT_EQ(decode(decoder, bytes), KVC_OK) << last_error();
    for (size_t size = 0; size < bytes.size(); ++size)
      ASSERT_EQ(decode(decoder, bytes.substr(0, size)), KVC_ERROR_CORRUPT) << size << " of " << bytes.size();
  }
}

TEST(WireDecoder, StaysInItsInputWhateverIsChanged) {
  std::mt19937_64 random(test::test_seed());
  WireDecoder decoder;
  size_t refused = 0, taken = 0;
  for (const std::string& bytes : golden_batches()) {
    for (int i = 0; i < 2000; ++i) {
      std::string changed = bytes;
      for (uint64_t n = random() % 4 + 1; n != 0; --n)
        changed[random() % changed.size()] = static_cast<char>(random());
      if (random() % 8 == 0) changed.resize(random() % changed.size() + 1);
      if (random() % 8 == 0) changed.insert(random() % changed.size(), changed.substr(0, random() % 40));
      ++(decode(decoder, changed) == KVC_OK ? taken : refused);
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(taken, 0u);
}

}  // namespace
}  // namespace kvc
