// SPDX-License-Identifier: Apache-2.0
// World: the step. Rows of the block tables belong to requests from their first step on; after each step the
// rows of all items that went well must equal the model's tables, both in the caller's memory and as rebuilt
// from the list of changes.
#include <sstream>

#include "property/world.h"

Op World::without_unknown(const Op& op) const {
  Op out = op;
  model::StepIn& in = out.step.in;
  const auto unknown = [&](uint64_t tag) { return !handles_.count(tag); };
  std::erase_if(in.frees, unknown);
  std::erase_if(in.preempts, unknown);
  std::erase_if(in.truncates, [&](auto& t) { return unknown(t.first); });
  std::erase_if(in.requests, [&](auto& r) { return unknown(r.id); });
  out.step.makes.clear();
  in.admissions.clear();
  for (size_t i = 0; i < op.step.in.admissions.size(); ++i) {
    const model::StepAdmission& a = op.step.in.admissions[i];
    if ((a.id && unknown(a.id)) || (a.options.ns && unknown(a.options.ns))) continue;
    in.admissions.push_back(a);
    out.step.makes.push_back(op.step.makes[i]);
  }
  return out;
}

model::StepIn World::to_model(const StepOp& step) const {
  model::StepIn in = step.in;
  in.retired = step_number(step.in.retired);
  for (uint64_t& tag : in.frees) tag = model_id(tag);
  for (uint64_t& tag : in.preempts) tag = model_id(tag);
  for (auto& [tag, n] : in.truncates) tag = model_id(tag);
  for (model::StepRequest& r : in.requests)
    r.id = model_id(r.id), r.commit = step.commits, r.with_ids = step.with_ids,
    r.count = step.extends ? r.count : 0;
  for (model::StepAdmission& a : in.admissions)
    a.id = a.id ? model_id(a.id) : 0, a.options.ns = model_id(a.options.ns);
  return in;
}

// Rows: a request keeps its row while it lives, unless the operation moves it; nobody takes the row of a
// living one. A request that the step frees, or preempts without admitting it again, hands its row on to an
// admission.
World::StepPlan World::plan_step(const Op& op) {
  const model::StepIn& in = op.step.in;
  StepPlan plan;
  std::vector<bool> used(rows_);
  for (auto it = row_of_.begin(); it != row_of_.end();)
    it = model_.find(model_id(it->first)) ? (used[static_cast<size_t>(it->second)] = true, std::next(it))
                                          : row_of_.erase(it);
  const auto lowest = [&](uint64_t tag) {
    size_t row = 0;
    while (row < rows_ && used[row]) ++row;
    if (row == rows_) return -1;
    used[row] = true;
    return row_of_[tag] = static_cast<int32_t>(row);
  };
  for (const model::StepRequest& r : in.requests) {
    const bool has = row_of_.count(r.id);
    plan.rows.push_back(has && !op.step.move_rows ? row_of_[r.id] : lowest(r.id));
  }
  const auto freed = [&](uint64_t tag) { return std::count(in.frees.begin(), in.frees.end(), tag) != 0; };
  const auto hand_on = [&](uint64_t tag) {
    bool returns = false;
    for (const model::StepAdmission& a : in.admissions) returns |= a.id == tag;
    if (!row_of_.count(tag) || (returns && !freed(tag))) return;
    if (row_of_[tag] >= 0) used[static_cast<size_t>(row_of_[tag])] = false;
    row_of_.erase(tag);
  };
  for (uint64_t tag : in.frees) hand_on(tag);
  for (uint64_t tag : in.preempts)
    if (const model::Request* r = model_.find(model_id(tag)); r && r->admitted) hand_on(tag);
  for (size_t i = 0; i < in.admissions.size(); ++i) {
    const uint64_t tag = in.admissions[i].id ? in.admissions[i].id : op.step.makes[i];
    plan.rows.push_back(freed(tag) ? -1 : row_of_.count(tag) ? row_of_[tag] : lowest(tag));
  }
  return plan;
}

Outcome World::step_model(const Op& op, std::vector<kvc_status>* items) {
  Outcome out;
  model::StepOut result;
  out.status = model_.step(to_model(op.step), result);
  if (out.status != KVC_OK) return out;
  *items = result.status;
  bytes_.copy_pending();
  bytes_.copy(result.copies);
  bytes_.fill(model_.issued);
  const auto value = [&](auto v) { out.values.push_back(static_cast<int64_t>(v)); };
  value(result.step_id), value(result.refused), value(result.copies.size());
  if (model_.pools.size() == 1) value(result.shortage);
  for (kvc_status status : result.status) value(status);
  for (uint64_t cached : result.cached) value(cached);
  for (const model::Copy& copy : result.copies) value(copy.source), value(copy.destination);
  for (size_t i = 0; i < result.admitted.size(); ++i) {
    value(result.admitted[i] != 0);
    if (!result.admitted[i] || op.step.in.admissions[i].id) continue;
    handles_[op.step.makes[i]].model = result.admitted[i];
    tag_of_[result.admitted[i]] = op.step.makes[i];
  }
  return out;
}

Outcome World::step_library(const Op& op, int side_index, const StepPlan& plan) {
  Side& side = sides_[static_cast<size_t>(side_index)];
  const StepOp& in = op.step;
  const auto id = [&](uint64_t tag) { return lib_id(tag, side_index); };
  const size_t num_requests = in.in.requests.size(), num_new = in.in.admissions.size(),
               items = num_requests + num_new;
  const size_t groups = model_.num_groups();

  std::vector<uint64_t> frees, preempts, truncates, lengths, requests, committed, commit_offsets{0},
      extend_offsets{0};
  std::vector<uint64_t> admit, admit_offsets{0}, admit_slots, key_offsets{0};
  std::vector<int32_t> commit_tokens, extend_tokens, admit_tokens;
  std::vector<kvc_request_config> configs;
  std::vector<uint64_t> namespaces;
  std::vector<kvc_extra_key> keys;
  for (uint64_t tag : in.in.frees) frees.push_back(id(tag));
  for (uint64_t tag : in.in.preempts) preempts.push_back(id(tag));
  for (auto [tag, n] : in.in.truncates) truncates.push_back(id(tag)), lengths.push_back(n);
  for (const model::StepRequest& r : in.in.requests) {
    requests.push_back(id(r.id));
    committed.push_back(r.committed);
    commit_tokens.insert(commit_tokens.end(), r.learned.begin(), r.learned.end());
    commit_offsets.push_back(commit_tokens.size());
    extend_tokens.insert(extend_tokens.end(), r.tokens.begin(), r.tokens.end());
    extend_offsets.push_back(extend_offsets.back() + r.count);
  }
  for (const model::StepAdmission& a : in.in.admissions) {
    admit.push_back(a.id ? id(a.id) : 0);
    if (!a.id) admit_tokens.insert(admit_tokens.end(), a.text.tokens.begin(), a.text.tokens.end());
    admit_offsets.push_back(admit_tokens.size());
    const std::vector<kvc_extra_key> own = a.id ? std::vector<kvc_extra_key>{} : to_keys(a.text);
    keys.insert(keys.end(), own.begin(), own.end());
    key_offsets.push_back(keys.size());
    configs.push_back(to_config(a.options));
    // The step may say how many slots a new request gets, instead of its options.
    admit_slots.push_back(!a.id && admit.size() % 2 == 0 ? configs.back().slots : 0);
    if (admit_slots.back() != 0) configs.back().slots = 0;
    namespaces.push_back(a.options.ns ? id(a.options.ns) : 0);
  }

  std::vector<kvc_status> status(frees.size() + preempts.size() + truncates.size() + items, -1);
  std::vector<uint64_t> admitted(num_new, 77), cached(num_new, 77), num_blocks(groups * items, 77);
  std::vector<int64_t> slots(groups * extend_offsets.back(), -77);
  std::vector<kvc_block_copy> copies(groups * items + 1);
  std::vector<kvc_table_change> changes(groups * rows_ * stride_ + 1);

  kvc_step step{};
  step.struct_size = sizeof step;
  step.flags = (in.whole_rows ? uint32_t{KVC_STEP_WHOLE_ROWS} : 0u) |
               (in.in.past_refusal ? uint32_t{KVC_STEP_ADMIT_PAST_REFUSAL} : 0u) |
               (in.in.all_or_none ? uint32_t{KVC_STEP_ADMIT_ALL_OR_NONE} : 0u);
  step.fill_id = setup_.fill_id;
  step.retired_step = in.in.retired == kFuture ? kFuture : 0;
  // The model has already counted this step, unless it refused it.
  if (in.in.retired != kFuture)
    step.retired_step = model_.issued - 1 - std::min(in.in.retired, model_.issued - 1);
  step.now_ns = in.in.now;
  step.num_frees = frees.size(), step.frees = frees.data();
  step.num_preempts = preempts.size(), step.preempts = preempts.data();
  step.num_truncates = truncates.size(), step.truncates = truncates.data(),
  step.truncate_lengths = lengths.data();
  step.num_requests = num_requests, step.requests = requests.data();
  if (in.commits) {
    step.committed = committed.data(), step.commit_offsets = commit_offsets.data(),
    step.commit_tokens = commit_tokens.data();
  }
  if (in.extends) step.extend_offsets = extend_offsets.data();
  const int32_t none = 0;
  if (in.extends && in.with_ids) step.extend_tokens = extend_tokens.empty() ? &none : extend_tokens.data();
  step.num_admissions = num_new, step.admit_requests = admit.data(),
  step.admit_offsets = admit_offsets.data();
  step.admit_tokens = admit_tokens.data(), step.admit_configs = configs.data();
  step.admit_namespaces = namespaces.data(), step.admit_slots = admit_slots.data();
  step.admit_key_offsets = key_offsets.data(), step.admit_keys = keys.data();
  step.num_rows = rows_, step.row_stride = stride_, step.rows = plan.rows.data();
  step.status = status.data(), step.admitted = admitted.data(), step.cached = cached.data();
  step.num_blocks = num_blocks.data(), step.block_tables = side.tables.data();
  step.slot_capacity = extend_offsets.back(), step.slots = slots.data();
  step.copy_capacity = copies.size(), step.copies = copies.data();
  step.change_capacity = 0, step.changes = changes.data();

  Outcome out;
  out.status = kvc_manager_step(side.manager, &step);
  if (out.status == KVC_ERROR_BUFFER_TOO_SMALL) {  // the room that it asks for suffices
    changes.resize(std::max(changes.size(), step.num_changes));
    step.change_capacity = step.num_changes, step.changes = changes.data();
    out.status = kvc_manager_step(side.manager, &step);
  }
  if (step.num_changes > step.change_capacity) out.fault = "more changes than the step has asked room for";
  if (out.status != KVC_OK) return out;
  const auto value = [&](auto v) { out.values.push_back(static_cast<int64_t>(v)); };
  value(step.step_id), value(step.num_refused), value(step.num_copies);
  if (model_.pools.size() == 1) value(step.shortage_blocks);
  for (kvc_status s : status) value(s);
  for (uint64_t c : cached) value(c);
  for (size_t i = 0; i < step.num_copies; ++i) value(copies[i].source), value(copies[i].destination);
  for (size_t i = 0; i < num_new; ++i) {
    value(admitted[i] != 0);
    const uint64_t tag = in.in.admissions[i].id ? in.in.admissions[i].id : in.makes[i];
    if (admitted[i] && handles_.count(tag)) {
      if (in.in.admissions[i].id && admitted[i] != id(tag))
        out.fault = "a waiting request was admitted under another id";
      handles_[tag].lib[static_cast<size_t>(side_index)] = admitted[i];
    }
  }
  if (step.num_slots != (in.extends ? extend_offsets.back() : 0)) out.fault = "num_slots";
  if (out.fault.empty()) out.fault = check_rows(op, side, plan, step);
  return out;
}

std::string World::check_rows(const Op& op, Side& side, const StepPlan& plan, const kvc_step& step) {
  std::ostringstream error;
  const size_t num_requests = step.num_requests, items = num_requests + step.num_admissions;
  for (size_t i = 0; i < step.num_changes; ++i) {
    const kvc_table_change& c = step.changes[i];
    if (c.group < 0 || c.row < 0 || c.column < 0 || size_t(c.group) >= model_.num_groups() ||
        size_t(c.row) >= rows_ || size_t(c.column) >= stride_)
      return "a change outside of the tables";
    side.shadow[(size_t(c.group) * rows_ + size_t(c.row)) * stride_ + size_t(c.column)] = c.block;
  }
  const kvc_status* status = step.status + step.num_frees + step.num_preempts + step.num_truncates;
  for (size_t i = 0; i < items; ++i) {
    const bool running = i < num_requests;
    const model::StepAdmission* a = running ? nullptr : &op.step.in.admissions[i - num_requests];
    const uint64_t tag = running ? op.step.in.requests[i].id
                         : a->id ? a->id
                                 : op.step.makes[i - num_requests];
    bool twice = false;  // preempted and admitted again in this step: its row is that of the admission
    for (const model::StepAdmission& other : op.step.in.admissions) twice |= running && other.id == tag;
    const model::Request* r = model_.find(model_id(tag));
    const bool refused = status[i] == KVC_ERROR_NO_SPACE || status[i] == KVC_ERROR_AGAIN ||
                         status[i] == KVC_ERROR_OVER_QUOTA || status[i] == KVC_ERROR_NEVER_FITS;
    if (twice || !r || !r->admitted || !(status[i] == KVC_OK || (running && refused))) continue;
    for (size_t g = 0; g < model_.num_groups(); ++g) {
      static const std::vector<model::Cell> kNone;
      const bool cross = g >= r->table.size();
      const std::vector<model::Cell>& cells = !cross             ? r->table[g]
                                              : r->cross.empty() ? kNone
                                                                 : r->cross[g - r->table.size()];
      if (step.num_blocks[g * items + i] != cells.size()) error << "num_blocks of item " << i << "; ";
      for (size_t column = 0; plan.rows[i] >= 0 && column < stride_; ++column) {
        const size_t at = (g * rows_ + size_t(plan.rows[i])) * stride_ + column;
        const int32_t want =
            column < cells.size() && cells[column].block >= 0 ? cells[column].block : setup_.fill_id;
        if (side.tables[at] != want || (column < cells.size() && side.shadow[at] != want)) {
          error << "group " << g << " row " << plan.rows[i] << " column " << column << " (r" << tag
                << "): table " << side.tables[at] << ", by changes " << side.shadow[at] << ", wanted "
                << want;
          return error.str();
        }
      }
      const uint64_t count = running && op.step.extends ? op.step.in.requests[i].count : 0;
      const uint64_t first = (op.step.with_ids ? r->text.tokens.size() : r->capacity) - count;
      for (uint64_t t = 0; t < count; ++t) {
        const uint64_t token = status[i] == KVC_OK ? first + t : 0, B = setup_.config.block_size;
        const int block = status[i] == KVC_OK && !cross ? cells[token / B].block : -1;
        const int64_t want = block < 0 ? -1 : int64_t(block) * int64_t(B) + int64_t(token % B);
        if (step.slots[g * step.slot_capacity + step.extend_offsets[i] + t] != want) {
          error << "slot of token " << token << " of r" << tag << " in group " << g;
          return error.str();
        }
      }
    }
  }
  return error.str();
}
