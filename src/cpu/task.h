// SPDX-License-Identifier: Apache-2.0
// Calls of a storage as tasks of a stream. A call that fails does so before it is in a queue: work in a queue
// always succeeds.
#pragma once
#include "base/status.h"
#include "cpu/stream.h"
#include "storage/storage.h"

namespace kvc {

inline Storage& storage_of(void* storage) { return *static_cast<Storage*>(storage); }

// Counts the host arrays of a call, or copies them behind its task.
class ArrayCopier {
 public:
  explicit ArrayCopier(char* to) : to_(to) {}  // nullptr: counts only
  size_t bytes() const { return bytes_; }

  template <typename T>
  void operator()(T*& array, size_t count) {
    uint64_t stride = count;
    (*this)(array, 1, count, stride);
  }
  // Rows of `count` elements, `stride` apart; the copies are packed.
  template <typename T>
  void operator()(T*& array, size_t rows, size_t count, uint64_t& stride) {
    if (array == nullptr) return;
    if (to_ != nullptr) {
      auto* copy = reinterpret_cast<std::remove_const_t<T>*>(to_ + bytes_);
      for (size_t r = 0; r < rows && count != 0; ++r)
        std::memcpy(copy + r * count, array + r * stride, count * sizeof(T));
      array = copy;
      stride = count;
    }
    bytes_ += (rows * count * sizeof(T) + 7) & ~size_t{7};
  }

 private:
  char* to_;
  size_t bytes_ = 0;
};

// Puts a copy of the call and of its arrays into the queue. A Call is plain data with
//   void run(Storage&);                            does the work
//   template <F> void for_each_array(F&& array);   calls array() with each host array
template <typename Call>
kvc_status enqueue(Storage& storage, Call call, Stream& stream) {
  struct Task : Stream::Task {
    Storage* storage;
    Call call;
  };
  ArrayCopier counter(nullptr);
  call.for_each_array(counter);
  Task* const task = stream.make<Task>(counter.bytes());
  if (task == nullptr)
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu bytes in the stream's queue", counter.bytes());
  call.for_each_array(ArrayCopier(reinterpret_cast<char*>(task + 1)));
  task->storage = &storage;
  task->call = call;
  task->run = [](Stream::Task* self) {
    auto* mine = static_cast<Task*>(self);
    mine->call.run(*mine->storage);
    mine->storage->drop_pending();
  };
  storage.add_pending();
  stream.submit(task);
  return KVC_OK;
}

// Without a stream, does the work at once.
template <typename Call>
kvc_status launch(Storage& storage, Call call, void* stream) {
  if (stream != nullptr) return enqueue(storage, call, *static_cast<Stream*>(stream));
  call.run(storage);
  return KVC_OK;
}

}  // namespace kvc
