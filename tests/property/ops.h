// SPDX-License-Identifier: Apache-2.0
// One call as data: enough to make it again on a new manager, on the model, or as text. Requests, pins and
// namespaces are named by tags (the number of the operation that makes them), so that a sequence stays
// meaningful when operations are deleted.
#ifndef KVCACHE_TESTS_PROPERTY_OPS_H_
#define KVCACHE_TESTS_PROPERTY_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "property/model_types.h"

enum class Kind : int {
  kCreate,
  kAdmit,
  kAllocate,
  kReserve,
  kAppend,
  kCommit,
  kTruncate,
  kFork,
  kPreempt,
  kFree,
  kProbe,
  kPin,
  kUnpin,
  kDrop,
  kEvict,
  kAcquire,
  kAcquirePrefix,
  kPublish,
  kRelease,
  kUnpublish,
  kOpen,
  kClose,
  kReset,
  kSetQuota,
  kTakeCopies,
  kTakeZeros,
  kCompact,
  kRetire,
  kFailStep,
  kStep,
  kSetTime,
  kSetPriority,
  kEndSession,
  kPrefixPriority,
  kDemotePrefix,
  kRegister,
  kAllocateFromPrompt,
  kUnregister,
  kResize,
  kAddKeys,
  kSetCaching,
  kCommitAhead,
  kAdmitBatch,
  kCount
};
constexpr int kKinds = static_cast<int>(Kind::kCount);
const char* kind_name(Kind kind);

// Of kStep; ids in `in` are tags. A step either brings commits for all of its requests or for none;
// extensions likewise.
struct StepOp {
  model::StepIn in;
  std::vector<uint64_t> makes;  // tags of the new requests, one per admission
  bool commits = false, extends = false, with_ids = false, whole_rows = false, move_rows = false;
};

struct Op {
  Kind kind = Kind::kProbe;
  uint64_t tag = 0;     // what it makes
  uint64_t target = 0;  // what it acts on
  uint64_t ns = 0;      // tag of a namespace, 0 = the default one
  uint64_t number = 0;  // capacity, count, length, identity or room
  uint64_t most = 0;    // maximum of a quota, whose minimum is `number`; room for moves
  size_t group = 0;     // or pool
  model::Text text;
  model::Options options;
  uint64_t count = 0, until = 0;  // of a hint; until: also the time of set_time
  uint32_t priority = 0;
  std::vector<int> blocks;
  std::vector<uint64_t> targets;  // of admit_batch
  StepOp step;  // retire and step: step.in.retired counts back from the newest step; kFuture = one not issued
};
constexpr uint64_t kFuture = ~uint64_t{0};
// Tags of ids that nobody ever gave out.
constexpr uint64_t kForeign = uint64_t{1} << 62, kForeigners = 2;

// What was built: the model's configuration and what only the library has.
struct Setup {
  static constexpr uint64_t kAllEvents = 8192;  // more than are told between two comparisons

  model::Config config;
  uint64_t event_capacity = 0;
  uint64_t record_bytes = 0;
  bool keeps_all_events() const { return event_capacity == kAllEvents; }
  int32_t fill_id = -1;
};

std::string to_text(const Setup& setup);
std::string to_text(const Op& op);  // a readable C-like call

#endif  // KVCACHE_TESTS_PROPERTY_OPS_H_
