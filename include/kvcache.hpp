// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_HPP
#define KVCACHE_HPP

/// @file kvcache.hpp
/// libkvcache for C++17: owners that free what they own, spans for arrays, exceptions for errors. Units,
/// meaning and threading are those of kvcache.h. Each function makes at most one C call; only a failure
/// allocates.
///
///     kvc::Manager m(4096);                      // blocks of 16 tokens
///     kvc::Request r = m.allocate(prompt);       // finds the cached prefix, takes blocks for the rest
///     if (!r) return wait();                     // no space is an answer, not an error
///     r.table(row);                              // the block table for the attention kernel
///     run_model(row, r.info().num_cached);
///     r.commit(prompt.size());                   // from now on other requests can share these blocks
///     if (!r.append({&next, 1})) preempt();      // one decode step; ~Request frees
///
/// Failures throw kvc::Error, except KVC_ERROR_NO_SPACE, KVC_ERROR_AGAIN, KVC_ERROR_OVER_QUOTA,
/// KVC_ERROR_NEVER_FITS and KVC_ERROR_FILLING of calls that take blocks (Fit). Destroy requests, pins,
/// namespaces and steps before their manager. The manager may be moved meanwhile.

#include <kvcache.h>

#include <kvcache/sizing.hpp>
#include <kvcache/types.hpp>
#include <string>
#include <vector>

namespace kvc {
inline namespace cpp {

using Tokens = Span<const int32_t>;      ///< Token ids.
using Keys = Span<const kvc_extra_key>;  ///< Extra keys of a prompt.

/// Tokens and all else that identifies their KV (kvc_prompt). Refers to the arrays, which must outlive it.
class Prompt {
 public:
  /// Of tokens, or of a container of tokens.
  template <class T, class = std::enable_if_t<std::is_convertible_v<T&&, Tokens>>>
  Prompt(T&& tokens, Keys keys = {}, uint64_t namespace_id = 0) : prompt_(make<kvc_prompt>()) {
    const Tokens t(std::forward<T>(tokens));
    prompt_.namespace_id = namespace_id;
    prompt_.tokens = t.data(), prompt_.num_tokens = t.size();
    prompt_.keys = keys.data(), prompt_.num_keys = keys.size();
  }
  Prompt() : Prompt(Tokens()) {}  ///< No tokens.
  /// Of a pointer and a count.
  Prompt(const int32_t* tokens, size_t num_tokens) : Prompt(Tokens(tokens, num_tokens)) {}
  const kvc_prompt* get() const noexcept { return &prompt_; }  ///< For C functions.

 private:
  kvc_prompt prompt_;
};

/// Result of a call that takes blocks: true = done, false = no space, or another request is computing the
/// next tokens; nothing changed.
class [[nodiscard]] Fit {
 public:
  /// Throws Error at any other failure.
  explicit Fit(kvc_status status) : status_(status) {
    if (status != KVC_ERROR_NO_SPACE && status != KVC_ERROR_AGAIN && status != KVC_ERROR_OVER_QUOTA &&
        status != KVC_ERROR_NEVER_FITS && status != KVC_ERROR_FILLING)
      check(status);
  }
  explicit operator bool() const noexcept { return status_ == KVC_OK; }  ///< Done?
  bool again() const noexcept { return status_ == KVC_ERROR_AGAIN; }     ///< Retry once steps are retired.
  /// Its namespace is at the maximum of its quota.
  bool over_quota() const noexcept { return status_ == KVC_ERROR_OVER_QUOTA; }
  /// This manager can never hold it: end the request.
  bool never_fits() const noexcept { return status_ == KVC_ERROR_NEVER_FITS; }
  /// It waits for another request to compute its next tokens (kvcache/fills.h).
  bool filling() const noexcept { return status_ == KVC_ERROR_FILLING; }

 private:
  kvc_status status_;
};

/// Owns an id of a manager and frees it. Empty (id 0, false) by default and after a move.
template <kvc_status (*kGiveBack)(kvc_manager*, uint64_t)>
class Handle {
 public:
  Handle() = default;                                                                 ///< Empty.
  Handle(kvc_manager* manager, uint64_t id) noexcept : manager_(manager), id_(id) {}  ///< Takes ownership.
  /// Leaves the other one empty.
  Handle(Handle&& other) noexcept : manager_(other.manager_), id_(other.release()) {}
  /// Frees its own id, and leaves the other one empty.
  Handle& operator=(Handle&& other) noexcept {
    Handle taken(std::move(other));
    std::swap(manager_, taken.manager_);
    std::swap(id_, taken.id_);
    return *this;
  }
  ~Handle() { reset(); }
  explicit operator bool() const noexcept { return id_ != 0; }   ///< Owns an id?
  uint64_t id() const noexcept { return id_; }                   ///< For C functions.
  uint64_t release() noexcept { return std::exchange(id_, 0); }  ///< Gives up ownership; the id stays valid.
  void reset() noexcept {                                        ///< Frees the id now.
    if (id_ != 0) kGiveBack(manager_, release());
  }

 protected:
  kvc_manager* manager_ = nullptr;  ///< Whose id it is.
  uint64_t id_ = 0;                 ///< 0 = empty.
};

/// A request, waiting or admitted. Frees itself. One thread at a time may use it.
class Request : public Handle<kvc_manager_free_request> {
 public:
  using Handle::Handle;
  /// As kvc_manager_admit_request, and so on.
  ///@{
  Fit admit(uint64_t* cached = nullptr) { return Fit(kvc_manager_admit_request(manager_, id_, cached)); }
  Fit reserve(uint64_t capacity) { return Fit(kvc_manager_reserve_tokens(manager_, id_, capacity)); }
  Fit append(Tokens t) { return Fit(kvc_manager_append_tokens(manager_, id_, t.data(), t.size())); }
  void add_keys(Keys k) { check(kvc_manager_add_keys(manager_, id_, k.data(), k.size())); }
  void commit(uint64_t num_committed) { check(kvc_manager_commit_tokens(manager_, id_, num_committed)); }
  /// Commits tokens that steps in flight write: publishes all, and returns what they do not read.
  void commit_ahead(uint64_t num_committed, uint64_t num_computed) {
    check(kvc_manager_commit_ahead(manager_, id_, num_committed, num_computed));
  }
  void truncate(uint64_t num_tokens) { check(kvc_manager_truncate_request(manager_, id_, num_tokens)); }
  void preempt() { check(kvc_manager_preempt_request(manager_, id_)); }
  Request fork() { return Request(manager_, ask<uint64_t>(kvc_manager_fork_request, manager_, id_)); }
  void set_priority(uint64_t first_token, uint64_t num_tokens, uint32_t priority, uint64_t until_ns = 0) {
    check(kvc_manager_set_priority(manager_, id_, first_token, num_tokens, priority, until_ns));
  }
  void end_session(uint64_t shared_tokens = 0) {
    check(kvc_manager_end_session(manager_, id_, shared_tokens));
  }
  kvc_probe_info probe() const { return ask<kvc_probe_info>(kvc_manager_probe_request, manager_, id_); }
  kvc_request_info info() const { return ask<kvc_request_info>(kvc_manager_request_info, manager_, id_); }
  ///@}
  /// The block table of one group, written over the whole of `row`; `fill_id` where there is no block.
  void table(Span<int32_t> row, uint32_t group = 0, int32_t fill_id = -1) const {
    check(kvc_manager_export_tables(manager_, &id_, 1, group, fill_id, row.data(), row.size()));
  }
  /// The slots of tokens [first_token, first_token + slots.size()).
  void slots(Span<int64_t> slots, uint64_t first_token, uint32_t group = 0) const {
    check(kvc_manager_export_slots(manager_, id_, group, first_token, slots.size(), slots.data(), 8));
  }
};

/// An open namespace. Closes itself. The last close does nothing while the namespace has requests or pins.
using Namespace = Handle<kvc_manager_close_namespace>;
/// A pinned prefix. Unpins itself.
using Pin = Handle<kvc_manager_unpin_prefix>;

/// Work on the bytes of blocks (kvc_pending_work).
struct Pending {
  Span<kvc_block_copy> copies;  ///< To execute first, in order.
  Span<int32_t> zero_blocks;    ///< To clear after them.
};

struct Rebuilt;

/// The block manager; move-only. Any thread may call any function.
class Manager {
 public:
  /// From a configuration.
  explicit Manager(const kvc_manager_config& config) : m_(ask<kvc_manager*>(kvc_manager_create, &config)) {}
  /// With one pool of num_blocks.
  explicit Manager(uint64_t num_blocks, uint32_t block_size = 16) {
    auto c = make<kvc_manager_config>();
    c.num_blocks = num_blocks, c.block_size = block_size;
    *this = Manager(c);
  }
  /// With the groups of a model, and pools within a budget (kvc_manager_config.memory).
  explicit Manager(const kvc_memory_query& memory, kvc_manager_config c = make<kvc_manager_config>()) {
    c.memory = &memory;
    *this = Manager(c);
  }
  kvc_manager* get() const noexcept { return m_.get(); }  ///< For C functions.

  /// Creates a waiting request.
  Request create(const Prompt& p, const kvc_request_config* c = nullptr) {
    return {get(), ask<uint64_t>(kvc_manager_create_request, get(), p.get(), c)};
  }
  /// Creates and admits a request. It is empty if there is no space; probe(p).never_fits says if for good.
  [[nodiscard]] Request allocate(const Prompt& p, const kvc_request_config* c = nullptr) {
    uint64_t id = 0;
    if (!Fit(kvc_manager_allocate_request(get(), p.get(), c, &id, nullptr))) return {};
    return {get(), id};
  }
  /// Admits waiting requests, all or none. `cached` and `statuses`: of each, or nullptr.
  Fit admit_batch(Span<const uint64_t> requests, uint64_t* cached = nullptr, kvc_status* statuses = nullptr) {
    return Fit(kvc_manager_admit_batch(get(), requests.data(), requests.size(), cached, statuses));
  }
  /// Opens a namespace, also if it is open already.
  Namespace open_namespace(const kvc_namespace_config& config) {
    return Namespace(get(), ask<uint64_t>(kvc_manager_open_namespace, get(), &config));
  }
  /// Forgets the cached content of a namespace; 0 = of the default one.
  void reset_namespace(uint64_t namespace_id) { check(kvc_manager_reset_namespace(get(), namespace_id)); }
  /// Forgets the cached content of all namespaces.
  void reset_all() { check(kvc_manager_reset_all(get())); }
  /// Switches prefix caching off and on; what is cached stays.
  void set_prefix_caching(bool on) { check(kvc_manager_set_prefix_caching(get(), on)); }
  /// First blocks that the tables of these requests have in common in a group.
  uint64_t common_prefix(Span<const uint64_t> requests, uint32_t group = 0) const {
    return ask<uint64_t>(kvc_manager_common_prefix, get(), requests.data(), requests.size(), group);
  }
  /// What an admission of this prompt would find. Changes nothing.
  kvc_probe_info probe(const Prompt& p) const {
    return ask<kvc_probe_info>(kvc_manager_probe, get(), p.get());
  }
  /// Pins the cached part of a prompt. Throws KVC_ERROR_NOT_FOUND if nothing is cached.
  Pin pin(const Prompt& p, uint64_t* num_pinned = nullptr) {
    uint64_t id = 0, n = 0;
    check(kvc_manager_pin_prefix(get(), p.get(), &id, num_pinned == nullptr ? &n : num_pinned));
    return {get(), id};
  }
  /// Drops the cached blocks of a prompt that nobody holds. Returns their number.
  uint64_t drop(const Prompt& p) { return ask<uint64_t>(kvc_manager_drop_prefix, get(), p.get()); }
  /// Evicts up to `max_blocks` cached blocks of pool `p`; -1 = of all. Returns their number.
  uint64_t evict(uint64_t max_blocks, int32_t p = -1) {
    return ask<uint64_t>(kvc_manager_evict_blocks, get(), p, max_blocks);
  }
  /// Tells the time of a monotonic clock, which ends hints.
  void set_time(uint64_t now_ns) { check(kvc_manager_set_time(get(), now_ns)); }
  /// Hints the cached part of a prompt from `first_token` on. Returns the tokens that took the hint.
  uint64_t set_prefix_priority(const Prompt& p, uint32_t priority, uint64_t until_ns = 0,
                               uint64_t first_token = 0) {
    return ask<uint64_t>(kvc_manager_set_prefix_priority, get(), p.get(), first_token, priority, until_ns);
  }
  /// Registers a prompt and pins what is cached of it. Returns the tokens pinned.
  uint64_t register_prompt(const char* name, const Prompt& p) {
    return ask<uint64_t>(kvc_manager_register_prompt, get(), name, p.get());
  }
  /// Creates and admits a request with a registered prompt and a tail. It is empty if there is no space.
  [[nodiscard]] Request allocate_from_prompt(const char* name, Tokens tail,
                                             const kvc_request_config* c = nullptr) {
    uint64_t id = 0;
    if (!Fit(kvc_manager_allocate_from_prompt(get(), name, tail.data(), tail.size(), c, &id, nullptr)))
      return {};
    return {get(), id};
  }
  /// Ends a registration and its pin.
  void unregister_prompt(const char* name) { check(kvc_manager_unregister_prompt(get(), name)); }
  /// The names of the registered prompts.
  std::vector<std::string> prompts() const {
    std::string text;
    size_t size = 0;
    kvc_status status = kvc_manager_list_prompts(get(), nullptr, 0, &size);
    while (status == KVC_ERROR_BUFFER_TOO_SMALL) {  // another thread may register more meanwhile
      text.resize(size);
      status = kvc_manager_list_prompts(get(), &text[0], text.size(), &size);
    }
    check(status);
    std::vector<std::string> names;
    for (size_t at = 0; at < size; at += names.back().size() + 1) names.emplace_back(text.c_str() + at);
    return names;
  }
  /// Takes the pending work. Execute the copies first. Returns the used parts of both arrays.
  Pending take_pending(Span<kvc_block_copy> copies, Span<int32_t> zero_blocks = {}) {
    auto work = make<kvc_pending_work>();
    work.copies = copies.data(), work.copy_capacity = copies.size();
    work.zero_blocks = zero_blocks.data(), work.zero_capacity = zero_blocks.size();
    check(kvc_manager_take_pending(get(), &work));
    return {{copies.data(), work.num_copies}, {zero_blocks.data(), work.num_zero_blocks}};
  }
  /// A step in flight and all later ones have failed. Returns the preempted requests, the used part of
  /// `room`.
  Span<uint64_t> fail_step(uint64_t step_id, Span<uint64_t> room) {
    return {room.data(), ask<size_t>(kvc_manager_fail_step, get(), step_id, room.data(), room.size())};
  }
  /// Moves contents to the lowest blocks of pool `p`. Returns the moves to execute, the used part of `room`.
  Span<kvc_block_copy> compact(Span<kvc_block_copy> room, uint32_t p = 0) {
    return {room.data(), ask<size_t>(kvc_manager_compact, get(), p, room.data(), room.size())};
  }
  /// Changes the number of blocks of pool `p` (kvc_manager_resize). Returns the moves to execute.
  std::vector<kvc_block_copy> resize(uint64_t num_blocks, uint32_t p = 0) {
    std::vector<kvc_block_copy> moves;
    size_t count = 0;
    kvc_status status = kvc_manager_resize(get(), p, num_blocks, nullptr, 0, &count);
    while (status == KVC_ERROR_BUFFER_TOO_SMALL) {
      moves.resize(count);
      status = kvc_manager_resize(get(), p, num_blocks, moves.data(), moves.size(), &count);
    }
    check(status);
    moves.resize(count);
    return moves;
  }
  /// Tokens that a request with `generated` after its prompt will probably still get; `headroom` is
  /// KVC_HEADROOM_*. Needs KVC_MANAGER_HEADROOM.
  uint64_t expected_tokens(uint32_t headroom, uint64_t generated = 0) const {
    return ask<uint64_t>(kvc_manager_expected_tokens, get(), headroom, generated);
  }
  /// Starts a miss-ratio curve of a namespace, or of all together.
  void open_curve(uint64_t namespace_id = KVC_ALL_NAMESPACES,
                  const kvc_curve_config& c = make<kvc_curve_config>()) {
    check(kvc_manager_open_curve(get(), namespace_id, &c));
  }
  /// Ends it.
  void close_curve(uint64_t namespace_id = KVC_ALL_NAMESPACES) {
    check(kvc_manager_close_curve(get(), namespace_id));
  }
  /// Writes the hit rates of ascending sizes in blocks; both have the same length.
  void hit_rates(Span<const uint64_t> num_blocks, Span<double> rates,
                 uint64_t namespace_id = KVC_ALL_NAMESPACES) const {
    if (rates.size() != num_blocks.size())
      throw std::invalid_argument("kvc::Manager::hit_rates: two lengths");
    check(kvc_manager_read_curve(get(), namespace_id, num_blocks.data(), num_blocks.size(), rates.data()));
  }
  /// What the curve has seen.
  kvc_curve_info curve(uint64_t namespace_id = KVC_ALL_NAMESPACES) const {
    return ask<kvc_curve_info>(kvc_manager_curve_info, get(), namespace_id);
  }
  /// Sets the quota of a namespace in pool `p`; max_blocks 0 = no maximum. Needs
  /// kvc_manager_config.max_quotas.
  void set_quota(uint64_t namespace_id, uint64_t min_blocks, uint64_t max_blocks, uint32_t p = 0) {
    check(kvc_manager_set_quota(get(), namespace_id, p, min_blocks, max_blocks));
  }
  /// The share of a namespace in pool `p`.
  kvc_quota_info quota(uint64_t namespace_id, uint32_t p = 0) const {
    return ask<kvc_quota_info>(kvc_manager_quota_info, get(), namespace_id, p);
  }
  /// Takes what was logged since the last take, as one part of a log; empty if there is nothing new. Needs
  /// kvc_manager_config.record_bytes.
  std::vector<char> take_log() {
    std::vector<char> log(log_info().bytes);
    for (size_t size = 0;; log.resize(size)) {
      const kvc_status status = kvc_manager_take_log(get(), log.data(), log.size(), &size);
      if (status == KVC_ERROR_BUFFER_TOO_SMALL) continue;
      check(status);
      log.resize(size);
      return log;
    }
  }
  /// The state of the log.
  kvc_log_info log_info() const { return ask<kvc_log_info>(kvc_manager_log_info, get()); }
  /// A manager of another configuration that has what this one has cached (kvc_manager_rebuild).
  Rebuilt rebuild(const kvc_manager_config& config) const;
  /// As kvc_manager_read_stats, and so on.
  ///@{
  kvc_stats stats() const { return ask<kvc_stats>(kvc_manager_read_stats, get()); }
  kvc_properties properties() const { return ask<kvc_properties>(kvc_manager_properties, get()); }
  kvc_pool_info pool(uint32_t p = 0) const { return ask<kvc_pool_info>(kvc_manager_pool_info, get(), p); }
  kvc_lost_reuse lost_reuse(uint32_t group) const {
    return ask<kvc_lost_reuse>(kvc_manager_lost_reuse, get(), group);
  }
  uint64_t digest() const { return ask<uint64_t>(kvc_manager_digest, get()); }
  ///@}
  void verify() const { check(kvc_manager_check(get())); }  ///< Throws KVC_ERROR_CORRUPT if it is.

 private:
  using Owned = Owner<kvc_manager, kvc_manager_destroy>;
  explicit Manager(Owned m) noexcept : m_(std::move(m)) {}
  Owned m_;
};

/// Result of Manager::rebuild.
struct Rebuilt {
  Manager manager;                             ///< The new one.
  std::vector<kvc_token_copy> copies;          ///< To execute before it admits a request.
  std::vector<kvc_namespace_pair> namespaces;  ///< Old and new ids.
};

inline Rebuilt Manager::rebuild(const kvc_manager_config& config) const {
  auto work = make<kvc_rebuild>();
  kvc_manager* made = nullptr;
  std::vector<kvc_token_copy> copies;
  std::vector<kvc_namespace_pair> namespaces;
  kvc_status status = kvc_manager_rebuild(get(), &config, &work, &made);
  while (status == KVC_ERROR_BUFFER_TOO_SMALL) {
    copies.resize(work.num_copies), namespaces.resize(work.num_namespaces);
    work.copies = copies.data(), work.copy_capacity = copies.size();
    work.namespaces = namespaces.data(), work.namespace_capacity = namespaces.size();
    status = kvc_manager_rebuild(get(), &config, &work, &made);
  }
  check(status);
  copies.resize(work.num_copies), namespaces.resize(work.num_namespaces);
  return {Manager(Owned(made)), std::move(copies), std::move(namespaces)};
}

/// An engine step (kvc_step) with its arrays, for any number of runs; the block tables stay between runs. Set
/// the counts by `->`, fill the arrays of array(), then run(). run() throws if the call fails; each item has
/// a status. It refuses ids that are not set, and unsets those that it has read: see kvc_step_create.
class Step {
 public:
  /// Creates a step with these limits.
  Step(Manager& m, const kvc_step_limits& l) : m_(m.get()), step_(ask<kvc_step*>(kvc_step_create, m_, &l)) {}
  kvc_step* operator->() const noexcept { return step_.get(); }  ///< The C struct.
  void run() { check(kvc_manager_step(m_, step_.get())); }       ///< Executes the step.
  /// A whole array of element type T: `step.array<uint64_t>(KVC_STEP_REQUESTS)[i] = r.id();`.
  template <class T>
  Span<T> array(int32_t which) const {
    kvc_view view{};
    check(kvc_step_view(step_.get(), which, &view));
    constexpr int32_t kType = sizeof(T) == 4 ? KVC_INT32 : std::is_signed_v<T> ? KVC_INT64 : KVC_UINT64;
    if (view.dtype != kType) throw std::invalid_argument("kvc::Step::array: not the element type");
    size_t n = 1;
    for (int32_t d = 0; d < view.ndim; ++d) n *= static_cast<size_t>(view.shape[d]);
    return {static_cast<T*>(view.data), n};
  }
  Span<int32_t> row(size_t index, uint32_t group = 0) const {  ///< Of the group's block table.
    return {step_->block_tables + (group * step_->num_rows + index) * step_->row_stride, step_->row_stride};
  }
  Span<kvc_status> status() const {  ///< Of the running requests, then of the admissions.
    return {step_->status + step_->num_frees + step_->num_preempts + step_->num_truncates,
            step_->num_requests + step_->num_admissions};
  }

 private:
  kvc_manager* m_;
  Owner<kvc_step, kvc_step_destroy> step_;
};

}  // namespace cpp
}  // namespace kvc

#include <kvcache/checkpoint.hpp>
#include <kvcache/metrics.hpp>
#include <kvcache/offload.hpp>
#include <kvcache/publisher.hpp>
#include <kvcache/scheduler.hpp>
#include <kvcache/speculation.hpp>
#include <kvcache/storage.hpp>
#include <kvcache/tier.hpp>

#endif  // KVCACHE_HPP
