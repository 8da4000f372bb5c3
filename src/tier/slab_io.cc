// SPDX-License-Identifier: Apache-2.0
#include "tier/slab_io.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/checked.h"
#include "base/status.h"
#include "plugin/plugins.h"
#include "tier/slab_format.h"

namespace kvc {
namespace {

constexpr uint64_t kBytesAtOnce = uint64_t{8} << 20;  // of a worker; one payload may have more

}  // namespace

SlabIo::~SlabIo() {
  close_engine();
  memory_.release(buffers_, workers_ * batch_ * stride_, kSector);
}

kvc_status SlabIo::open(const SlabConfig& config, int file, uint64_t stride, size_t most) {
  file_ = file;
  workers_ = std::max(config.workers, 1u);
  stride_ = stride;
  batch_ = std::clamp<uint64_t>(kBytesAtOnce / stride, 1, most);
  size_t bytes;
  if (checked_mul(workers_ * batch_, stride_, &bytes))
    buffers_ = static_cast<char*>(memory_.allocate(bytes, kSector));
  if (buffers_ == nullptr || !queues_.create(memory_, workers_))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "slab %s: no memory for %zu payloads of %llu bytes", config.path,
                workers_ * batch_, static_cast<ull>(stride_));
  if (config.direct) {
    struct stat one, other;
    if (direct_.open(AT_FDCWD, config.path, O_RDWR | O_DIRECT) != 0 || files_.status(file_, &one) != 0 ||
        files_.status(direct_.fd(), &other) != 0 || one.st_ino != other.st_ino ||
        one.st_dev != other.st_dev) {
      direct_.reset();
      ++refused_;
    }
  }
  return open_engine(config);
}

kvc_status SlabIo::open_engine(const SlabConfig& config) {
  const bool must = config.io == SlabConfig::Io::kEngine;
  if (config.io == SlabConfig::Io::kThreads || (!must && !is_direct())) return KVC_OK;
  kvc_status status = KVC_ERROR_NOT_FOUND;
  if (config.engine != nullptr) {
    engine_ = config.engine;
    fail(KVC_OK, "the engine cannot be opened");  // it may set a better text
    size_t opened = 0;
    do {
      status =
          checked_status(engine_->open(static_cast<uint32_t>(batch_), &queues_[opened]), KVC_ERROR_DEVICE);
    } while (status == KVC_OK && ++opened < workers_);
    if (status != KVC_OK) queues_[opened] = nullptr;
    if (status == KVC_OK) {
      files_.let_wait(payload_file());  // if that fails, system calls do what the engine does not
      return KVC_OK;
    }
    close_engine();
    engine_ = nullptr;
  }
  ++refused_;
  if (!must) return KVC_OK;
  if (config.engine == nullptr) return fail(status, "slab %s: there is no engine for its I/O", config.path);
  return fail(status, "slab %.900s: %.900s", config.path, std::string(kvc_last_error()).c_str());
}

void SlabIo::close_engine() {
  for (size_t i = 0; engine_ != nullptr && i < queues_.size(); ++i) {
    if (queues_[i] != nullptr) engine_->close(queues_[i]);
    queues_[i] = nullptr;
  }
}

// What is behind the first `done` bytes.
int SlabIo::move(int file, const kvc_io& io, uint64_t done) {
  char* const data = static_cast<char*>(io.data) + done;
  return io.write != 0 ? write_fully(files_, file, data, io.bytes - done, io.offset + done)
                       : read_fully(files_, file, data, io.bytes - done, io.offset + done);
}

size_t SlabIo::transfer(uint32_t worker, kvc_io* operations, size_t count) {
  size_t refused = 0;
  for (size_t i = 0; i < count; ++i) {
    operations[i].file = payload_file();
    operations[i].result = 0;
  }
  if (uses_engine()) engine_->transfer(queues_[worker % workers_], operations, count);
  for (size_t i = 0; i < count; ++i) {
    kvc_io& io = operations[i];
    const uint64_t done = io.result < 0 ? 0 : std::min(static_cast<uint64_t>(io.result), io.bytes);
    if (uses_engine() && done != io.bytes) ++refused;
    io.result = 0;
    if (done == io.bytes) continue;
    int error = -EINVAL;
    if (is_direct()) {
      error = move(direct_.fd(), io, done);
      refused += error == -EINVAL;
    }
    if (error == -EINVAL) error = move(file_, io, 0);
    io.result = error;
  }
  return refused;
}

}  // namespace kvc
