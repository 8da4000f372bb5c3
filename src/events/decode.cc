// SPDX-License-Identifier: Apache-2.0
#include "events/decode.h"

#include <cstdio>

#include "events/schema.h"

namespace kvc {

kvc_status WireDecoder::bad(const char* name, const char* wanted, const PackValue& value) const {
  const bool is_number = value.kind == PackKind::kUnsigned || value.kind == PackKind::kNegative;
  char number[32] = "";
  if (is_number)
    std::snprintf(number, sizeof number, value.kind == PackKind::kUnsigned ? " (%llu)" : " (%lld)",
                  ull(value.number));
  return fail(KVC_ERROR_CORRUPT, "event %zu, before byte %zu: %s is %s%s; it must be %s", events_.size(),
              in_.offset(), name, pack_kind_name(value.kind), number, wanted);
}

kvc_status WireDecoder::cut_off() const {
  return fail(KVC_ERROR_CORRUPT, "event %zu, byte %zu: the %zu bytes that follow are no value of MessagePack",
              events_.size(), in_.offset(), in_.left());
}

kvc_status WireDecoder::next(PackValue* value) { return in_.next(value) ? KVC_OK : cut_off(); }
kvc_status WireDecoder::skip() { return in_.skip() ? KVC_OK : cut_off(); }

kvc_status WireDecoder::read_entries(const char* name, size_t* count) {
  PackValue value;
  KVC_TRY(next(&value));
  if (value.kind != PackKind::kArray) return bad(name, "an array", value);
  *count = value.number;
  return KVC_OK;
}

kvc_status WireDecoder::read_text(const char* name, std::string_view* text) {
  PackValue value;
  KVC_TRY(next(&value));
  if (value.kind == PackKind::kNil) return KVC_OK;
  if (value.kind != PackKind::kText) return bad(name, "a text or nil", value);
  *text = value.text();
  return KVC_OK;
}

// Leaves *number as it is for nil.
kvc_status WireDecoder::read_number(const char* name, bool may_be_nil, int64_t most, int64_t* number) {
  PackValue value;
  KVC_TRY(next(&value));
  if (may_be_nil && value.kind == PackKind::kNil) return KVC_OK;
  if (value.kind != PackKind::kUnsigned || value.number > static_cast<uint64_t>(most))
    return bad(name, may_be_nil ? "a small integer or nil" : "a small integer", value);
  *number = static_cast<int64_t>(value.number);
  return KVC_OK;
}

kvc_status WireDecoder::read_hash(const char* name, uint64_t* hash) {
  PackValue value;
  KVC_TRY(next(&value));
  if (value.kind == PackKind::kUnsigned || value.kind == PackKind::kNegative) {
    *hash = value.number;
    return KVC_OK;
  }
  if (value.kind != PackKind::kBytes || value.size < sizeof *hash)
    return bad(name, "an integer, or 8 bytes or more", value);
  std::memcpy(hash, value.data + value.size - sizeof *hash, sizeof *hash);
  *hash = big_endian(*hash);
  return KVC_OK;
}

kvc_status WireDecoder::read_hashes() {
  KVC_TRY(read_entries("block_hashes", &arrays_.num_hashes));
  for (size_t i = 0; i < arrays_.num_hashes; ++i) {
    uint64_t hash = 0;
    KVC_TRY(read_hash("an entry of block_hashes", &hash));
    hashes_.push_back(hash);
  }
  return KVC_OK;
}

kvc_status WireDecoder::read_tokens() {
  KVC_TRY(read_entries("token_ids", &arrays_.num_tokens));
  for (size_t i = 0; i < arrays_.num_tokens; ++i) {
    uint32_t token = 0;
    if (!in_.small(&token)) {  // in a wider form, or no token
      int64_t number = 0;
      KVC_TRY(read_number("an entry of token_ids", false, INT32_MAX, &number));
      token = static_cast<uint32_t>(number);
    } else if (token > INT32_MAX) {
      return bad("an entry of token_ids", "at most 2147483647", {PackKind::kUnsigned, token, 0, nullptr, 0});
    }
    tokens_.push_back(static_cast<int32_t>(token));
  }
  return KVC_OK;
}

kvc_status WireDecoder::read_extra_keys() {
  PackValue value;
  KVC_TRY(next(&value));
  if (value.kind == PackKind::kNil) return KVC_OK;
  if (value.kind != PackKind::kArray) return bad("extra_keys", "an array or nil", value);
  arrays_.num_extra_keys = value.number;
  for (size_t i = 0; i < value.number; ++i) {
    const uint8_t* const begin = in_.at();
    PackReader ahead = in_;
    KVC_TRY(skip());
    PackValue keys;
    if (!ahead.next(&keys)) return cut_off();
    if (keys.kind != PackKind::kNil && keys.kind != PackKind::kArray)
      return bad("an entry of extra_keys", "an array or nil", keys);
    const bool none = keys.kind == PackKind::kNil || keys.number == 0;
    extra_keys_.emplace_back(reinterpret_cast<const char*>(begin),
                             none ? 0 : static_cast<size_t>(in_.at() - begin));
  }
  return KVC_OK;
}

kvc_status WireDecoder::read_field(uint32_t field) {
  if (field == kNoField) return skip();
  if ((seen_ >> field & 1) != 0)
    return fail(KVC_ERROR_CORRUPT, "event %zu, before byte %zu: it has %s twice", events_.size(),
                in_.offset(), kFieldNames[field]);
  seen_ |= 1u << field;
  int64_t number = 0;
  switch (field) {
    case kBlockHashes:
      return read_hashes();
    case kParentBlockHash: {
      PackReader ahead = in_;
      PackValue value;
      if (ahead.next(&value) && value.kind == PackKind::kNil) return skip();
      event_.has_parent = true;
      return read_hash(kFieldNames[field], &event_.parent);
    }
    case kTokenIds:
      return read_tokens();
    case kBlockSize:
      KVC_TRY(read_number(kFieldNames[field], false, INT32_MAX, &number));
      event_.block_size = static_cast<uint32_t>(number);
      return KVC_OK;
    case kLoraId:
      return read_number(kFieldNames[field], true, INT64_MAX, &event_.lora_id);
    case kMedium:
      return read_text(kFieldNames[field], &event_.medium);
    case kLoraName:
      return read_text(kFieldNames[field], &event_.lora_name);
    case kExtraKeys:
      return read_extra_keys();
    case kGroupIdx:
      number = -1;
      KVC_TRY(read_number(kFieldNames[field], true, INT32_MAX, &number));
      event_.group = static_cast<int32_t>(number);
      return KVC_OK;
    case kSpecKind:
      return read_text(kFieldNames[field], &event_.spec_kind);
    default:
      return skip();
  }
}

kvc_status WireDecoder::set_type(const PackValue& type) {
  if (type.kind != PackKind::kText) return bad("type", "a text", type);
  for (const uint32_t kind : {KVC_EVENT_STORED, KVC_EVENT_REMOVED, KVC_EVENT_ALL_CLEARED}) {
    if (type.text() == type_name(kind)) {
      event_.kind = kind;
      return KVC_OK;
    }
  }
  const auto shown = static_cast<int>(type.size < 40 ? type.size : 40);
  return fail(KVC_ERROR_UNSUPPORTED, "event %zu is of the type \"%.*s\", which this version does not know",
              events_.size(), shown, type.data);
}

// Finds the type of an event that is a map, wherever it stands.
kvc_status WireDecoder::read_type(uint32_t fields) {
  const PackReader start = in_;
  for (uint32_t i = 0; i < fields; ++i) {
    PackValue key, type;
    KVC_TRY(next(&key));
    if (key.kind == PackKind::kText && key.text() == "type") {
      KVC_TRY(next(&type));
      KVC_TRY(set_type(type));
      in_ = start;
      return KVC_OK;
    }
    KVC_TRY(skip());
  }
  return fail(KVC_ERROR_CORRUPT, "event %zu, before byte %zu: the map has no \"type\"", events_.size(),
              in_.offset());
}

kvc_status WireDecoder::read_map(uint32_t fields) {
  KVC_TRY(read_type(fields));
  bool typed = false;
  for (uint32_t i = 0; i < fields; ++i) {
    PackValue key;
    KVC_TRY(next(&key));
    if (key.kind != PackKind::kText) return bad("a key of the map", "a text", key);
    if (key.text() == "type") {
      if (typed) return fail(KVC_ERROR_CORRUPT, "event %zu has two types", events_.size());
      typed = true;
      KVC_TRY(skip());
      continue;
    }
    KVC_TRY(read_field(field_by_name(key.text())));
  }
  return KVC_OK;
}

kvc_status WireDecoder::check_event() {
  uint32_t needed = 0;
  if (event_.kind != KVC_EVENT_ALL_CLEARED) needed |= 1u << kBlockHashes;
  if (event_.kind == KVC_EVENT_STORED) needed |= 1u << kParentBlockHash | 1u << kTokenIds | 1u << kBlockSize;
  if (const uint32_t missing = needed & ~seen_; missing != 0)
    return fail(KVC_ERROR_CORRUPT, "event %zu (%s) has no %s", events_.size(), type_name(event_.kind),
                kFieldNames[__builtin_ctz(missing)]);
  if (event_.kind == KVC_EVENT_STORED && arrays_.num_tokens != 0 &&
      arrays_.num_tokens != arrays_.num_hashes * event_.block_size)
    return fail(KVC_ERROR_CORRUPT, "event %zu has %zu tokens; %zu blocks of %u tokens need %zu, or none",
                events_.size(), arrays_.num_tokens, arrays_.num_hashes, event_.block_size,
                arrays_.num_hashes * event_.block_size);
  if (arrays_.num_extra_keys != 0 && arrays_.num_extra_keys != arrays_.num_hashes)
    return fail(KVC_ERROR_CORRUPT, "event %zu has %zu extra_keys; its %zu blocks need one each",
                events_.size(), arrays_.num_extra_keys, arrays_.num_hashes);
  return KVC_OK;
}

kvc_status WireDecoder::read_event() {
  event_ = {};
  seen_ = 0;
  arrays_ = {hashes_.size(), 0, tokens_.size(), 0, extra_keys_.size(), 0};
  PackValue head;
  KVC_TRY(next(&head));
  if (head.kind == PackKind::kMap) {
    KVC_TRY(read_map(static_cast<uint32_t>(head.number)));
  } else if (head.kind == PackKind::kArray && head.number != 0) {
    PackValue type;
    KVC_TRY(next(&type));
    KVC_TRY(set_type(type));
    for (uint32_t i = 1; i < head.number; ++i) KVC_TRY(read_field(field_by_place(event_.kind, i - 1)));
  } else {
    return bad("it", "a map, or an array that begins with a type", head);
  }
  KVC_TRY(check_event());
  events_.push_back(event_);
  all_arrays_.push_back(arrays_);
  return KVC_OK;
}

kvc_status WireDecoder::read_batch() {
  size_t entries = 0, count = 0;
  KVC_TRY(read_entries("the batch", &entries));
  if (entries < 2)
    return fail(KVC_ERROR_CORRUPT, "the batch is an array of %zu; it must have a time, events, and a rank",
                entries);
  PackValue time;
  KVC_TRY(next(&time));
  if (time.kind != PackKind::kReal && time.kind != PackKind::kUnsigned)
    return bad("the time of the batch", "a float", time);
  time_ = time.kind == PackKind::kReal ? time.real : static_cast<double>(time.number);
  KVC_TRY(read_entries("the list of events", &count));
  for (size_t i = 0; i < count; ++i) KVC_TRY(read_event());
  if (entries > 2) KVC_TRY(read_number("the rank of the batch", true, INT32_MAX, &rank_));
  for (size_t i = 3; i < entries; ++i) KVC_TRY(skip());
  if (in_.left() != 0)
    return fail(KVC_ERROR_CORRUPT, "%zu bytes follow the batch, which ends at byte %zu", in_.left(),
                in_.offset());
  for (size_t i = 0; i < events_.size(); ++i) {
    const Arrays& arrays = all_arrays_[i];
    events_[i].hashes = std::span(hashes_).subspan(arrays.hashes, arrays.num_hashes);
    events_[i].tokens = std::span(tokens_).subspan(arrays.tokens, arrays.num_tokens);
    events_[i].extra_keys = std::span(extra_keys_).subspan(arrays.extra_keys, arrays.num_extra_keys);
  }
  return KVC_OK;
}

kvc_status WireDecoder::decode(const void* payload, size_t size) {
  in_ = PackReader(payload, size);
  events_.clear();
  all_arrays_.clear();
  hashes_.clear();
  tokens_.clear();
  extra_keys_.clear();
  time_ = 0;
  rank_ = -1;
  const kvc_status status = read_batch();
  if (status != KVC_OK) events_.clear();
  return status;
}

}  // namespace kvc
