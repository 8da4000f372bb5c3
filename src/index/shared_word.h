// SPDX-License-Identifier: Apache-2.0
// Words that one writer changes while readers read them. A reader that sees a value also sees what the writer
// stored before it; its later loads are not earlier than this one.
#pragma once
#include <type_traits>

namespace kvc {

template <typename T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <typename T>
void store(T& to, std::type_identity_t<T> value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

}  // namespace kvc
