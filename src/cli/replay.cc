// SPDX-License-Identifier: Apache-2.0
// The closed loop. A round commits and frees what the last round finished, admits in file order, and decodes
// one token for every live request. Invariants: live_ is in order of admission. Before an admission all full
// blocks of live requests are published, so hits do not depend on the time of commits. A preempted request is
// the next to be admitted, with its tokens.
#include "cli/replay.h"

#include <kvcache/prefix.h>
#include <kvcache/retention.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>

#include "cli/curve.h"
#include "cli/library.h"
#include "cli/optimal.h"
#include "cli/oracle.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/session_oracle.h"
#include "cli/step_call.h"

namespace kvcli {
namespace {

/// By KVC_POLICY_*.
uint32_t policy_number(const std::string& name) {
  const auto& names = policy_names();
  return static_cast<uint32_t>(std::ranges::find(names, name) - names.begin());
}

struct Waiting {
  uint32_t index;         // In the trace.
  uint32_t produced = 0;  // Output tokens made before a preemption.
  bool readmission = false;
  uint64_t id = 0;     // In the library; 0 = not created yet.
  double seconds = 0;  // Inside calls that create and admit it.
};

struct Live {
  uint64_t id;
  uint32_t index;
  uint32_t produced;
  uint32_t num_outputs;
  uint32_t length;         // Known tokens.
  int32_t row;             // Of the block tables.
  uint32_t remaining = 0;  // Tokens of its prompt that are not computed yet.

  bool finished() const { return produced == num_outputs; }
  uint32_t computed() const { return length - remaining; }
};

class Replay {
 public:
  Replay(const Trace& trace, const ReplayOptions& options);
  ReplayResult run();

 private:
  Waiting* head();
  void admit_round();
  kvc_request_config config_of(const Waiting& waiting, uint32_t length) const;
  void count_admission(const Waiting& waiting, uint32_t length, uint64_t cached);
  bool admit(Waiting& waiting);
  bool prefill_round();
  void compute_chunk(Live& request, uint32_t count);
  void commit_prompt(const Live& request);
  void commit(const Live& request, Stopwatch& watch);
  void decode_round();
  void extend(std::span<const size_t> items);
  uint64_t take_youngest();
  void preempt_youngest();
  void settle();
  void end_session(const Live& request);
  void forget(const Live& request);
  void check_table(const Live& request);
  void sample_peak();
  void sample_occupancy();
  void finish();

  uint64_t blocks_of(uint64_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
  }
  bool fits(uint64_t tokens) const;
  uint32_t next_chunk(const Live& request);
  bool has_room();
  size_t num_groups() const { return std::max<size_t>(options_.groups.size(), 1); }
  kvc_stats stats() const { return ask<kvc_stats>(kvc_manager_read_stats, manager_.get()); }
  std::span<const int32_t> export_table(uint64_t request, uint64_t max_tokens);

  const Trace& trace_;
  const ReplayOptions options_;
  std::vector<uint64_t> pool_blocks_;  // Usable ones.
  uint64_t usable_blocks_ = 0;         // Their sum.
  Manager manager_;
  std::optional<StepCall> step_;
  std::optional<Oracle> oracle_;
  std::optional<SessionOracle> sessions_;
  std::optional<LogFile> log_;
  std::optional<ReplayTiers> tiers_;

  size_t next_ = 0;            // Next request of the trace.
  std::deque<Waiting> queue_;  // Filled by head().
  std::vector<Live> live_;
  std::vector<int32_t> free_rows_;
  bool any_finished_ = false;
  bool any_block_filled_ = false;  // By tokens that are not committed yet.

  std::vector<int32_t> tokens_, table_;
  std::vector<kvc_block_copy> copies_;  // Of one admission with partial reuse.
  std::vector<size_t> all_items_, items_without_space_;
  bool has_states_ = false;       // A group has recurrent states.
  uint64_t sample_interval_ = 1;  // Decode rounds between two samples of the occupancy.
  uint64_t rounds_ = 0;
  Stopwatch prompt_watch_, decode_watch_, release_watch_;
  ReplayResult result_;
};

Replay::Replay(const Trace& trace, const ReplayOptions& options) : trace_(trace), options_(options) {
  uint64_t longest = 1;
  for (const TraceRequest& request : trace.requests) {
    longest = std::max<uint64_t>(longest, uint64_t{request.input_length} + request.num_outputs());
  }
  auto config = make<kvc_manager_config>();
  config.num_blocks = options.pools.empty() ? options.num_blocks : 0;
  config.groups = options.groups.data();
  config.num_groups = options.groups.size();
  config.pools = options.pools.data();
  config.num_pools = options.pools.size();
  config.block_size = options.block_size;
  config.max_requests = uint64_t{options.concurrency} + 1;  // Live ones, and one that waits.
  config.max_request_tokens = longest;
  config.vocab_size = kVocabSize;
  config.policy = policy_number(options.policy);
  config.policy_weight = options.policy_weight;
  if (!options.hints.empty()) {
    config.flags |= KVC_MANAGER_HINTS;
    sessions_.emplace(trace, parse_hints(options.hints));
  }
  if (options.partial) config.flags |= KVC_MANAGER_PARTIAL_REUSE;
  if (!options.record.empty()) {
    log_.emplace(options.record);
    config.record_bytes = LogFile::kRecordBytes;
  }
  has_states_ = std::ranges::any_of(
      options.groups, [](const kvc_group_config& group) { return group.kind == KVC_GROUP_STATE; });
  config.event_capacity = options.event_capacity;
  if (!options.tiers.urls.empty())
    config.event_capacity =
        ReplayTiers::num_events(blocks_of(longest) * std::max<size_t>(options.groups.size(), 1));
  manager_.reset(ask<kvc_manager*>(kvc_manager_create, &config));
  if (!options.tiers.urls.empty()) tiers_.emplace(manager_.get(), num_groups(), options.tiers);
  if (options.curve != 0) open_curve(manager_.get(), options.curve);

  for (uint32_t p = 0; p < std::max<size_t>(options.pools.size(), 1); ++p) {
    pool_blocks_.push_back(ask<kvc_pool_info>(kvc_manager_pool_info, manager_.get(), p).num_blocks);
    usable_blocks_ += pool_blocks_.back();
  }
  result_.policy_weight = ask<kvc_properties>(kvc_manager_properties, manager_.get()).policy_weight;

  const uint64_t row_stride = options.maintain_tables ? std::min(blocks_of(longest), usable_blocks_) : 0;
  step_.emplace(options.concurrency, row_stride, options.maintain_tables || options.verify);
  if (options.verify) oracle_.emplace(options.num_blocks, options.block_size, options.data);
  for (auto row = static_cast<int32_t>(options.concurrency); row-- > 0;) free_rows_.push_back(row);
  copies_.resize(num_groups());
  result_.requests = trace.requests.size();
}

ReplayResult Replay::run() {
  Progress progress(trace_.requests.size(), options_.progress);
  while (head() != nullptr || !live_.empty()) {
    const bool admitting = live_.size() < options_.concurrency && head() != nullptr;
    if (any_finished_ || (admitting && any_block_filled_)) settle();
    const bool preempted = options_.chunk != 0 && prefill_round();
    if (!preempted) admit_round();  // else the youngest would come back at once
    if (!live_.empty()) decode_round();
    if (tiers_) tiers_->poll();
    if (log_) log_->drain(manager_.get());
    progress.update(next_, live_.size());
  }
  if (log_) log_->finish(manager_.get());
  finish();
  if (options_.at_end) options_.at_end(manager_.get());
  return result_;
}

/// Whether a request of so many tokens, alone in the pools, always finds its blocks. A group with a window
/// holds the blocks of kvc_memory_estimate.window_blocks. A state group holds the state of the hit, that of
/// the slot of the admission, and that at the end of the step; a cross group the encoder's tokens.
bool Replay::fits(uint64_t tokens) const {
  std::vector<uint64_t> needed(pool_blocks_.size());
  const uint64_t all = blocks_of(tokens);
  if (options_.groups.empty()) needed[0] = all;
  for (const kvc_group_config& group : options_.groups) {
    const bool whole = group.kind == KVC_GROUP_FULL || options_.chunk == 0;
    if (group.kind == KVC_GROUP_STATE || group.kind == KVC_GROUP_CROSS) {
      needed[group.pool] +=
          group.kind == KVC_GROUP_STATE ? std::min<uint64_t>(all, 3) : blocks_of(options_.cross_tokens);
      continue;
    }
    const uint64_t window = std::max<uint64_t>({group.window_tokens, group.chunk_tokens, 2});
    needed[group.pool] += whole ? all : std::min(all, blocks_of(window + options_.chunk - 2) + 1);
  }
  return std::ranges::equal(needed, pool_blocks_, std::less_equal<>());
}

/// The next request to admit, or null. Skips requests that can never fit.
Waiting* Replay::head() {
  while (queue_.empty() && next_ < trace_.requests.size()) {
    const auto index = static_cast<uint32_t>(next_++);
    const TraceRequest& request = trace_.requests[index];
    if (!fits(uint64_t{request.input_length} + request.num_outputs())) {
      ++result_.rejected;
      result_.rejected_tokens += request.input_length;
    } else {
      queue_.push_back({.index = index});
    }
  }
  return queue_.empty() ? nullptr : &queue_.front();
}

void Replay::admit_round() {
  const size_t first_new = live_.size();
  while (live_.size() < options_.concurrency && head() != nullptr && admit(*head())) {
    queue_.pop_front();
    if (!options_.commit_late) commit_prompt(live_.back());
  }
  if (options_.commit_late) {
    for (size_t i = first_new; i < live_.size(); ++i) commit_prompt(live_[i]);
  }
}

kvc_request_config Replay::config_of(const Waiting& waiting, uint32_t length) const {
  auto config = make<kvc_request_config>();
  config.flags = waiting.readmission ? KVC_REQUEST_RESUMED : 0;
  // With states a step ends where a state is worth keeping, which is known after the admission.
  config.slots = has_states_ ? 1 : std::min(options_.chunk, length);
  config.cross_tokens = options_.cross_tokens;
  if (config.cross_tokens != 0 && waiting.id == 0) {  // an encoder's input for each first block of a prompt
    config.cross_digest[0] = 1;
    std::memcpy(config.cross_digest + 1, tokens_.data(), sizeof tokens_[0]);
  }
  return config;
}

void Replay::count_admission(const Waiting& waiting, uint32_t length, uint64_t cached) {
  if (options_.cross_tokens != 0) {
    const auto info = ask<kvc_request_info>(kvc_manager_request_info, manager_.get(), waiting.id);
    ++result_.encoders;
    result_.encoder_hits += info.num_cross_cached != 0;
  }
  if (waiting.readmission) return;
  result_.prompt_tokens += length;
  result_.cached_tokens += cached;
  result_.prompt_blocks += blocks_of(length);
  result_.block_queries += (length - 1) / options_.block_size;
  result_.block_hits += cached / options_.block_size;
  result_.partial_hits += cached % options_.block_size != 0;
  result_.partial_tokens += cached % options_.block_size;
}

/// Admits the head request. Without space it stays waiting in the library, so it is hashed only once.
bool Replay::admit(Waiting& waiting) {
  const TraceRequest& request = trace_.requests[waiting.index];
  const bool create = waiting.id == 0;
  if (create || oracle_) make_tokens(trace_, waiting.index, waiting.produced, tokens_);
  const uint32_t length = request.input_length + waiting.produced;

  if (has_states_ && !live_.empty() && !has_room()) return false;
  const kvc_request_config config = config_of(waiting, length);
  uint64_t cached = 0;
  prompt_watch_.start();
  if (create) {
    auto prompt = make<kvc_prompt>();
    prompt.tokens = tokens_.data();
    prompt.num_tokens = length;
    check(kvc_manager_create_request(manager_.get(), &prompt, &config, &waiting.id));
  }
  if (tiers_ && create) {
    waiting.seconds += prompt_watch_.stop();
    step_->retire(manager_.get());  // fenced blocks are no room
    tiers_->load(waiting.id);
    prompt_watch_.start();
  }
  if (options_.partial) step_->retire(manager_.get());  // what is copied must not be fenced
  const kvc_status status = kvc_manager_admit_request(manager_.get(), waiting.id, &cached);
  if (cached % options_.block_size != 0) {  // copied at once: there are no bytes
    auto work = make<kvc_pending_work>();
    work.copies = copies_.data(), work.copy_capacity = copies_.size();
    check(kvc_manager_take_pending(manager_.get(), &work));
  }
  waiting.seconds += prompt_watch_.stop();

  if (status == KVC_ERROR_NO_SPACE && !live_.empty()) {
    ++result_.failed_allocations;
    if (tiers_) tiers_->cancel(waiting.id);
    return false;
  }
  check(status);
  if (tiers_) tiers_->cancel(waiting.id);
  result_.prompt_calls.add(waiting.seconds);
  live_.push_back(
      {waiting.id, waiting.index, waiting.produced, request.num_outputs(), length, free_rows_.back()});
  free_rows_.pop_back();
  live_.back().remaining = length - static_cast<uint32_t>(cached);
  if (!has_states_) compute_chunk(live_.back(), next_chunk(live_.back()));
  count_admission(waiting, length, cached);
  if (oracle_) oracle_->admit(waiting.index, tokens_, cached, export_table(waiting.id, length));
  return true;
}

/// Whether the pools have blocks for the first chunk of a prompt, beyond the one slot of its admission.
bool Replay::has_room() {
  std::vector<uint64_t> room;
  for (uint32_t p = 0; p < pool_blocks_.size(); ++p) {
    const auto info = ask<kvc_pool_info>(kvc_manager_pool_info, manager_.get(), p);
    room.push_back(info.free + info.cached);
  }
  std::vector<uint64_t> needed(room.size());
  for (const kvc_group_config& group : options_.groups)
    needed[group.pool] += group.kind == KVC_GROUP_STATE ? 3 : blocks_of(options_.chunk) + 1;
  return std::ranges::equal(needed, room, std::less_equal<>());
}

/// Prompt tokens of the request's next step.
uint32_t Replay::next_chunk(const Live& request) {
  const uint32_t count =
      options_.chunk == 0 ? request.remaining : std::min(request.remaining, options_.chunk);
  if (!has_states_) return count;
  const auto info = ask<kvc_request_info>(kvc_manager_request_info, manager_.get(), request.id);
  const uint64_t next = info.next_checkpoint;
  return next == 0 ? count : static_cast<uint32_t>(std::min<uint64_t>(count, next - request.computed()));
}

/// Counts the next tokens of a prompt as computed.
void Replay::compute_chunk(Live& request, uint32_t count) {
  request.remaining -= count;
  result_.computed_tokens += count;
  ++result_.prompt_steps;
}

/// Computes one more chunk of each prompt that is not whole yet. Without space for it the youngest request
/// goes; true if one did.
bool Replay::prefill_round() {
  const uint64_t before = result_.preemptions;
  step_->retire(manager_.get());
  for (size_t i = 0; i < live_.size(); ++i) {
    while (i < live_.size() && live_[i].remaining != 0) {
      Live& request = live_[i];
      const uint32_t count = next_chunk(request);
      const uint64_t capacity = request.computed() + count;
      prompt_watch_.start();
      kvc_status status = kvc_manager_reserve_tokens(manager_.get(), request.id, capacity);
      prompt_watch_.stop();
      if (status == KVC_OK) {
        compute_chunk(request, count);
        commit_prompt(request);
        break;
      }
      if (status != KVC_ERROR_NO_SPACE) check(status);
      ++result_.failed_allocations;
      const uint64_t youngest = take_youngest();
      release_watch_.start();
      status = kvc_manager_free_request(manager_.get(), youngest);
      release_watch_.stop();
      check(status);
    }
  }
  return result_.preemptions != before;
}

void Replay::commit_prompt(const Live& request) {
  if (oracle_) oracle_->write_uncached(request.index);
  commit(request, prompt_watch_);
}

void Replay::commit(const Live& request, Stopwatch& watch) {
  watch.start();
  const kvc_status status = kvc_manager_commit_tokens(manager_.get(), request.id, request.computed());
  watch.stop();
  check(status);
}

/// Decodes one token for every live request with a whole prompt. The same call commits the token before it.
void Replay::decode_round() {
  if (rounds_++ % sample_interval_ == 0) sample_occupancy();
  step_->clear();
  all_items_.clear();
  for (size_t i = 0; i < live_.size(); ++i)
    if (live_[i].remaining == 0) all_items_.push_back(i);
  if (all_items_.empty()) return;
  items_without_space_.clear();
  extend(all_items_);
  while (!items_without_space_.empty()) preempt_youngest();

  for (Live& request : live_) {
    if (request.remaining != 0) continue;
    ++result_.output_tokens;
    ++request.produced;
    ++request.length;
    any_finished_ |= request.finished();
    any_block_filled_ |= request.length % options_.block_size == 0;
  }
}

/// Extends these live requests in one step. Appends those without a slot to items_without_space_.
void Replay::extend(std::span<const size_t> items) {
  for (const size_t item : items) {
    const Live& request = live_[item];
    step_->add(request.id, request.length, request.row, output_token(request.index, request.produced));
  }
  result_.decode_calls.add(step_->extend(manager_.get(), decode_watch_));
  ++result_.step_calls;
  for (size_t i = 0; i < items.size(); ++i) {
    const Live& request = live_[items[i]];
    if (!step_->has_space(i)) {
      items_without_space_.push_back(items[i]);
      ++result_.failed_allocations;
    } else if (oracle_) {
      oracle_->extend(request.index, output_token(request.index, request.produced), step_->slot(i));
    }
  }
}

/// Puts the youngest request back at the head of the queue, without its token of this round. The caller frees
/// it.
uint64_t Replay::take_youngest() {
  if (live_.size() == 1)
    throw LibraryError("no space for more tokens of a request that is alone in the pool");
  sample_peak();
  const Live victim = live_.back();
  forget(victim);
  live_.pop_back();
  queue_.push_front({.index = victim.index, .produced = victim.produced, .readmission = true});
  ++result_.preemptions;
  return victim.id;
}

/// Preempts, and extends the requests without space again.
void Replay::preempt_youngest() {
  const uint64_t victim = take_youngest();
  if (items_without_space_.back() == live_.size()) items_without_space_.pop_back();
  const std::vector<size_t> again = std::move(items_without_space_);
  items_without_space_.clear();
  step_->clear();
  step_->add_free(victim);
  extend(again);
}

/// Commits all tokens and frees the finished requests, in order of admission. A request that a step frees is
/// not among its running ones, so its last token is committed by a separate call.
void Replay::settle() {
  if (any_finished_) sample_peak();
  step_->clear();
  for (const Live& request : live_) {
    if (!request.finished()) {
      step_->add(request.id, request.computed(), request.row);
      continue;
    }
    commit(request, release_watch_);
    check_table(request);
    end_session(request);
    forget(request);
    step_->add_free(request.id);
  }
  step_->commit(manager_.get(), release_watch_);
  std::erase_if(live_, [](const Live& request) { return request.finished(); });
  any_finished_ = any_block_filled_ = false;
}

void Replay::end_session(const Live& request) {
  if (!sessions_ || !sessions_->says_over(request.index)) return;
  release_watch_.start();
  const kvc_status status = kvc_manager_end_session(manager_.get(), request.id, 0);
  release_watch_.stop();
  check(status);
  ++result_.ended_sessions;
}

/// Prepares for the free of a request.
void Replay::forget(const Live& request) {
  free_rows_.push_back(request.row);
  result_.table_blocks += blocks_of(request.computed()) * num_groups();
  if (oracle_) oracle_->release(request.index, export_table(request.id, request.length + 1));
}

/// The row that the steps updated must equal an exported one.
void Replay::check_table(const Live& request) {
  if (!options_.verify || !options_.maintain_tables) return;
  const auto table = export_table(request.id, request.length);
  if (!std::ranges::equal(table, step_->table(request.row, table.size()))) {
    throw LibraryError("kvc_manager_step: the block table that it maintains differs from the exported one");
  }
}

void Replay::sample_peak() {
  const kvc_stats now = stats();
  result_.peak_live_blocks = std::max(result_.peak_live_blocks, now.blocks_live + now.blocks_reserved);
}

/// Keeps a bounded number of samples: when they are full, every second one goes and the interval doubles.
void Replay::sample_occupancy() {
  constexpr size_t kMostSamples = 512;
  std::vector<Occupancy>& samples = result_.occupancy;
  const kvc_stats now = stats();
  for (const Live& request : live_) {
    const uint64_t slots = blocks_of(request.computed()) * options_.block_size;
    result_.sampled_slots += slots;
    result_.sampled_empty_slots += slots - request.computed();
  }
  samples.push_back({rounds_ - 1, now.blocks_live + now.blocks_reserved, now.blocks_cached});
  if (samples.size() < kMostSamples) return;
  for (size_t i = 0; i < kMostSamples / 2; ++i) samples[i] = samples[2 * i];
  samples.resize(kMostSamples / 2);
  sample_interval_ *= 2;
}

/// The block table of a request with slots for at most max_tokens.
std::span<const int32_t> Replay::export_table(uint64_t request, uint64_t max_tokens) {
  table_.resize(blocks_of(max_tokens));
  check(kvc_manager_export_tables(manager_.get(), &request, 1, 0, -1, table_.data(), table_.size()));
  while (!table_.empty() && table_.back() == -1) table_.pop_back();
  return table_;
}

void Replay::finish() {
  const kvc_stats library = stats();
  result_.evictions = library.evictions;
  if (tiers_) tiers_->report(result_);
  if (options_.curve != 0) result_.curve = read_curve(manager_.get(), usable_blocks_);
  result_.metadata_bytes = library.metadata_bytes;
  result_.lost_reuse_tokens = library.lost_reuse_tokens;
  for (uint32_t g = 0; g < num_groups(); ++g) {
    const auto lost = ask<kvc_lost_reuse>(kvc_manager_lost_reuse, manager_.get(), g);
    if (num_groups() == 1 && lost.node_tokens == 0) continue;
    result_.groups.push_back({options_.groups.empty() ? uint32_t{KVC_GROUP_FULL} : options_.groups[g].kind,
                              lost.block_tokens, lost.window_tokens, lost.state_tokens, lost.agreement_tokens,
                              lost.node_tokens});
  }
  result_.prompt_seconds = prompt_watch_.seconds();
  result_.decode_seconds = decode_watch_.seconds();
  result_.release_seconds = release_watch_.seconds();
  if (oracle_) {
    result_.wrong_hits = oracle_->wrong_hits();
    result_.wrong_writes = oracle_->wrong_writes();
  }
  if (!result_.right()) return;  // Wrong contents are reported first.
  check_against(library, result_, usable_blocks_);
  if (options_.verify) check(kvc_manager_check(manager_.get()));
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{"lru", "frequency", "fragmentation"};
  return names;
}

double most_policy_weight(const std::string& policy) {
  return policy == "frequency" ? 1000 : policy == "fragmentation" ? 1 : 0;
}

ReplayResult replay(const Trace& trace, const ReplayOptions& options) {
  ReplayResult result = Replay(trace, options).run();
  ReplayOptions plain = options;
  plain.verify = plain.data = false;
  plain.record.clear();
  plain.tiers.urls.clear();
  if (!options.hints.empty()) {
    plain.hints.clear();
    result.hit_rate_without_hints = Replay(trace, plain).run().hit_rate();
    plain.hints = options.hints;
  }
  if (options.partial) {
    plain.partial = false;
    result.hit_rate_without_partial = Replay(trace, plain).run().hit_rate();
  }
  if (options.optimal)
    result.optimal_hit_rate = optimal_hit_rate(trace, options.num_blocks, options.block_size);
  return result;
}

}  // namespace kvcli
