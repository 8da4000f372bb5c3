// SPDX-License-Identifier: Apache-2.0
#include "events/encode.h"

#include <algorithm>

#include "events/hash_chain.h"
#include "events/msgpack.h"
#include "events/schema.h"

namespace kvc {
namespace {

constexpr size_t kHexBytes = 2 * sizeof(Digest256);

class BatchWriter {
 public:
  BatchWriter(const WireFormat& format, uint8_t* out) : format_(format), out_(out) {}
  uint8_t* at() const { return out_.at(); }

  void begin(double time, size_t num_events) {
    out_.array(3);
    out_.real(time);
    out_.array(static_cast<uint32_t>(num_events));
  }
  void end() {
    if (format_.rank < 0)
      out_.nil();
    else
      out_.integer(static_cast<uint64_t>(format_.rank));
  }

  void cleared() { head(KVC_EVENT_ALL_CLEARED, 0, 0); }

  void removed(const WireRun& run, const WireGroup& group) {
    const bool has_group = !group.kind.empty();
    head(KVC_EVENT_REMOVED, 3, 2 + has_group);
    hashes(run);
    medium();
    number_if(has_group, kGroupIdx, run.group);
  }

  void stored(const WireRun& run, const WireGroup& group) {
    const bool has_group = !group.kind.empty(), has_window = has_group && group.window != 0;
    const bool has_keys = run.lora_name.data() != nullptr ||
                          std::any_of(run.extras, run.extras + run.hashes.size(),
                                      [](const Digest256& extra) { return extra != Digest256{}; });
    head(KVC_EVENT_STORED, kNoField, 7 + has_keys + 2 * has_group + has_window);
    hashes(run);
    field(kParentBlockHash);
    if (run.parent == nullptr)
      out_.nil();
    else
      hash(*run.parent);
    field(kTokenIds);
    const size_t num_tokens = run.hashes.size() * format_.block_size;
    out_.array(static_cast<uint32_t>(num_tokens));
    for (size_t i = 0; i < num_tokens; ++i) out_.integer(static_cast<uint32_t>(run.tokens[i]));
    field(kBlockSize);
    out_.integer(format_.block_size);
    field(kLoraId);
    out_.nil();
    medium();
    field(kLoraName);
    text_or_nil(run.lora_name);
    if (has_keys)
      keys(run);
    else
      absent();
    number_if(has_group, kGroupIdx, run.group);
    if (has_group) {
      field(kSpecKind);
      out_.text(group.kind);
    } else {
      absent();
    }
    number_if(has_window, kSlidingWindow, group.window);
  }

 private:
  // An array has all fields, those that are absent as nil; a map has those that are present. msgspec gives
  // the count as many bytes as the class has fields for: BlockStored has 16.
  void head(uint32_t kind, int all, int present) {
    if (format_.arrays)
      out_.array(static_cast<uint32_t>(1 + all));
    else if (kind == KVC_EVENT_STORED)
      out_.wide_map(static_cast<uint16_t>(1 + present));
    else
      out_.map(static_cast<uint32_t>(1 + present));
    type(kind);
  }
  void absent() {
    if (format_.arrays) out_.nil();
  }
  void number_if(bool present, WireField name, uint32_t number) {
    if (!present) return absent();
    field(name);
    out_.integer(number);
  }
  void type(uint32_t kind) {
    if (!format_.arrays) out_.text("type");
    out_.text(type_name(kind));
  }
  void field(WireField field) {
    if (!format_.arrays) out_.text(kFieldNames[field]);
  }
  void medium() {
    field(kMedium);
    out_.text(format_.medium);
  }
  void text_or_nil(std::string_view text) {
    if (text.data() == nullptr)
      out_.nil();
    else
      out_.text(text);
  }
  void hash(const Digest256& digest) {
    uint64_t number;
    switch (format_.hash) {
      case WireHash::kLastBytes:
        std::memcpy(&number, digest.bytes + sizeof digest.bytes - sizeof number, sizeof number);
        return out_.integer(big_endian(number));
      case WireHash::kFirstBytes:
        std::memcpy(&number, digest.bytes, sizeof number);
        return out_.signed_integer(static_cast<int64_t>(big_endian(number)));
      case WireHash::kBytes:
        return out_.bytes(digest.bytes, sizeof digest.bytes);
    }
  }
  void hashes(const WireRun& run) {
    field(kBlockHashes);
    out_.array(static_cast<uint32_t>(run.hashes.size()));
    for (const Digest256& digest : run.hashes) hash(digest);
  }
  void keys(const WireRun& run) {
    field(kExtraKeys);
    out_.array(static_cast<uint32_t>(run.hashes.size()));
    const bool has_lora = run.lora_name.data() != nullptr;
    for (size_t i = 0; i < run.hashes.size(); ++i) {
      const bool has_extra = run.extras[i] != Digest256{};
      if (!has_lora && !has_extra) {
        out_.nil();
        continue;
      }
      out_.array(has_lora + has_extra);
      if (has_lora) out_.text(run.lora_name);
      if (!has_extra) continue;
      char hex[kHexBytes];
      to_hex(run.extras[i], hex);
      out_.array(2);
      out_.text({hex, sizeof hex});
      out_.integer(0);
    }
  }

  const WireFormat& format_;
  PackWriter out_;
};

}  // namespace

size_t wire_bound(const WireFormat& format, std::span<const WireGroup> groups,
                  std::span<const WireRun> runs) {
  constexpr size_t kBatch = 3 * PackWriter::kHead + 2 * PackWriter::kInteger;
  // Of an event: its fields with their names, and a number or the head of a value for each.
  size_t event = 64;
  for (const char* name : kFieldNames) event += PackWriter::text_bytes(name) + PackWriter::kInteger;
  size_t bytes = kBatch;
  for (const WireRun& run : runs) {
    bytes += event;
    if (run.kind == KVC_EVENT_ALL_CLEARED) continue;
    const size_t lora = PackWriter::text_bytes(run.lora_name);
    size_t block = sizeof(Digest256) + PackWriter::kHead;
    if (run.kind == KVC_EVENT_STORED)
      block += format.block_size * PackWriter::kHead + 2 * PackWriter::kHead + 1 + lora + PackWriter::kHead +
               kHexBytes;
    bytes += PackWriter::text_bytes(format.medium) + PackWriter::text_bytes(groups[run.group].kind) + lora +
             sizeof(Digest256) + PackWriter::kHead + run.hashes.size() * block;
  }
  return bytes;
}

size_t encode_batch(const WireFormat& format, double time, std::span<const WireGroup> groups,
                    std::span<const WireRun> runs, uint8_t* out) {
  BatchWriter writer(format, out);
  writer.begin(time, runs.size());
  for (const WireRun& run : runs) {
    if (run.kind == KVC_EVENT_STORED)
      writer.stored(run, groups[run.group]);
    else if (run.kind == KVC_EVENT_REMOVED)
      writer.removed(run, groups[run.group]);
    else
      writer.cleared();
  }
  writer.end();
  return static_cast<size_t>(writer.at() - out);
}

}  // namespace kvc
