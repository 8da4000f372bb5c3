// SPDX-License-Identifier: Apache-2.0
// World: the single calls, on the model and on the library, and what an engine does to the bytes before them.
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/quota.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>

#include <cstdio>
#include <cstring>

#include "calls.h"
#include "property/world.h"

namespace {

constexpr uint64_t kUntouched = 0xabababababababab;

// Collects the outputs of a library call: kept on success, required to be untouched on failure.
Outcome collect(kvc_status status, std::initializer_list<uint64_t> outputs,
                std::initializer_list<bool> compared) {
  Outcome out{status, {}, ""};
  auto keep = compared.begin();
  for (uint64_t value : outputs) {
    if (status == KVC_OK && *keep) out.values.push_back(static_cast<int64_t>(value));
    if (status == KVC_OK && !*keep && value == kUntouched) out.fault = "an output was not written";
    if (status != KVC_OK && value != kUntouched) out.fault = "an output was written by a failed call";
    ++keep;
  }
  return out;
}

bool without_options(const model::Options& o) {
  return o.max_cached == 0 && o.external == 0 && o.slots == 0 && o.lookahead == 0 && o.flags == 0 &&
         o.drop_tail == 0 && o.wait_until == 0 && o.headroom == 0 && o.cross == 0;
}

// A probe right before an admission says what it does.
std::string fault_of_probe(const kvc_probe_info& info, kvc_status status, uint64_t num_cached) {
  if (status == KVC_OK && (info.fits != 1 || info.num_cached != num_cached)) {
    return "the probe told fits " + std::to_string(info.fits) + " and a hit of " +
           std::to_string(info.num_cached);
  }
  const bool never = status == KVC_ERROR_NEVER_FITS;
  const bool refused =
      never || status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN || status == KVC_ERROR_OVER_QUOTA;
  if ((refused || status == KVC_OK) && never != (info.never_fits != 0))
    return "the probe told never_fits " + std::to_string(info.never_fits);
  return refused && info.fits != 0 ? "the probe told that it fits" : "";
}

}  // namespace

void World::write_bytes(const Op& op) {
  switch (op.kind) {
    case Kind::kCommitAhead:  // its steps run before what follows
      if (op.count > op.number || (op.count < op.number && setup_.config.fills)) break;
      [[fallthrough]];
    case Kind::kCommit:
      if (const model::Request* r = model_.find(model_id(op.target))) bytes_.write(*r, op.number, {});
      break;
    case Kind::kStep:
      bytes_.spoil_fenced();  // the step may retire others
      if (to_model(op.step).retired > model_.issued || (op.step.in.now && op.step.in.now < model_.now()))
        break;
      for (std::set<uint64_t> named; const model::StepRequest& item : op.step.in.requests)
        if (const model::Request* r = model_.find(model_id(item.id));
            r && op.step.commits && named.insert(item.id).second)
          bytes_.write(*r, item.committed, item.learned);
      break;
    case Kind::kRetire:
      bytes_.spoil_fenced();
      break;
    case Kind::kFailStep:
      if (const uint64_t step = step_number(op.step.in.retired);
          step > model_.retired && step <= model_.issued)
        bytes_.spoil_filling(step);
      break;
    case Kind::kPublish:
      bytes_.write_external(op.blocks, model_id(op.ns), op.group, op.text);
      break;
    case Kind::kTakeCopies:
    case Kind::kTakeZeros:
      bytes_.copy_pending();
      break;
    default:
      break;
  }
}

Outcome World::ask_model(const Op& op) {
  Outcome out;
  const uint64_t target = model_id(op.target), ns = model_id(op.ns);
  model::Options options = op.options;
  options.ns = model_id(op.options.ns);
  uint64_t id = 0, number = 0;
  std::vector<int> blocks;
  const auto value = [&](auto v) { out.values.push_back(static_cast<int64_t>(v)); };
  switch (op.kind) {
    case Kind::kCreate:
      out.status = model_.create(op.text, options, &id);
      break;
    case Kind::kAllocate:
      out.status = model_.allocate(op.text, options, &id, &number, model_.pending);
      break;
    case Kind::kAdmit:
      out.status = model_.admit(target, &number, model_.pending);
      break;
    case Kind::kAdmitBatch: {
      std::vector<uint64_t> ids;
      for (const uint64_t tag : op.targets) ids.push_back(model_id(tag));
      model::StepOut all;
      out.status = model_.admit_batch(ids, all);
      for (const kvc_status status : all.status) value(status);
      for (const uint64_t cached : all.cached) value(cached);
      break;
    }
    case Kind::kReserve:
      out.status = model_.reserve(target, op.number, model_.pending);
      break;
    case Kind::kAppend:
      out.status = model_.append(target, op.text.tokens, model_.pending);
      break;
    case Kind::kAddKeys:
      out.status = model_.add_keys(target, op.text.spans);
      break;
    case Kind::kSetCaching:
      out.status = model_.set_prefix_caching(op.number);
      break;
    case Kind::kCommit:
      out.status = model_.commit(target, op.number);
      break;
    case Kind::kCommitAhead:
      out.status = model_.commit_ahead(target, op.number, op.count);
      break;
    case Kind::kTruncate:
      out.status = model_.truncate(target, op.number);
      if (out.status == KVC_ERROR_UNSUPPORTED) {  // the text names the next lengths that are possible
        const model::Request& r = *model_.find(target);
        uint64_t lower = op.number, higher = op.number;
        while (lower != 0 && !model_.restorable(r, lower)) --lower;
        while (!model_.restorable(r, higher)) ++higher;
        value(lower), value(higher);
      }
      break;
    case Kind::kFork:
      out.status = model_.fork(target, &id);
      break;
    case Kind::kPreempt:
      out.status = model_.preempt(target);
      break;
    case Kind::kFree:
      out.status = model_.free(target);
      break;
    case Kind::kProbe: {
      kvc_probe_info info{};
      out.status = model_.probe(ns, op.text, &info);
      if (out.status == KVC_OK)
        for (uint64_t v : {info.num_cached, info.blocks_needed, info.blocks_available, info.lost_reuse_tokens,
                           uint64_t{info.fits} + 2 * info.never_fits})
          value(v);
      break;
    }
    case Kind::kPin:
      out.status = model_.pin(ns, op.text, &id, &number);
      break;
    case Kind::kUnpin:
      out.status = model_.unpin(target);
      break;
    case Kind::kDrop:
      out.status = model_.drop_prefix(ns, op.text, &number);
      break;
    case Kind::kEvict:
      out.status = model_.evict(op.group, op.number, &number);
      break;
    case Kind::kAcquire:
      out.status = model_.acquire(op.group, op.number, blocks);
      break;
    case Kind::kAcquirePrefix:
      out.status = model_.acquire_prefix(ns, op.group, op.text, op.number, blocks, &number);
      if (out.status == KVC_ERROR_BUFFER_TOO_SMALL) value(number);
      break;
    case Kind::kPublish:
      out.status = model_.publish(ns, op.group, op.text, op.blocks);
      break;
    case Kind::kRelease:
      out.status = model_.release_external(op.blocks);
      break;
    case Kind::kUnpublish:
      out.status = model_.unpublish(op.blocks, &number);
      break;
    case Kind::kOpen:
      id = model_.open(static_cast<int>(op.number));
      identity_of_[id] = op.number;
      break;
    case Kind::kClose:
      out.status = model_.close(ns);
      break;
    case Kind::kSetQuota:
      out.status = model_.set_quota(ns, op.group, op.number, op.most);
      break;
    case Kind::kReset:
      out.status = model_.reset(op.number != 0 ? 0 : ns == 0 ? KVC_ALL_NAMESPACES : ns);
      break;
    case Kind::kTakeCopies:  // both take all that is pending, and one of the arrays may be too small
    case Kind::kTakeZeros: {
      const bool small =
          op.kind == Kind::kTakeCopies ? model_.pending.size() > op.number : model_.zeros.size() > op.number;
      if (small) out.status = KVC_ERROR_BUFFER_TOO_SMALL;
      value(model_.pending.size()), value(model_.zeros.size());
      if (out.status) break;
      bytes_.pending_fetched();
      for (const model::Copy& copy : model_.take_copies()) value(copy.source), value(copy.destination);
      bytes_.zeros_fetched();
      for (const int block : model_.take_zeros()) value(block);
      break;
    }
    case Kind::kCompact: {
      std::vector<model::Copy> moves;
      out.status = model_.compact(op.group, op.number, moves);
      for (const model::Copy& move : moves) value(move.source), value(move.destination);
      bytes_.copy(moves);
      break;
    }
    case Kind::kResize: {
      std::vector<model::Copy> moves;
      uint64_t needed = 0;
      out.status = model_.resize(op.group, op.number, op.most, moves, &needed);
      if (out.status == KVC_OK) value(moves.size());
      if (out.status == KVC_ERROR_BUFFER_TOO_SMALL) value(needed);
      for (const model::Copy& move : moves) value(move.source), value(move.destination);
      bytes_.copy(moves);
      break;
    }
    case Kind::kRetire:
      out.status = model_.retire(step_number(op.step.in.retired));
      break;
    case Kind::kSetTime:
      out.status = model_.set_time(op.until);
      break;
    case Kind::kSetPriority:
      out.status = model_.set_priority(target, op.number, op.count, op.priority, op.until);
      break;
    case Kind::kEndSession:
      out.status = model_.end_session(target, op.number);
      break;
    case Kind::kPrefixPriority:
      out.status = model_.set_prefix_priority(ns, op.text, op.number, op.priority, op.until, &number);
      break;
    case Kind::kDemotePrefix:
      out.status = model_.demote_prefix(ns, op.text, op.number, &number);
      break;
    case Kind::kRegister:
      out.status = model_.register_prompt(int(op.number), ns, op.text, &number);
      break;
    case Kind::kAllocateFromPrompt:
      out.status = model_.allocate_from_prompt(int(op.number), op.text.tokens, options, &id, &number);
      break;
    case Kind::kUnregister:
      out.status = model_.unregister_prompt(int(op.number));
      break;
    case Kind::kFailStep: {
      std::vector<uint64_t> preempted;
      out.status = model_.fail_step(step_number(op.step.in.retired), preempted);
      for (const uint64_t of : preempted) value(tag_of_.at(of));
      break;
    }
    case Kind::kStep:
    case Kind::kCount:
      break;
  }
  if (out.status != KVC_OK) return out;
  switch (op.kind) {
    case Kind::kAllocate:
    case Kind::kAdmit:
    case Kind::kPin:
    case Kind::kDrop:
    case Kind::kEvict:
    case Kind::kAcquirePrefix:
    case Kind::kUnpublish:
    case Kind::kPrefixPriority:
    case Kind::kDemotePrefix:
    case Kind::kRegister:
    case Kind::kAllocateFromPrompt:
      value(number);
      break;
    default:
      break;
  }
  for (int block : blocks) value(block);
  if (op.tag && (id || op.kind == Kind::kOpen)) handles_[op.tag].model = id;
  if (op.kind == Kind::kCreate || op.kind == Kind::kAllocate || op.kind == Kind::kFork ||
      op.kind == Kind::kAllocateFromPrompt)
    tag_of_[id] = op.tag;
  return out;
}

Outcome World::ask_library(const Op& op, int side) {
  const size_t index = static_cast<size_t>(side);
  kvc_manager* m = sides_[index].manager;
  const uint64_t target = lib_id(op.target, side), ns = lib_id(op.ns, side);
  const std::vector<kvc_extra_key> keys = to_keys(op.text);
  const kvc_request_config config = to_config(op.options);
  const uint64_t own_ns = lib_id(op.options.ns, side);
  const int32_t* tokens = op.text.tokens.data();
  const size_t n = op.text.tokens.size();
  uint64_t id = kUntouched, number = kUntouched;
  Outcome out;
  switch (op.kind) {
    case Kind::kCreate: {
      const kvc_status status =
          kvc_manager_create_request(m, PROMPT(own_ns, tokens, n, keys.data(), keys.size()), &config, &id);
      out = collect(status, {id}, {false});
      break;
    }
    case Kind::kAllocate: {
      const PromptArgument prompt = PROMPT(own_ns, tokens, n, keys.data(), keys.size());
      kvc_probe_info info{};
      info.struct_size = sizeof info;
      const bool probed = without_options(op.options) && kvc_manager_probe(m, prompt, &info) == KVC_OK;
      const kvc_status status = kvc_manager_allocate_request(m, prompt, &config, &id, &number);
      out = collect(status, {id, number}, {false, true});
      if (probed) out.fault += fault_of_probe(info, status, number);
      break;
    }
    case Kind::kAdmit: {
      kvc_probe_info info{};
      info.struct_size = sizeof info;
      const kvc_status probed = kvc_manager_probe_request(m, target, &info);
      const kvc_status status = kvc_manager_admit_request(m, target, &number);
      out = collect(status, {number}, {true});
      if (probed == KVC_OK) out.fault += fault_of_probe(info, status, number);
      kvc_request_info admitted{};
      admitted.struct_size = sizeof admitted;
      if (status == KVC_OK && (kvc_manager_request_info(m, target, &admitted) != KVC_OK ||
                               admitted.next_checkpoint != info.next_checkpoint))
        out.fault = "the probe told another checkpoint, " + std::to_string(info.next_checkpoint);
      if (probed != KVC_OK && probed != status) out.fault = "the probe and the admission fail differently";
      break;
    }
    case Kind::kAdmitBatch: {
      std::vector<uint64_t> ids, cached(op.targets.size(), 0);
      std::vector<kvc_status> statuses(op.targets.size(), -1);
      for (const uint64_t tag : op.targets) ids.push_back(lib_id(tag, side));
      out.status = kvc_manager_admit_batch(m, ids.data(), ids.size(), cached.data(), statuses.data());
      for (const kvc_status status : statuses) out.values.push_back(status);
      for (const uint64_t hit : cached) out.values.push_back(static_cast<int64_t>(hit));
      break;
    }
    case Kind::kReserve:
      out.status = kvc_manager_reserve_tokens(m, target, op.number);
      break;
    case Kind::kAppend:
      out.status = kvc_manager_append_tokens(m, target, tokens, n);
      break;
    case Kind::kAddKeys:
      out.status = kvc_manager_add_keys(m, target, keys.data(), keys.size());
      break;
    case Kind::kSetCaching:
      out.status = kvc_manager_set_prefix_caching(m, static_cast<uint32_t>(op.number));
      break;
    case Kind::kCommit:
      out.status = kvc_manager_commit_tokens(m, target, op.number);
      break;
    case Kind::kCommitAhead:
      out.status = kvc_manager_commit_ahead(m, target, op.number, op.count);
      break;
    case Kind::kTruncate:
      out.status = kvc_manager_truncate_request(m, target, op.number);
      if (out.status == KVC_ERROR_UNSUPPORTED) {
        unsigned long long lower = 0, higher = 0;
        const char* text = std::strstr(kvc_last_error(), "next lower");
        if (text == nullptr ||
            std::sscanf(text, "next lower length that can be kept is %llu, the next higher one %llu", &lower,
                        &higher) != 2)
          out.fault = kvc_last_error();
        out.values = {static_cast<int64_t>(lower), static_cast<int64_t>(higher)};
      }
      break;
    case Kind::kFork: {
      const kvc_status status = kvc_manager_fork_request(m, target, &id);
      out = collect(status, {id}, {false});
      break;
    }
    case Kind::kPreempt:
      out.status = kvc_manager_preempt_request(m, target);
      break;
    case Kind::kFree:
      out.status = kvc_manager_free_request(m, target);
      break;
    case Kind::kProbe: {
      kvc_probe_info info{sizeof info, kUntouched, kUntouched, kUntouched, kUntouched, 77, 77, 0, 0};
      const kvc_status status = kvc_manager_probe(m, PROMPT(ns, tokens, n, keys.data(), keys.size()), &info);
      out = collect(status,
                    {info.num_cached, info.blocks_needed, info.blocks_available, info.lost_reuse_tokens,
                     status == KVC_OK                           ? info.fits + 2 * info.never_fits
                     : info.fits == 77 && info.never_fits == 77 ? kUntouched
                                                                : 77},
                    {true, true, true, true, true});
      break;
    }
    case Kind::kPin: {
      const kvc_status status =
          kvc_manager_pin_prefix(m, PROMPT(ns, tokens, n, keys.data(), keys.size()), &id, &number);
      out = collect(status, {id, number}, {false, true});
      break;
    }
    case Kind::kUnpin:
      out.status = kvc_manager_unpin_prefix(m, target);
      break;
    case Kind::kDrop: {
      const kvc_status status =
          kvc_manager_drop_prefix(m, PROMPT(ns, tokens, n, keys.data(), keys.size()), &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kEvict: {
      const kvc_status status = kvc_manager_evict_blocks(
          m, op.group < model_.pools.size() ? static_cast<int32_t>(op.group) : -1, op.number, &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kAcquire:
    case Kind::kAcquirePrefix: {
      std::vector<int32_t> blocks(op.number + 1, -77);
      if (op.kind == Kind::kAcquire) {
        out.status = kvc_manager_acquire_blocks(m, static_cast<uint32_t>(op.group), blocks.data(), op.number);
        number = op.number;
      } else {
        out.status =
            kvc_manager_acquire_prefix(m, PROMPT(ns, tokens, n, keys.data(), keys.size()),
                                       static_cast<uint32_t>(op.group), blocks.data(), op.number, &number);
        if (out.status == KVC_OK || out.status == KVC_ERROR_BUFFER_TOO_SMALL)
          out.values.push_back(static_cast<int64_t>(number));
      }
      const size_t written = out.status == KVC_OK ? std::min<uint64_t>(number, op.number) : 0;
      out.values.insert(out.values.end(), blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(written));
      for (size_t i = written; i < blocks.size(); ++i)
        if (blocks[i] != -77) out.fault = "an entry past the answer was written";
      break;
    }
    case Kind::kPublish:
      out.status =
          kvc_manager_publish_blocks(m, PROMPT(ns, tokens, n, keys.data(), keys.size()),
                                     static_cast<uint32_t>(op.group), op.blocks.data(), op.blocks.size());
      break;
    case Kind::kRelease:
      out.status = kvc_manager_release_blocks(m, op.blocks.data(), op.blocks.size());
      break;
    case Kind::kUnpublish: {
      const kvc_status status = kvc_manager_unpublish_blocks(m, op.blocks.data(), op.blocks.size(), &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kOpen: {
      const std::string name = "identity " + std::to_string(op.number);
      kvc_namespace_config c{};
      c.struct_size = sizeof c;
      if (op.number % 3 == 1) c.model = name.data(), c.model_size = name.size();
      if (op.number % 3 == 2) c.adapter = name.data(), c.adapter_size = name.size();
      if (op.number && op.number % 3 == 0) c.tenant = name.data(), c.tenant_size = name.size();
      const kvc_status status = kvc_manager_open_namespace(m, &c, &id);
      out = collect(status, {id}, {false});
      break;
    }
    case Kind::kClose:
      out.status = kvc_manager_close_namespace(m, ns);
      break;
    case Kind::kSetQuota:
      out.status = kvc_manager_set_quota(m, ns, static_cast<uint32_t>(op.group), op.number, op.most);
      break;
    case Kind::kReset:
      out.status = op.number == 0 && ns == 0 ? kvc_manager_reset_all(m)
                                             : kvc_manager_reset_namespace(m, op.number == 0 ? ns : 0);
      break;
    case Kind::kTakeCopies:
    case Kind::kTakeZeros: {
      constexpr size_t kPlenty = 4096;
      const bool few_copies = op.kind == Kind::kTakeCopies;
      std::vector<kvc_block_copy> copies(kPlenty);
      std::vector<int32_t> blocks(kPlenty);
      kvc_pending_work work = {sizeof work,
                               copies.data(),
                               few_copies ? op.number : kPlenty,
                               0,
                               blocks.data(),
                               few_copies ? kPlenty : op.number,
                               0};
      out.status = kvc_manager_take_pending(m, &work);
      out.values = {static_cast<int64_t>(work.num_copies), static_cast<int64_t>(work.num_zero_blocks)};
      for (size_t i = 0; out.status == KVC_OK && i < work.num_copies; ++i) {
        out.values.push_back(copies[i].source);
        out.values.push_back(copies[i].destination);
      }
      for (size_t i = 0; out.status == KVC_OK && i < work.num_zero_blocks; ++i)
        out.values.push_back(blocks[i]);
      break;
    }
    case Kind::kCompact: {
      std::vector<kvc_block_copy> copies(op.number + 1);
      size_t count = 0;
      out.status = kvc_manager_compact(m, static_cast<uint32_t>(op.group), copies.data(), op.number, &count);
      for (size_t i = 0; out.status == KVC_OK && i < count; ++i) {
        out.values.push_back(copies[i].source);
        out.values.push_back(copies[i].destination);
      }
      break;
    }
    case Kind::kResize: {
      std::vector<kvc_block_copy> copies(op.most + 1, {-77, -77});
      size_t count = kUntouched;
      out.status =
          kvc_manager_resize(m, static_cast<uint32_t>(op.group), op.number, copies.data(), op.most, &count);
      const bool tells = out.status == KVC_OK || out.status == KVC_ERROR_BUFFER_TOO_SMALL;
      if (tells) out.values.push_back(static_cast<int64_t>(count));
      if (!tells && count != kUntouched) out.fault = "a failed call wrote its count";
      const size_t written = out.status == KVC_OK ? std::min<uint64_t>(count, op.most) : 0;
      for (size_t i = 0; i < written; ++i) {
        out.values.push_back(copies[i].source);
        out.values.push_back(copies[i].destination);
      }
      for (size_t i = written; i < copies.size(); ++i)
        if (copies[i].source != -77) out.fault = "an entry past the moves was written";
      break;
    }
    case Kind::kRetire: {
      const uint64_t step =
          op.step.in.retired == kFuture ? model_.issued + 1 : step_number(op.step.in.retired);
      out.status = kvc_manager_retire_step(m, step);
      break;
    }
    case Kind::kFailStep: {
      std::vector<uint64_t> ids(setup_.config.max_requests);
      size_t count = 0;
      out.status = kvc_manager_fail_step(m, step_number(op.step.in.retired), ids.data(), ids.size(), &count);
      for (size_t i = 0; i < count; ++i)
        for (const auto& [tag, handle] : handles_)
          if (handle.lib[index] == ids[i] && model_.find(handle.model))
            out.values.push_back(static_cast<int64_t>(tag));
      break;
    }
    case Kind::kSetTime:
      out.status = kvc_manager_set_time(m, op.until);
      break;
    case Kind::kSetPriority:
      out.status = kvc_manager_set_priority(m, target, op.number, op.count, op.priority, op.until);
      break;
    case Kind::kEndSession:
      out.status = kvc_manager_end_session(m, target, op.number);
      break;
    case Kind::kPrefixPriority: {
      const kvc_status status = kvc_manager_set_prefix_priority(
          m, PROMPT(ns, tokens, n, keys.data(), keys.size()), op.number, op.priority, op.until, &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kDemotePrefix: {
      const kvc_status status = kvc_manager_set_prefix_priority(
          m, PROMPT(ns, tokens, n, keys.data(), keys.size()), op.number, KVC_PRIORITY_DEMOTED, 0, &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kRegister: {
      const kvc_status status = kvc_manager_register_prompt(
          m, prompt_name(op.number).c_str(), PROMPT(ns, tokens, n, keys.data(), keys.size()), &number);
      out = collect(status, {number}, {true});
      break;
    }
    case Kind::kAllocateFromPrompt: {
      const kvc_status status = kvc_manager_allocate_from_prompt(m, prompt_name(op.number).c_str(), tokens, n,
                                                                 &config, &id, &number);
      out = collect(status, {id, number}, {false, true});
      break;
    }
    case Kind::kUnregister:
      out.status = kvc_manager_unregister_prompt(m, prompt_name(op.number).c_str());
      break;
    case Kind::kStep:
    case Kind::kCount:
      break;
  }
  if (out.status == KVC_OK && op.tag && handles_.count(op.tag)) handles_[op.tag].lib[index] = id;
  return out;
}
