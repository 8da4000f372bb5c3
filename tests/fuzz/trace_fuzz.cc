// SPDX-License-Identifier: Apache-2.0
// Traces: an input is refused with a text, or what was read is valid, and is read again from what write_trace
// makes of it.
#include <sstream>

#include "cli/errors.h"
#include "cli/trace.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  kvcli::Trace trace;
  try {
    trace = kvcli::read_trace(in, "input", 0);
  } catch (const kvcli::InputError& error) {
    FUZZ_REQUIRE(error.what()[0] != '\0', "an error without a text");
    return 0;
  }
  FUZZ_REQUIRE(!trace.requests.empty(), "no requests");
  size_t ids = 0;
  for (const kvcli::TraceRequest& request : trace.requests) {
    FUZZ_REQUIRE(request.input_length > 0 && request.first_hash_id == ids, "a request without its ids");
    ids += trace.num_hash_ids(request);
  }
  FUZZ_REQUIRE(ids == trace.hash_ids.size(), "other ids than those of the requests");
  std::stringstream text;
  kvcli::write_trace(trace, text);
  const kvcli::Trace again = kvcli::read_trace(text, "written", 0);
  FUZZ_REQUIRE(again.tokens_per_hash_id == trace.tokens_per_hash_id && again.hash_ids == trace.hash_ids &&
                   again.requests.size() == trace.requests.size(),
               "not the same");
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const kvcli::TraceRequest &one = trace.requests[i], &other = again.requests[i];
    FUZZ_REQUIRE(one.priority == other.priority && one.tenant == other.tenant, "another priority or tenant");
  }
  return 0;
}
