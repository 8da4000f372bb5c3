// SPDX-License-Identifier: Apache-2.0
// Every function of kvcache.h with arguments that make it succeed in a Scene: one table for all tests that
// are about every function. A function may have several rows. Rows are values; the table is built on first
// use.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hardening/scene.h"

namespace kvc::test {

inline constexpr size_t kAsIs = SIZE_MAX;

// One call of the matrix of bad arguments: which were replaced, what it answered.
struct BadCall {
  std::string text;
  size_t null = kAsIs;     // the argument that became NULL
  bool must_fail = false;  // nothing else was replaced, and it was not NULL before
  kvc_status status = KVC_OK;
};

struct Call {
  std::string function, variant;
  kvc_status answer = KVC_OK;           // what it says here; other than KVC_OK: what the CPU device cannot do
  bool allocates = false;               // may answer OUT_OF_MEMORY
  std::vector<size_t> optional;         // arguments that may be NULL, beside those that are
  std::function<bool(Scene&)> prepare;  // false: no space
  std::function<kvc_status(Scene&)> run;
  // Makes the call with each pointer NULL, alone and with each length 0, 1 and SIZE_MAX, and with these
  // lengths alone.
  using Visit = std::function<void(const BadCall&)>;
  std::function<void(Scene&, const std::function<void()>& before, const Visit&)> abuse_with;

  void abuse(Scene& s, const std::function<void()>& before, const Visit& visit) const {
    abuse_with(s, before, [&](BadCall bad) {
      bad.must_fail &= std::count(optional.begin(), optional.end(), bad.null) == 0;
      visit(bad);
    });
  }
  std::string name() const { return variant.empty() ? function : function + " (" + variant + ")"; }
  // The row is of this function, though it calls a wrapper.
  Call&& of(const char* what) && { return function = what, std::move(*this); }
  Call&& as(const char* what) && { return variant = what, std::move(*this); }
  Call&& answering(kvc_status status) && { return answer = status, std::move(*this); }
  Call&& allocating(bool does = true) && { return allocates = does, std::move(*this); }
  Call&& may_be_null(std::vector<size_t> which) && { return optional = std::move(which), std::move(*this); }
  Call&& after(std::function<bool(Scene&)> what) && { return prepare = std::move(what), std::move(*this); }
};

const std::vector<Call>& every_call();
std::vector<std::string> functions_of_the_header();

// By kind of object; every_call() joins them.
void add_manager_calls(std::vector<Call>& calls);
void add_prefix_calls(std::vector<Call>& calls);
void add_retention_calls(std::vector<Call>& calls);
void add_storage_calls(std::vector<Call>& calls);
void add_sizing_calls(std::vector<Call>& calls);
void add_checkpoint_calls(std::vector<Call>& calls);
void add_tier_calls(std::vector<Call>& calls);
void add_offload_calls(std::vector<Call>& calls);
void add_publisher_calls(std::vector<Call>& calls);
void add_index_calls(std::vector<Call>& calls);
void add_scheduler_calls(std::vector<Call>& calls);
void add_speculation_calls(std::vector<Call>& calls);
void add_metrics_calls(std::vector<Call>& calls);
void add_other_calls(std::vector<Call>& calls);

// What a function says by its status; one that has none cannot fail.
template <typename Function, typename Args>
kvc_status status_of(Function function, const Args& args) {
  using Result = decltype(std::apply(function, args));
  if constexpr (std::is_same_v<Result, kvc_status>) {
    return std::apply(function, args);
  } else {
    std::apply(function, args);
    return KVC_OK;
  }
}

template <typename Args, typename Visit>
void for_each_argument(Args& args, Visit&& visit) {
  [&]<size_t... I>(std::index_sequence<I...>) { (visit(I, std::get<I>(args)), ...); }
  (std::make_index_sequence<std::tuple_size_v<Args>>{});
}

// Pointer number `null` becomes NULL, size number `length` becomes `value`. Whether the pointer was none
// before.
template <typename Args>
bool spoil(Args& args, size_t null, size_t length, size_t value) {
  bool changed = false;
  for_each_argument(args, [&](size_t i, auto& argument) {
    using Type = std::remove_reference_t<decltype(argument)>;
    if constexpr (std::is_pointer_v<Type>) {
      if (i == null) changed = std::exchange(argument, nullptr) != nullptr;
    } else if constexpr (std::is_same_v<Type, size_t>) {
      if (i == length) argument = value;
    }
  });
  return changed;
}

// `arguments(scene)` gives the tuple with which `function` is to be called.
template <typename Result, typename... Parameters, typename Arguments>
Call make_call(const char* name, Result (*function)(Parameters...), Arguments arguments) {
  Call call;
  call.function = name;
  const auto args_of = [arguments](Scene& s) -> std::tuple<Parameters...> { return arguments(s); };
  const bool ends_an_object = std::is_void_v<Result> || call.function == "kvc_device_release";
  call.run = [=](Scene& s) { return status_of(function, args_of(s)); };
  call.abuse_with = [=](Scene& s, const auto& before, const auto& visit) {
    std::vector<size_t> pointers, lengths;
    std::tuple<Parameters...> shape;
    for_each_argument(shape, [&](size_t i, auto& argument) {
      using Type = std::remove_reference_t<decltype(argument)>;
      if (std::is_pointer_v<Type>) pointers.push_back(i);
      if (std::is_same_v<Type, size_t>) lengths.push_back(i);
    });
    const auto one = [&](size_t null, size_t length, size_t value) {
      before();
      const std::tuple<Parameters...> good = args_of(s);
      std::tuple<Parameters...> args = good;
      BadCall bad;
      bad.null = null;
      const bool nulled = spoil(args, null, length, value);
      bad.must_fail = nulled && length == kAsIs && std::is_same_v<Result, kvc_status>;
      if (null != kAsIs) bad.text += " argument " + std::to_string(null) + " NULL";
      if (length != kAsIs) bad.text += " argument " + std::to_string(length) + " = " + std::to_string(value);
      bad.status = status_of(function, args);
      visit(bad);
      if (ends_an_object && nulled) status_of(function, good);  // the scene has let go of it
    };
    pointers.push_back(kAsIs);
    for (const size_t null : pointers) {
      if (null != kAsIs) one(null, kAsIs, 0);
      for (const size_t length : lengths)
        for (const size_t value : {size_t{0}, size_t{1}, SIZE_MAX}) one(null, length, value);
    }
  };
  return call;
}

#define KVC_CALL(function, ...) \
  make_call(#function, function, []([[maybe_unused]] Scene& s) { return std::tuple(__VA_ARGS__); })

}  // namespace kvc::test
