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
  uint64_t next_checkpoint(const Request& request) const {
    if (!request.admitted || request.next_full == UINT32_MAX || stale(request))
      return 0;  // publishes nothing
    return checkpoint_after(request, request.committed, request.junction);
  }
  // Whether hits need the state at a position that leaves the table.
  bool serves_later(const Request& request, GroupIndex group, size_t position) const {
    if (!has(group)) return false;
    const uint64_t end = (position + 1) * shape_.block_size;
    return end == request.junction || end == shortened_prompt(request);
  }
  // Whether a position of a group's table may lack a block that no window has left.
  bool may_lack(const Request& request, GroupIndex group, size_t position) const {
    return has(group) && position + 1 != request.positions &&
           (request.committed == 0 || position != (request.committed - 1) / shape_.block_size);
  }
  // Positions that do, in all groups.
  uint64_t num_lacking(const Request& request) const;

  kvc_status refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const;
  void tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const;
  // The state before a new one stays until that is computed.
  void add_least(const Request& request, bool grows, Least* least) const {
    if (!grows || request.positions == 0) return;
    for (const uint32_t g : groups()) ++least->blocks[shape_.groups[g].pool];
  }
  kvc_status check_commit(const Request& request, uint32_t committed) const;
  bool opens_lane(const Request& request) const;
  // There is only the present state.
  void restrict(const Request& request, Restorable* near) const {
    if (near->lower < request.committed) near->lower = 0;
    if (near->higher != 0 && near->higher < request.committed) near->higher = request.committed;
  }
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
  // The tokens of a state that a hit of the whole prompt needs once its tail is dropped; 0 = none.
  uint64_t shortened_prompt(const Request& request) const {
    const uint64_t blocks = request.prompt_len == 0 ? 0 : (request.prompt_len - 1) / shape_.block_size;
    if (request.drop_tail_blocks == 0 || blocks <= request.drop_tail_blocks) return 0;
    return (blocks - request.drop_tail_blocks) * shape_.block_size;
  }
};

}  // namespace kvc
