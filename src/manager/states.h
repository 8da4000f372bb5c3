// SPDX-License-Identifier: Apache-2.0
// Recurrent states: which positions of a table have a block, which of them are worth keeping, and forks,
// which need a state of their own. docs/SEMANTICS.md, "State groups".
#pragma once
#include "manager/feature.h"

namespace kvc {

class States : public Feature {
 public:
  using Feature::Feature;
  bool on() const { return shape_.state_groups != 0; }

  // The next number of tokens whose state is worth keeping; 0 = none.
  uint64_t next_checkpoint(const Request& request) const;
  // Whether hits need the state at a position that leaves the table.
  bool serves_later(const Request& request, GroupIndex group, size_t position) const;
  // Whether a position of a group's table may lack a block that no window has left.
  bool may_lack(const Request& request, GroupIndex group, size_t position) const;
  // Positions that do, in all groups.
  uint64_t num_lacking(const Request& request) const;

  kvc_status refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const;
  void tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const;
  void add_least(const Request& request, bool grows, Least* least) const;
  kvc_status check_commit(const Request& request, uint32_t committed) const;
  bool opens_lane(const Request& request) const;
  void restrict(const Request& request, Restorable* near) const;
  void keep_slots(const Request& request, uint32_t tokens, uint32_t* slots) const;
  kvc_status reserve_fork(const Request& parent, Request& child);
  void forked(const Request& parent, Request& child);

 private:
  bool has(GroupIndex group) const { return shape_.groups[group].kind == KVC_GROUP_STATE; }
  BitsOf groups() const { return bits_of(shape_.state_groups); }
  // Whether the request's next step overwrites its states: unless its tokens end with a block.
  bool goes_on_inside(const Request& request) const {
    return shape_.by_block.remainder(request.committed) != 0;
  }
  // The next checkpoint of a request that has committed so many tokens.
  uint64_t checkpoint_after(const Request& request, uint64_t committed, uint64_t junction) const;
  uint64_t shortened_prompt(const Request& request) const;
};

}  // namespace kvc
