// SPDX-License-Identifier: Apache-2.0
// What the parameters of logged calls are. A codec is of kParams parameters: inputs() writes them to a log
// before the call (CallWriter) or makes them from a log (CallReader); results() writes what came of them, or
// compares it.
#pragma once
#include <kvcache/sizing.h>

#include <tuple>

#include "api/guard.h"

namespace kvc {

static_assert(sizeof(kvc_manager_config) == 184 && sizeof(kvc_group_config) == 56 &&
                  sizeof(kvc_pool_config) == 24,
              "a new field: if it is no pointer, write its size here; else clear it below");

// What no log has of a configuration, and what no log may bring: what belongs to one process alone.
inline void clear_unlogged(kvc_manager_config& config) {
  config.allocator = nullptr;
  config.log = nullptr;
  config.log_user_data = nullptr;
  config.memory = nullptr;
  config.seed = 0;
  config.record_bytes = 0;
}

}  // namespace kvc

namespace kvc::codec {

// Most tokens of a prompt or an item that a log has: somewhat more than a request can have. A call with more
// fails, and need not have that many.
inline uint64_t most_tokens(const Shape& shape) { return shape.max_request_tokens + 65536; }

struct Number {
  static constexpr size_t kParams = 1;
  template <typename Log, typename T>
  static void inputs(Log& log, T& value) {
    log.number(value);
  }
};

// Of a request, pin or namespace.
struct Id {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, uint64_t& id) {
    log.id(id);
  }
};

struct NewId {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, uint64_t*& id) {
    if (log.given(id)) log.room(id, 1);
  }
  template <typename Log>
  static void results(Log& log, uint64_t* id) {
    log.new_id(*id);
  }
};

// One number.
struct Out {
  static constexpr size_t kParams = 1;
  template <typename Log, typename T>
  static void inputs(Log& log, T*& value) {
    if (log.given(value)) log.room(value, 1);
  }
  template <typename Log, typename T>
  static void results(Log& log, T* value) {
    if (value != nullptr) log.result(*value, "the result");
  }
};

struct Tokens {
  static constexpr size_t kParams = 2;
  template <typename Log>
  static void inputs(Log& log, const int32_t*& tokens, size_t& count) {
    if (log.length(count, tokens, most_tokens(log.shape()))) log.elements(tokens, count);
  }
};

struct Keys {
  static constexpr size_t kParams = 2;
  template <typename Log>
  static void inputs(Log& log, const kvc_extra_key*& keys, size_t& count) {
    if (log.length(count, keys, most_tokens(log.shape()) * KVC_MAX_KEYS_OF_TOKEN)) log.elements(keys, count);
  }
};

// Requests, and for each a number and a status.
struct Batch {
  static constexpr size_t kParams = 4;
  template <typename Log>
  static void inputs(Log& log, const uint64_t*& ids, size_t& count, uint64_t*& cached,
                     kvc_status*& statuses) {
    if (log.length(count, ids, most_tokens(log.shape()) + log.shape().max_requests)) log.ids(ids, count);
    if (log.given(cached)) log.room(cached, count);
    if (log.given(statuses)) log.room(statuses, count);
  }
  template <typename Log>
  static void results(Log& log, const uint64_t*, size_t count, const uint64_t* cached, const kvc_status*) {
    if (cached != nullptr) log.list(cached, count, "cached");
  }
};

struct Blocks {
  static constexpr size_t kParams = 2;
  template <typename Log>
  static void inputs(Log& log, const int32_t*& blocks, size_t& count) {
    const uint64_t limit = log.shape().num_blocks + most_tokens(log.shape());
    if (log.length(count, blocks, limit)) log.elements(blocks, count);
  }
};

struct Prompt {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, const kvc_prompt*& caller) {
    kvc_prompt copy;
    kvc_prompt* const prompt = log.hold(caller, &copy);
    if (prompt == nullptr) return;
    log.id(prompt->namespace_id);
    Tokens::inputs(log, prompt->tokens, prompt->num_tokens);
    const uint64_t most_keys =
        std::min<uint64_t>(prompt->num_tokens, most_tokens(log.shape())) * KVC_MAX_KEYS_OF_TOKEN;
    if (log.length(prompt->num_keys, prompt->keys, most_keys)) log.elements(prompt->keys, prompt->num_keys);
  }
};

// A struct without pointers.
template <typename T>
struct Flat {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, const T*& caller) {
    if (!log.given(caller)) return;
    T copy;
    if (T* const own = log.hold(caller, &copy); own != nullptr) log.words(*own);
  }
};
using RequestConfig = Flat<kvc_request_config>;
using CurveConfig = Flat<kvc_curve_config>;
static_assert(sizeof(kvc_request_config) == 112, "a new field: if it is no pointer, write its size here");
static_assert(sizeof(kvc_curve_config) == 40, "a new field: if it is no pointer, write its size here");

struct Name {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, const char*& name) {
    constexpr size_t kLongest = 255;
    size_t size = log.size_of(name, kLongest + 1);
    if (!log.length(size, name, kLongest)) return;
    const void* data = name;
    log.text(data, size);
    name = static_cast<const char*>(data);
  }
};

struct Identity {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, const kvc_namespace_config*& caller) {
    kvc_namespace_config copy;
    kvc_namespace_config* const own = log.hold(caller, &copy);
    if (own == nullptr) return;
    part(log, own->model, own->model_size);
    part(log, own->adapter, own->adapter_size);
    part(log, own->tenant, own->tenant_size);
  }

 private:
  template <typename Log>
  static void part(Log& log, const void*& data, size_t& size) {
    constexpr size_t kLongest = 65536;
    if (log.length(size, data, kLongest) && log.given(data)) log.text(data, size);
  }
};

struct TakenBlocks {
  static constexpr size_t kParams = 2;
  template <typename Log>
  static void inputs(Log& log, int32_t*& blocks, size_t& count) {
    log.number(count);
    if (log.given(blocks)) log.room(blocks, log.at_most(count));
  }
  template <typename Log>
  static void results(Log& log, const int32_t* blocks, size_t count) {
    log.list(blocks, count, "the list of blocks");
  }
};

// A list of unknown length, in the room that the caller has.
struct Found {
  static constexpr size_t kParams = 3;
  template <typename Log, typename T>
  static void inputs(Log& log, T*& list, size_t& capacity, size_t*& count) {
    log.number(capacity);
    log.limit(capacity);
    if (log.given(list)) log.room(list, capacity);
    if (log.given(count)) log.room(count, 1);
  }
  template <typename Log, typename T>
  static void results(Log& log, const T* list, size_t, const size_t* count) {
    log.result(*count, "count");
    log.list(list, *count, "the list");
  }
};
// Requests that the log knows.
struct FoundIds : Found {
  template <typename Log>
  static void results(Log& log, const uint64_t* ids, size_t, const size_t* count) {
    log.result(*count, "count");
    for (size_t i = 0; i < *count; ++i) log.known_id(ids[i]);
  }
};
using FoundBlocks = Found;
using Moves = Found;

struct Pending {
  static constexpr size_t kParams = 1;
  template <typename Log>
  static void inputs(Log& log, kvc_pending_work*& caller) {
    kvc_pending_work copy;
    kvc_pending_work* const work = log.hold(caller, &copy);
    if (work == nullptr) return;
    log.number(work->copy_capacity);
    log.number(work->zero_capacity);
    log.given(work->copies);
    log.given(work->zero_blocks);
    log.room_for_pending(*work);
  }
  template <typename Log>
  static void results(Log& log, const kvc_pending_work* work) {
    log.result(work->num_copies, "num_copies");
    log.list(work->copies, work->num_copies, "copies");
    log.result(work->num_zero_blocks, "num_zero_blocks");
    log.list(work->zero_blocks, work->num_zero_blocks, "zero_blocks");
  }
};

}  // namespace kvc::codec
