// SPDX-License-Identifier: Apache-2.0
#include "cli/session_oracle.h"

#include <cstdlib>
#include <unordered_set>

#include "cli/errors.h"

namespace kvcli {

double parse_hints(const std::string& text) {
  const std::string prefix = "oracle:";
  const std::string number = text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : "";
  char* end = nullptr;
  const double accuracy = std::strtod(number.c_str(), &end);
  const bool is_number = !number.empty() && *end == '\0';
  if (is_number && accuracy >= 0 && accuracy <= 1) return accuracy;
  throw InputError("--hints is " + text + "; give oracle:X, where X is how often it is right, 0 to 1");
}

SessionOracle::SessionOracle(const Trace& trace, double accuracy)
    : accuracy_(accuracy), over_(trace.requests.size()) {
  std::unordered_set<uint64_t> used;  // by later requests: hashes of their prefixes
  for (size_t i = trace.requests.size(); i-- > 0;) {
    const TraceRequest& request = trace.requests[i];
    const uint64_t* ids = trace.hash_ids.data() + request.first_hash_id;
    const uint32_t full = (request.input_length - 1) / trace.tokens_per_hash_id;
    std::vector<uint64_t> chain(full);
    uint64_t last = 0;
    for (uint32_t j = 0; j < full; ++j) chain[j] = last = splitmix64(last ^ splitmix64(ids[j]));
    over_[i] = full == 0 || used.count(last) == 0;
    used.insert(chain.begin(), chain.end());
  }
}

bool SessionOracle::wrong(uint32_t request) const {
  constexpr uint64_t kSeed = 0x68696e7473;
  return static_cast<double>(splitmix64(kSeed + request) >> 11) * 0x1p-53 >= accuracy_;
}

}  // namespace kvcli
