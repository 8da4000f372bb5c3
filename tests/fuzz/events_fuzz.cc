// SPDX-License-Identifier: Apache-2.0
// Batches of events as they come from the wire. A batch that is taken has arrays of the lengths that its
// events say, and one that is written anew from it is read as the same events.
#include <kvcache/events.h>

#include <cstring>
#include <string>
#include <vector>

#include "events/decode.h"
#include "events/encode.h"
#include "fuzz/target.h"

namespace {

using namespace kvc;

Digest256 digest_of(uint64_t number) {
  Digest256 digest = {};
  for (size_t i = 0; i < sizeof number; ++i) digest.bytes[31 - i] = static_cast<uint8_t>(number >> (8 * i));
  return digest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  WireDecoder decoder;
  const kvc_status status = decoder.decode(data, size);
  FUZZ_REQUIRE(status == KVC_OK || status == KVC_ERROR_CORRUPT || status == KVC_ERROR_UNSUPPORTED, "status");
  FUZZ_REQUIRE(status == KVC_OK || decoder.events().empty(), "events of a batch that is refused");
  for (const WireEvent& event : decoder.events()) {
    FUZZ_REQUIRE(event.extra_keys.empty() || event.extra_keys.size() == event.hashes.size(), "extra keys");
    FUZZ_REQUIRE(event.tokens.empty() || event.tokens.size() == event.hashes.size() * event.block_size,
                 "tokens");
    if (event.kind == KVC_EVENT_STORED && event.tokens.empty() && event.block_size != 0) continue;
    std::vector<Digest256> hashes;
    for (const uint64_t hash : event.hashes) hashes.push_back(digest_of(hash));
    const Digest256 parent = digest_of(event.parent);
    const std::vector<Digest256> extras(hashes.size(), Digest256{});
    const WireGroup group = {event.spec_kind.empty() ? std::string_view() : event.spec_kind, 0};
    WireFormat format;
    format.arrays = size % 2 == 1;
    format.block_size = event.block_size;
    format.medium = event.medium;
    const WireRun run = {
        event.kind,     0, event.has_parent ? &parent : nullptr, hashes, event.tokens.data(), extras.data(),
        event.lora_name};
    std::vector<uint8_t> bytes(wire_bound(format, {&group, 1}, {&run, 1}));
    bytes.resize(encode_batch(format, 1.5, {&group, 1}, {&run, 1}, bytes.data()));
    WireDecoder again;
    FUZZ_REQUIRE(again.decode(bytes.data(), bytes.size()) == KVC_OK, last_error());
    FUZZ_REQUIRE(again.events().size() == 1, "one event");
    const WireEvent& other = again.events()[0];
    FUZZ_REQUIRE(other.kind == event.kind, "kind");
    if (event.kind == KVC_EVENT_ALL_CLEARED) continue;
    FUZZ_REQUIRE(
        std::equal(other.hashes.begin(), other.hashes.end(), event.hashes.begin(), event.hashes.end()),
        "hashes");
    if (event.kind == KVC_EVENT_REMOVED) continue;
    FUZZ_REQUIRE(
        std::equal(other.tokens.begin(), other.tokens.end(), event.tokens.begin(), event.tokens.end()),
        "tokens");
    FUZZ_REQUIRE(other.has_parent == event.has_parent && other.parent == event.parent, "parent");
    FUZZ_REQUIRE(other.lora_name == event.lora_name, "adapter");
  }
  return 0;
}
