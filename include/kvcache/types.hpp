// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_TYPES_HPP
#define KVCACHE_TYPES_HPP

/// @file kvcache/types.hpp
/// What the C++ layers of libkvcache share: errors, calls, arrays and owners.

#include <kvcache/types.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace kvc {
inline namespace cpp {  // keeps these names apart from the library's own in a static build

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

/// A struct of the C API with struct_size set: all defaults. `auto c = kvc::make<kvc_request_config>();`
template <class T>
T make() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

/// True if T begins with struct_size.
template <class T, class = void>
inline constexpr bool kSized = false;
/// The types that do.
template <class T>
inline constexpr bool kSized<T, std::void_t<decltype(T::struct_size)>> = true;

/// The result of a C function, which is its last parameter: `kvc::ask<kvc_stats>(kvc_manager_read_stats,
/// m.get())`
template <class T, class Function, class... Arguments>
T ask(Function function, Arguments... arguments) {
  T value{};
  if constexpr (kSized<T>) value.struct_size = sizeof(T);
  check(function(arguments..., &value));
  return value;
}

/// A pointer and a count; owns nothing. Converts from arrays and from containers with data() and size().
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

using Blocks = Span<const int32_t>;         ///< Block ids.
using Copies = Span<const kvc_block_copy>;  ///< Copies of blocks, in order.

/// Frees a T by a C function.
template <class T, void (*kDestroy)(T*)>
struct Destroy {
  void operator()(T* object) const noexcept { kDestroy(object); }  ///< Frees it.
};
/// Owns what the library creates.
template <class T, void (*kDestroy)(T*)>
using Owner = std::unique_ptr<T, Destroy<T, kDestroy>>;

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_TYPES_HPP
