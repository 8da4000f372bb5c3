// SPDX-License-Identifier: Apache-2.0
// Request traces, one JSON object per line, with input_length and output_length (tokens) and hash_ids, one id
// per some prompt tokens. Equal ids mean equal text with an equal prefix. Two formats, known by their fields:
// - Mooncake: timestamp in milliseconds, an id per 512 tokens.
// - Qwen-Bailian, with chat_id and parent_chat_id (-1 = none): timestamp in seconds, an id per 16 tokens. Its
// type
//   and turn are not used.
// Both may have priority (a lower number is served first) and tenant (from 0), for simulations.
// A trace has no tokens: every replay of this project derives them from the ids by the same rule. Invariant:
// a request has at least one prompt token, and ids for its whole prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace kvcli {

inline constexpr uint32_t kTokensPerHashId = 512;  // Mooncake's.
inline constexpr uint32_t kBailianTokensPerHashId = 16;
inline constexpr uint32_t kVocabSize = 128000;
inline constexpr uint64_t kMaxInputLength = uint64_t{1} << 24;
inline constexpr uint64_t kMaxOutputLength = uint64_t{1}
                                             << 20;  // Output tokens of neighbouring requests stay apart.
inline constexpr uint64_t kMaxTenants = uint64_t{1} << 16;       // The library's.
inline constexpr uint64_t kMaxHashId = (uint64_t{1} << 55) - 1;  // Times 512 it still fits 64 bits.

struct TraceRequest {
  uint64_t timestamp_ms;
  uint32_t input_length;
  uint32_t output_length;  // As in the file. An engine produces at least one token.
  size_t first_hash_id;    // Index into Trace::hash_ids.
  int32_t priority = 0;
  uint32_t tenant = 0;

  uint32_t num_outputs() const { return output_length == 0 ? 1 : output_length; }
};

struct Trace {
  std::vector<TraceRequest> requests;
  std::vector<uint64_t> hash_ids;
  uint32_t tokens_per_hash_id = kTokensPerHashId;
  uint64_t untimed_line = 0;  // The first line of a request without a timestamp; 0 = all have one.

  uint32_t num_hash_ids(const TraceRequest& request) const {
    return (request.input_length + tokens_per_hash_id - 1) / tokens_per_hash_id;
  }
};

uint64_t splitmix64(uint64_t x);

/// Reads up to max_requests requests (0 = all) of a file, or of standard input if the path is "-".
/// Throws InputError with file and line.
Trace read_trace(const std::string& path, uint64_t max_requests);
/// The same from a stream; errors call it `name`.
Trace read_trace(std::istream& in, const std::string& name, uint64_t max_requests);

/// Writes what read_trace reads, in the format of the trace, without chats. The caller checks the stream.
void write_trace(const Trace& trace, std::ostream& out);

/// Token k of the output of request number `request` of the file.
int32_t output_token(uint64_t request, uint64_t k);

/// Sets `tokens` to the prompt of a request and its first num_outputs output tokens.
void make_tokens(const Trace& trace, size_t request, uint32_t num_outputs, std::vector<int32_t>& tokens);

}  // namespace kvcli
