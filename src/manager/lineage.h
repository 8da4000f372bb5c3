// SPDX-License-Identifier: Apache-2.0
// What the content of a manager comes from: of which manager, and after how many resets and unpublications.
// A restored one has that of the checkpoint; the next reset gives it another, which nobody has had. Zeroes:
// of a new manager.
#pragma once
#include <cstdint>

namespace kvc {

struct Lineage {
  uint64_t origin = 0, num_ended = 0;
  bool operator==(const Lineage&) const = default;
};

// The lineages of one manager: another one after each reset and unpublication, since what was copied
// elsewhere before that has equal names and perhaps other bytes.
class Lineages {
 public:
  void begin(uint64_t origin) { origin_ = origin; }
  const Lineage& current() const { return current_; }
  void end() { current_ = {origin_, ++num_ended_}; }
  void carry(const Lineage& lineage) { current_ = lineage; }

 private:
  Lineage current_;
  uint64_t origin_ = 0, num_ended_ = 0;
};

}  // namespace kvc
