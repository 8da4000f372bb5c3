// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_HPP
#define KVCACHE_HPP

/// @file kvcache.hpp
/// libkvcache for C++17: owners that free what they own, spans for arrays, exceptions for errors. Units,
/// meaning and threading are those of kvcache.h; each function is one call there, and none allocates.
///
///     kvc::Manager m(4096);                      // blocks of 16 tokens
///     kvc::Request r = m.allocate(prompt);       // finds the cached prefix, takes blocks for the rest
///     if (!r) return wait();                     // no space is an answer, not an error
///     r.table(row);                              // the block table for the attention kernel
///     run_model(row, r.info().num_cached);
///     r.commit(prompt.size());                   // from now on other requests can share these blocks
///     if (!r.append({&next, 1})) preempt();      // one decode step; ~Request frees
///
/// Failures throw kvc::Error, except KVC_ERROR_NO_SPACE and KVC_ERROR_AGAIN where space is asked for (Fit).
/// Requests, pins, namespaces and steps must go before their manager; it may be moved while they exist.
/// Storages, streams and attention: kvcache_storage.hpp.

#include <kvcache.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace kvc {
inline namespace cpp {  // keeps these names apart from the library's own when it is linked statically

/// A failed call: status() is its KVC_ERROR_*, what() the name of it and the error text.
class Error : public std::runtime_error {
 public:
  /// Takes the thread's error text.
  explicit Error(kvc_status status)
      : std::runtime_error(std::string(kvc_status_name(status)) + ": " + kvc_last_error()), status_(status) {}
  kvc_status status() const noexcept { return status_; }  ///< KVC_ERROR_*

 private:
  kvc_status status_;
};

/// Throws Error unless `status` is KVC_OK.
inline void check(kvc_status status) {
  if (status != KVC_OK) throw Error(status);
}

/// A struct of kvcache.h with struct_size set: all defaults. `auto c = kvc::make<kvc_request_config>();`
template <class T>
T make() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

/// Whether T begins with struct_size.
template <class T, class = void>
inline constexpr bool kSized = false;
/// Yes.
template <class T>
inline constexpr bool kSized<T, std::void_t<decltype(T::struct_size)>> = true;

/// What a call of kvcache.h puts into its last parameter: `kvc::ask<kvc_stats>(kvc_manager_stats, m.get())`
template <class T, class Function, class... Arguments>
T ask(Function function, Arguments... arguments) {
  T value{};
  if constexpr (kSized<T>) value.struct_size = sizeof(T);
  check(function(arguments..., &value));
  return value;
}

/// Pointer and count, owning nothing. Made from arrays and from anything with data() and size().
template <class T>
class Span {
 public:
  /// As std::span has them.
  ///@{
  constexpr Span() = default;
  constexpr Span(T* data, size_t size) : data_(data), size_(size) {}
  template <size_t N>
  constexpr Span(T (&array)[N]) : data_(array), size_(N) {}
  template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C&>().data()), T*>>>
  constexpr Span(C&& container) : data_(container.data()), size_(container.size()) {}
  constexpr T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr T& operator[](size_t i) const { return data_[i]; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size_; }
  ///@}

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};
using Tokens = Span<const int32_t>;      ///< Token ids.
using Keys = Span<const kvc_extra_key>;  ///< Extra keys of a prompt.

/// Answer of a call that takes blocks: true = done, false = refused for lack of space, nothing changed.
class [[nodiscard]] Fit {
 public:
  /// Throws Error at any other failure.
  explicit Fit(kvc_status status) : status_(status) {
    if (status != KVC_ERROR_NO_SPACE && status != KVC_ERROR_AGAIN) check(status);
  }
  explicit operator bool() const noexcept { return status_ == KVC_OK; }  ///< Done?
  bool again() const noexcept { return status_ == KVC_ERROR_AGAIN; }  ///< Space comes when steps are retired.

 private:
  kvc_status status_;
};

/// Owns an id of a manager and gives it back at its end. Default-made or moved from it is empty: id 0, false.
template <kvc_status (*kGiveBack)(kvc_manager*, uint64_t)>
class Handle {
 public:
  Handle() = default;                                                                 ///< Empty.
  Handle(kvc_manager* manager, uint64_t id) noexcept : manager_(manager), id_(id) {}  ///< Takes an id over.
  /// Leaves the other one empty.
  Handle(Handle&& other) noexcept : manager_(other.manager_), id_(other.release()) {}
  /// Gives its own id back, and leaves the other one empty.
  Handle& operator=(Handle&& other) noexcept {
    Handle taken(std::move(other));
    std::swap(manager_, taken.manager_);
    std::swap(id_, taken.id_);
    return *this;
  }
  ~Handle() { reset(); }
  explicit operator bool() const noexcept { return id_ != 0; }   ///< Does it own one?
  uint64_t id() const noexcept { return id_; }                   ///< For calls of kvcache.h.
  uint64_t release() noexcept { return std::exchange(id_, 0); }  ///< Lets the id go, still valid.
  void reset() noexcept {                                        ///< Gives the id back now.
    if (id_ != 0) kGiveBack(manager_, release());
  }

 protected:
  kvc_manager* manager_ = nullptr;  ///< Whose id it is.
  uint64_t id_ = 0;                 ///< 0 = empty.
};

/// A request, waiting or admitted; frees itself. Driven by one thread at a time.
class Request : public Handle<kvc_manager_free_request> {
 public:
  using Handle::Handle;
  /// As kvc_manager_admit_request, and so on.
  ///@{
  Fit admit(uint64_t* cached = nullptr) { return Fit(kvc_manager_admit_request(manager_, id_, cached)); }
  Fit reserve(uint64_t capacity) { return Fit(kvc_manager_reserve_tokens(manager_, id_, capacity)); }
  Fit append(Tokens t) { return Fit(kvc_manager_append_tokens(manager_, id_, t.data(), t.size())); }
  void commit(uint64_t num_committed) { check(kvc_manager_commit_tokens(manager_, id_, num_committed)); }
  void truncate(uint64_t num_tokens) { check(kvc_manager_truncate_request(manager_, id_, num_tokens)); }
  void preempt() { check(kvc_manager_preempt_request(manager_, id_)); }
  Request fork() { return Request(manager_, ask<uint64_t>(kvc_manager_fork_request, manager_, id_)); }
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

/// One open of a namespace; closes it. The last close does nothing while the namespace has requests or pins.
using Namespace = Handle<kvc_manager_close_namespace>;
/// A prefix kept from eviction, until unpinned by the end of this.
using Pin = Handle<kvc_manager_unpin_prefix>;

/// Lets std::unique_ptr own what the library creates.
struct Destroy {
  /// Each by its own function.
  ///@{
  void operator()(kvc_manager* m) const noexcept { kvc_manager_destroy(m); }
  void operator()(kvc_step* s) const noexcept { kvc_step_destroy(s); }
  void operator()(kvc_storage* s) const noexcept { kvc_storage_destroy(s); }
  void operator()(kvc_stream* s) const noexcept { kvc_stream_destroy(s); }
  void operator()(kvc_stream_event* e) const noexcept { kvc_stream_event_destroy(e); }
  ///@}
};

/// The block manager; move-only. Any thread may call any function.
class Manager {
 public:
  /// By a whole configuration.
  explicit Manager(const kvc_manager_config& config) : m_(ask<kvc_manager*>(kvc_manager_create, &config)) {}
  /// By the size of its only pool.
  explicit Manager(uint64_t num_blocks, uint32_t block_size = 16) {
    auto c = make<kvc_manager_config>();
    c.num_blocks = num_blocks, c.block_size = block_size;
    *this = Manager(c);
  }
  kvc_manager* get() const noexcept { return m_.get(); }  ///< For calls of kvcache.h.

  /// A waiting request.
  Request create(Tokens t, const kvc_request_config* c = nullptr, Keys k = {}) {
    const auto function = kvc_manager_create_request;
    return {get(), ask<uint64_t>(function, get(), t.data(), t.size(), k.data(), k.size(), c)};
  }
  /// An admitted request; empty if there is no space.
  [[nodiscard]] Request allocate(Tokens t, const kvc_request_config* c = nullptr, Keys k = {}) {
    const auto function = kvc_manager_allocate_request;
    uint64_t id = 0;
    if (!Fit(function(get(), t.data(), t.size(), k.data(), k.size(), c, &id, nullptr))) return {};
    return {get(), id};
  }
  /// Opens it once more if it is open.
  Namespace open_namespace(const kvc_namespace_config& config) {
    return Namespace(get(), ask<uint64_t>(kvc_manager_open_namespace, get(), &config));
  }
  /// Forgets what is cached in a namespace; 0 = in all.
  void reset(uint64_t namespace_id = 0) { check(kvc_manager_reset(get(), namespace_id)); }
  /// What an admission of these tokens would find; changes nothing.
  kvc_probe_info probe(Tokens t, uint64_t ns = 0, Keys k = {}) const {
    return ask<kvc_probe_info>(kvc_manager_probe, get(), ns, t.data(), t.size(), k.data(), k.size());
  }
  /// Pins what is cached of these tokens; throws KVC_ERROR_NOT_FOUND if that is nothing.
  Pin pin(Tokens t, uint64_t ns = 0, Keys k = {}, uint64_t* num_pinned = nullptr) {
    uint64_t id = 0, n = 0;
    if (!num_pinned) num_pinned = &n;
    check(kvc_manager_pin_prefix(get(), ns, t.data(), t.size(), k.data(), k.size(), &id, num_pinned));
    return {get(), id};
  }
  /// Drops the blocks of these tokens that nobody holds; returns their number.
  uint64_t drop(Tokens t, uint64_t ns = 0, Keys k = {}) {
    return ask<uint64_t>(kvc_manager_drop_prefix, get(), ns, t.data(), t.size(), k.data(), k.size());
  }
  /// Evicts up to `max_blocks` cached blocks; returns their number.
  size_t evict(size_t max_blocks) { return ask<size_t>(kvc_manager_evict_blocks, get(), max_blocks); }
  /// Takes the copies to execute before anything is written; returns the used part of `room`.
  Span<kvc_block_copy> take_copies(Span<kvc_block_copy> room) {
    return {room.data(), ask<size_t>(kvc_manager_take_copies, get(), room.data(), room.size())};
  }
  /// Takes the blocks to clear before anything is written; returns the used part of `room`.
  Span<int32_t> take_zero_blocks(Span<int32_t> room) {
    return {room.data(), ask<size_t>(kvc_manager_take_zero_blocks, get(), room.data(), room.size())};
  }
  /// Moves contents to the lowest blocks of a pool; returns the moves to execute, the used part of `room`.
  Span<kvc_block_copy> compact(Span<kvc_block_copy> room, uint32_t p = 0) {
    return {room.data(), ask<size_t>(kvc_manager_compact, get(), p, room.data(), room.size())};
  }
  /// As kvc_manager_stats, and so on.
  ///@{
  kvc_stats stats() const { return ask<kvc_stats>(kvc_manager_stats, get()); }
  kvc_properties properties() const { return ask<kvc_properties>(kvc_manager_properties, get()); }
  kvc_pool_info pool(uint32_t p = 0) const { return ask<kvc_pool_info>(kvc_manager_pool_info, get(), p); }
  uint64_t digest() const { return ask<uint64_t>(kvc_manager_digest, get()); }
  ///@}
  void verify() const { check(kvc_manager_check(get())); }  ///< Throws KVC_ERROR_CORRUPT if it is.

 private:
  std::unique_ptr<kvc_manager, Destroy> m_;
};

/// One engine step (kvc_step) with its arrays, made once; the block tables stay from step to step. Set counts
/// by `->`, fill arrays by array(), then run(). Only what fails as a whole throws; items have their status.
/// run() refuses ids that are not set, and unsets those that it has read: see kvc_step_create.
class Step {
 public:
  /// As large as the limits say.
  Step(Manager& m, const kvc_step_limits& l) : m_(m.get()), step_(ask<kvc_step*>(kvc_step_create, m_, &l)) {}
  kvc_step* operator->() const noexcept { return step_.get(); }  ///< The struct of kvcache.h.
  void run() { check(kvc_manager_step(m_, step_.get())); }       ///< Executes it.
  /// All room of an array, T its element type: `step.array<uint64_t>(KVC_STEP_REQUESTS)[i] = r.id();`.
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
  std::unique_ptr<kvc_step, Destroy> step_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_HPP
