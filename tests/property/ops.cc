// SPDX-License-Identifier: Apache-2.0
// Operations as readable C-like calls, for the minimal sequences that a failing run prints.
#include "property/ops.h"

#include <sstream>

namespace {

template <typename List>
std::string list(const List& items) {
  std::ostringstream out;
  out << "{";
  for (size_t i = 0; i < items.size(); ++i) out << (i ? "," : "") << items[i];
  out << "}";
  return out.str();
}

std::string text_of(const model::Text& text) {
  std::ostringstream out;
  out << list(text.tokens);
  for (const model::Span& s : text.spans)
    out << " key[" << s.first << "+" << s.count << " digest " << s.digest << "]";
  return out.str();
}

std::string options_of(const model::Options& o) {
  std::ostringstream out;
  if (o.ns) out << " ns" << o.ns;
  if (o.max_cached) out << " max_cached=" << o.max_cached;
  if (o.external) out << " external=" << o.external;
  if (o.slots) out << " slots=" << o.slots;
  if (o.lookahead) out << " lookahead=" << o.lookahead;
  if (o.flags) out << " flags=" << o.flags;
  if (o.headroom) out << " headroom=" << o.headroom;
  if (o.drop_tail) out << " drop_tail=" << o.drop_tail;
  if (o.cross) out << " cross=" << o.cross << " digest=" << o.cross_digest;
  if (o.wait_until) out << " wait_until=" << o.wait_until;
  return out.str();
}

std::string retired_of(uint64_t back) {
  return back == kFuture ? "newest step + 1" : "newest step - " + std::to_string(back);
}

std::string step_of(const StepOp& step) {
  std::ostringstream out;
  out << "step: retired_step = " << retired_of(step.in.retired);
  if (step.in.now) out << ", now_ns = " << step.in.now;
  out << (step.in.past_refusal ? ", ADMIT_PAST_REFUSAL" : "")
      << (step.in.all_or_none ? ", ADMIT_ALL_OR_NONE" : "") << (step.whole_rows ? ", WHOLE_ROWS" : "")
      << (step.move_rows ? ", rows moved" : "") << "\n";
  if (!step.in.frees.empty()) out << "    frees r" << list(step.in.frees) << "\n";
  if (!step.in.preempts.empty()) out << "    preempts r" << list(step.in.preempts) << "\n";
  for (auto [id, n] : step.in.truncates) out << "    truncates r" << id << " to " << n << "\n";
  for (const model::StepRequest& r : step.in.requests) {
    out << "    request r" << r.id;
    if (step.commits) out << " committed " << r.committed << " learned " << list(r.learned);
    if (step.extends) out << " extend by " << r.count << (step.with_ids ? " " + list(r.tokens) : "");
    out << "\n";
  }
  for (size_t i = 0; i < step.in.admissions.size(); ++i) {
    const model::StepAdmission& a = step.in.admissions[i];
    if (a.id) out << "    admit r" << a.id << "\n";
    if (!a.id)
      out << "    admit new r" << step.makes[i] << " " << text_of(a.text) << options_of(a.options) << "\n";
  }
  return out.str();
}

}  // namespace

const char* kind_name(Kind kind) {
  static const char* const kNames[kKinds] = {"create_request",
                                             "admit_request",
                                             "allocate_request",
                                             "reserve_tokens",
                                             "append_tokens",
                                             "commit_tokens",
                                             "truncate_request",
                                             "fork_request",
                                             "preempt_request",
                                             "free_request",
                                             "probe",
                                             "pin_prefix",
                                             "unpin_prefix",
                                             "drop_prefix",
                                             "evict_blocks",
                                             "acquire_blocks",
                                             "acquire_prefix",
                                             "publish_blocks",
                                             "release_blocks",
                                             "unpublish_blocks",
                                             "open_namespace",
                                             "close_namespace",
                                             "reset",
                                             "set_quota",
                                             "take_copies",
                                             "take_zero_blocks",
                                             "compact",
                                             "retire_step",
                                             "fail_step",
                                             "step",
                                             "set_time",
                                             "set_priority",
                                             "end_session",
                                             "set_prefix_priority",
                                             "demote_prefix",
                                             "register_prompt",
                                             "allocate_from_prompt",
                                             "unregister_prompt",
                                             "resize",
                                             "add_keys",
                                             "set_prefix_caching",
                                             "commit_ahead",
                                             "admit_batch"};
  return kNames[static_cast<int>(kind)];
}

std::string to_text(const Setup& setup) {
  const model::Config& c = setup.config;
  std::ostringstream out;
  out << "manager: block_size " << c.block_size << ", pools " << list(c.pools) << ", watermark "
      << c.watermark << ", max_requests " << c.max_requests << ", max_request_tokens " << c.max_tokens
      << ", vocab_size " << c.vocab << ", events " << setup.event_capacity << ", policy " << c.policy
      << ", weight " << c.weight << ", history " << c.history << ", max_quotas " << c.max_quotas << ", rooms "
      << list(c.rooms) << ", near " << c.near << ", max_nodes " << c.max_nodes
      << (c.headroom ? ", HEADROOM" : "") << (c.partial ? ", PARTIAL_REUSE" : "")
      << (c.hints ? ", HINTS" : "") << (c.fills ? ", FILLS" : "") << (c.null_block ? ", NULL_BLOCK" : "")
      << (c.no_cache ? ", NO_PREFIX_CACHE" : "") << (c.zero_cross_namespace ? ", ZERO_FOREIGN" : "")
      << (c.zero_always ? ", ZERO_ALWAYS" : "") << "\n";
  for (const model::Group& g : c.groups) {
    out << "  group: pool " << g.pool;
    if (g.state)
      out << ", states, retention " << g.retention << ", max_checkpoints " << g.max_checkpoints;
    else if (g.chunk_tokens)
      out << ", chunks " << g.chunk_tokens << ", retention " << g.retention;
    else if (g.window)
      out << ", window " << g.window_tokens << ", sinks " << g.sink_tokens << ", retention " << g.retention;
    out << "\n";
  }
  for (const size_t pool : c.cross) out << "  group: pool " << pool << ", cross\n";
  return out.str();
}

std::string to_text(const Op& op) {
  std::ostringstream out;
  const std::string ns = op.ns ? "ns" + std::to_string(op.ns) : "0";
  out << kind_name(op.kind) << "(";
  switch (op.kind) {
    case Kind::kCreate:
    case Kind::kAllocate:
      out << text_of(op.text) << options_of(op.options) << ") -> r" << op.tag;
      break;
    case Kind::kAdmit:
    case Kind::kPreempt:
    case Kind::kFree:
      out << "r" << op.target << ")";
      break;
    case Kind::kAdmitBatch:
      out << "r" << list(op.targets) << ")";
      break;
    case Kind::kReserve:
    case Kind::kCommit:
    case Kind::kTruncate:
      out << "r" << op.target << ", " << op.number << ")";
      break;
    case Kind::kAppend:
      out << "r" << op.target << ", " << list(op.text.tokens) << ")";
      break;
    case Kind::kAddKeys:
      out << "r" << op.target << "," << text_of(op.text) << ")";
      break;
    case Kind::kFork:
      out << "r" << op.target << ") -> r" << op.tag;
      break;
    case Kind::kProbe:
    case Kind::kDrop:
      out << ns << ", " << text_of(op.text) << ")";
      break;
    case Kind::kPin:
      out << ns << ", " << text_of(op.text) << ") -> pin" << op.tag;
      break;
    case Kind::kUnpin:
      out << "pin" << op.target << ")";
      break;
    case Kind::kEvict:
      out << "pool " << op.group << ", " << op.number << ")";
      break;
    case Kind::kTakeCopies:
    case Kind::kTakeZeros:
      out << op.number << ")";
      break;
    case Kind::kCompact:
      out << "pool " << op.group << ", capacity " << op.number << ")";
      break;
    case Kind::kResize:
      out << "pool " << op.group << ", " << op.number << " blocks, capacity " << op.most << ")";
      break;
    case Kind::kAcquire:
      out << "group " << op.group << ", " << op.number << ")";
      break;
    case Kind::kAcquirePrefix:
      out << ns << ", group " << op.group << ", " << text_of(op.text) << ", capacity " << op.number << ")";
      break;
    case Kind::kPublish:
      out << ns << ", group " << op.group << ", " << text_of(op.text) << ", " << list(op.blocks) << ")";
      break;
    case Kind::kRelease:
    case Kind::kUnpublish:
      out << list(op.blocks) << ")";
      break;
    case Kind::kOpen:
      out << "identity " << op.number << ") -> ns" << op.tag;
      break;
    case Kind::kReset:
      out << (op.number != 0 ? "default" : op.ns == 0 ? "all" : ns) << ")";
      break;
    case Kind::kSetQuota:
      out << ns << ", pool " << op.group << ", " << op.number << ", " << op.most << ")";
      break;
    case Kind::kClose:
      out << ns << ")";
      break;
    case Kind::kRetire:
    case Kind::kFailStep:
      out << retired_of(op.step.in.retired) << ")";
      break;
    case Kind::kStep:
      return step_of(op.step);
    case Kind::kSetTime:
      out << op.until << ")";
      break;
    case Kind::kSetPriority:
      out << "r" << op.target << ", tokens " << op.number << " + " << op.count << ", priority " << op.priority
          << ", until " << op.until << ")";
      break;
    case Kind::kEndSession:
      out << "r" << op.target << ", shared " << op.number << ")";
      break;
    case Kind::kPrefixPriority:
      out << ns << ", " << text_of(op.text) << ", from " << op.number << ", priority " << op.priority
          << ", until " << op.until << ")";
      break;
    case Kind::kDemotePrefix:
      out << ns << ", " << text_of(op.text) << ", from " << op.number << ")";
      break;
    case Kind::kRegister:
      out << "name " << op.number << ", " << ns << ", " << text_of(op.text) << ")";
      break;
    case Kind::kAllocateFromPrompt:
      out << "name " << op.number << ", " << text_of(op.text) << options_of(op.options) << ") -> r" << op.tag;
      break;
    case Kind::kUnregister:
      out << "name " << op.number << ")";
      break;
    case Kind::kCommitAhead:
      out << "r" << op.target << ", " << op.number << ", " << op.count << ")";
      break;
    case Kind::kSetCaching:
      out << op.number << ")";
      break;
    case Kind::kCount:
      break;
  }
  return out.str() + "\n";
}
