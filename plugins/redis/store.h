// SPDX-License-Identifier: Apache-2.0
// The store: a value of each key "<prefix>1:<key in hex>", a connection of each worker.
#pragma once
#include <kvcache/plugin.h>

#include <atomic>

namespace kvc_redis {

extern const kvc_store kStore;

// Where texts of errors go. Set before a store is opened.
extern std::atomic<void (*)(const char* text)> set_error;

}  // namespace kvc_redis
