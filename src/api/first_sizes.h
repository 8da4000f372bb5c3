// SPDX-License-Identifier: Apache-2.0
// The name of each of a caller's structs, and its size in the version that brought it: what every caller has
// at least. The structs stay incomplete here, so that a file of src/api knows only the headers that it
// serves.
#pragma once
#include <cstddef>

namespace kvc {
template <typename T>
inline constexpr const char* kStructName = nullptr;
template <typename T>
inline constexpr size_t kFirstSize = 0;
}  // namespace kvc

#define KVC_FIRST_SIZE(type, size)                        \
  struct type;                                            \
  namespace kvc {                                         \
  template <>                                             \
  inline constexpr const char* kStructName<type> = #type; \
  template <>                                             \
  inline constexpr size_t kFirstSize<type> = size;        \
  }
#include "api/first_sizes.def"
#undef KVC_FIRST_SIZE
