// SPDX-License-Identifier: Apache-2.0
// The library and the model side by side: applies operations to both and compares the answers. Up to two
// managers are driven with the same calls and different seeds; their digests must stay equal. A World is used
// by one thread.
#ifndef KVCACHE_TESTS_PROPERTY_WORLD_H_
#define KVCACHE_TESTS_PROPERTY_WORLD_H_

#include <kvcache/step.h>

#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "property/bytes.h"
#include "property/model.h"
#include "property/ops.h"

struct Outcome {  // the answer of one call, flattened so that two can be compared
  kvc_status status = KVC_OK;
  std::vector<int64_t> values;
  std::string fault;  // of the library alone: an output written by a failed call, a wrong table, ...
};

struct Verdict {
  bool skipped = false;  // names something that was never made (in a shrunk sequence)
  bool changed = false;  // the model's state changed
  kvc_status status = KVC_OK;
  std::vector<kvc_status> items;  // of a step
  std::string error;              // empty: library and model agree
};

class World {
 public:
  World(const Setup& setup, int sides, uint64_t hash_mask);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  uint64_t digest(int side) const;                                 // of one of the managers
  void take_log(int side, std::vector<unsigned char>& log) const;  // appends it
  // `check`: also digests (unchanged by failures and no-ops, equal on both sides) and kvc_manager_check.
  Verdict apply(const Op& op, bool check);
  // Everything that the library tells about its state, against the model's.
  std::string compare_all();

  const Setup& setup() const { return setup_; }
  const model::Model& model() const { return model_; }
  uint64_t model_id(uint64_t tag) const { return tag && handles_.count(tag) ? handles_.at(tag).model : 0; }
  uint64_t rejected_candidates() const;

 private:
  struct Handle {
    uint64_t model = 0;
    std::array<uint64_t, 2> lib{};
  };
  using Digest = std::array<uint8_t, 32>;
  struct Side {
    kvc_manager* manager = nullptr;
    uint64_t cursor = 0;  // of events
    uint64_t told = 0;    // of the model, before that
    uint64_t unread = 0;  // comparisons, some of which do not read them
    std::vector<int32_t> tables,
        shadow;  // [group][row][column]: written by the library; kept up by its list of changes
    std::map<model::Key, Digest> digest_of;
    std::map<std::pair<uint64_t, uint32_t>, kvc_event> replayed;  // STORED events by node and group
    std::map<Digest, model::Key> position_of;
  };
  struct StepPlan {  // what the outputs of a step must be, beside Outcome
    std::vector<int32_t> rows;
  };

  bool resolvable(const Op& op) const;
  uint64_t lib_id(uint64_t tag, int side) const { return tag ? handles_.at(tag).lib[side] : 0; }
  uint64_t step_number(uint64_t back) const;
  void write_bytes(const Op& op);  // what an engine does before this call
  Outcome ask_model(const Op& op);
  Outcome ask_library(const Op& op, int side);
  Op without_unknown(const Op& op) const;
  model::StepIn to_model(const StepOp& step) const;
  Outcome step_model(const Op& op, std::vector<kvc_status>* items);
  Outcome step_library(const Op& op, int side, const StepPlan& plan);
  std::string check_rows(const Op& op, Side& side, const StepPlan& plan, const kvc_step& step);
  StepPlan plan_step(const Op& op);
  std::string compare_side(int side);
  std::string compare_quotas(Side& side, int index);
  std::string compare_requests(Side& side, int index);
  std::string compare_events(Side& side, int index);
  std::string compare_event(Side& side, int index, const kvc_event& e, const int32_t* tokens,
                            const model::Event& want);
  static bool follows_its_parent(const kvc_event& e, const Side& side);
  std::string compare_prefixes(Side& side);
  std::string compare_lists(Side& side, int index);
  std::string check_digests(bool ok, bool changed, bool reads);

  Setup setup_;
  model::Model model_;
  Bytes bytes_;
  std::vector<Side> sides_;
  std::unordered_map<uint64_t, Handle> handles_;
  std::map<uint64_t, uint64_t> tag_of_;       // model id -> tag of requests
  std::map<uint64_t, uint64_t> identity_of_;  // model id of a namespace -> its identity
  std::map<uint64_t, int32_t> row_of_;        // tag -> row
  std::vector<uint64_t> digests_;             // after the last checked operation; empty: not known
  size_t rows_, stride_;
};

// Requests and keys as the C API wants them.
std::vector<kvc_extra_key> to_keys(const model::Text& text);
std::string prompt_name(uint64_t number);
kvc_request_config to_config(const model::Options& options);
kvc_manager* make_manager(const Setup& setup, uint64_t seed, uint64_t hash_mask);

#endif  // KVCACHE_TESTS_PROPERTY_WORLD_H_
