// SPDX-License-Identifier: Apache-2.0
// The plug-in "uring": many reads and writes at once by io_uring, one ring a queue. A queue is for one thread
// at a time. open() tries the ring, so that a system that has none or forbids it (an old kernel, seccomp, the
// sysctl io_uring_disabled) is known before anything depends on it. No buffer or file is registered. The ring
// itself counts as locked memory (RLIMIT_MEMLOCK) on Linux before 5.12 and since 6.14, unless the process has
// CAP_IPC_LOCK: 2 pages for a depth of up to 64, 101 for one of 4096.
//
// transfer() returns when the kernel holds none of the buffers. Should io_uring_enter fail for good, what was
// not submitted gets its error, what was is awaited, and the queue refuses all later operations.
#include <kvcache/plugin.h>
#include <liburing.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <new>

namespace {

std::atomic<const kvc_plugin_host*> the_host{nullptr};

constexpr uint32_t kMaxDepth = 4096;
constexpr int kTries = 64;  // of a submission that the kernel has no memory for

struct Queue {
  io_uring ring;
  uint32_t depth;
  int error;  // of a queue that is not to be used anymore
};

kvc_status refuse(const char* what, int error) {
  char text[240];
  const kvc_status status = error == -ENOMEM                       ? KVC_ERROR_OUT_OF_MEMORY
                            : error == -EMFILE || error == -ENFILE ? KVC_ERROR_LIMIT
                                                                   : KVC_ERROR_UNSUPPORTED;
  char locked[96] = "";
  rlimit limit = {};
  if (error == -ENOMEM && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    snprintf(locked, sizeof locked, "raise RLIMIT_MEMLOCK (it is %llu bytes for all of a user's rings), or ",
             static_cast<unsigned long long>(limit.rlim_cur));
  snprintf(text, sizeof text, "io_uring: the system refuses %s (errno %d); %suse io=threads", what, -error,
           locked);
  the_host.load()->set_error(text);
  return status;
}

// Waits for one completion. With a ring that cannot be entered it looks until there is one: what was
// submitted completes in any case.
io_uring_cqe* next_completion(Queue* queue) {
  io_uring_cqe* done = nullptr;
  for (;;) {
    const int error = io_uring_wait_cqe(&queue->ring, &done);
    if (error == 0 && done != nullptr) return done;
    if (error != -EINTR && error != -EAGAIN) sched_yield();
    if (io_uring_peek_cqe(&queue->ring, &done) == 0 && done != nullptr) return done;
  }
}

void close_queue(void* data) {
  auto* queue = static_cast<Queue*>(data);
  io_uring_queue_exit(&queue->ring);
  delete queue;
}

// Whether the ring can be entered and knows what is asked of it.
int try_ring(io_uring* ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return -ENOSYS;
  const bool knows =
      io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_WRITE);
  io_uring_free_probe(probe);
  if (!knows) return -EOPNOTSUPP;
  io_uring_prep_nop(io_uring_get_sqe(ring));
  int result;
  do {
    result = io_uring_submit(ring);
  } while (result == -EINTR);
  if (result < 0) return result;
  io_uring_cqe* done = nullptr;
  do {
    result = io_uring_wait_cqe(ring, &done);
  } while (result == -EINTR);
  if (result < 0) return result;
  result = done->res;
  io_uring_cqe_seen(ring, done);
  return result;
}

kvc_status open_queue(uint32_t depth, void** out) {
  if (depth == 0 || depth > kMaxDepth) {
    the_host.load()->set_error("io_uring: a depth of 1 to 4096 is possible");
    return KVC_ERROR_INVALID_ARGUMENT;
  }
  auto* queue = new (std::nothrow) Queue{};
  if (queue == nullptr) {
    the_host.load()->set_error("io_uring: there is no memory for a queue; use io=threads");
    return KVC_ERROR_OUT_OF_MEMORY;
  }
  queue->depth = depth;
  int error = io_uring_queue_init(depth, &queue->ring, IORING_SETUP_COOP_TASKRUN);  // since Linux 5.19
  if (error == -EINVAL) error = io_uring_queue_init(depth, &queue->ring, 0);
  if (error != 0) {
    delete queue;
    return refuse("a ring", error);
  }
  error = try_ring(&queue->ring);
  if (error != 0) {
    close_queue(queue);
    return refuse("reads and writes by a ring", error);
  }
  *out = queue;
  return KVC_OK;
}

// Submits what is prepared. What stays unsubmitted is left in the ring, which is then not to be used anymore.
void submit(Queue* queue, size_t prepared, size_t* submitted) {
  for (int tries = 0; *submitted < prepared;) {
    const int result = io_uring_submit(&queue->ring);
    if (result > 0) {
      *submitted += static_cast<size_t>(result);
    } else if (result == -EINTR) {
      continue;
    } else if ((result == 0 || result == -EAGAIN || result == -EBUSY || result == -ENOMEM) &&
               ++tries < kTries) {
      sched_yield();
    } else {
      queue->error = result == 0 ? -EAGAIN : result;
      return;
    }
  }
}

void transfer(void* data, kvc_io* operations, size_t num_operations) {
  auto* queue = static_cast<Queue*>(data);
  size_t prepared = 0, submitted = 0;
  for (size_t i = 0; i < num_operations; ++i) {
    kvc_io& io = operations[i];
    io.result = queue->error != 0 ? queue->error : -EAGAIN;
    if (queue->error != 0 || prepared == queue->depth) continue;
    io_uring_sqe* entry = io_uring_get_sqe(&queue->ring);
    if (entry == nullptr) continue;
    const auto bytes = static_cast<unsigned>(io.bytes < (1u << 30) ? io.bytes : 1u << 30);
    if (io.write != 0) {
      io_uring_prep_write(entry, io.file, io.data, bytes, io.offset);
    } else {
      io_uring_prep_read(entry, io.file, io.data, bytes, io.offset);
    }
    io_uring_sqe_set_data(entry, &io);
    ++prepared;
  }
  submit(queue, prepared, &submitted);
  for (; submitted > 0; --submitted) {
    io_uring_cqe* done = next_completion(queue);
    static_cast<kvc_io*>(io_uring_cqe_get_data(done))->result = done->res;
    io_uring_cqe_seen(&queue->ring, done);
  }
  if (queue->error == 0) return;
  for (size_t i = 0; i < num_operations; ++i)
    if (operations[i].result == -EAGAIN) operations[i].result = queue->error;
}

constexpr kvc_io_engine kEngine = {sizeof(kvc_io_engine), open_queue, close_queue, transfer};
constexpr kvc_plugin kPlugin = {sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0,      "uring", nullptr,
                                &kEngine,           nullptr,        nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* host,
                                                                                 const kvc_plugin** plugin) {
  const kvc_plugin_host* none = nullptr;
  the_host.compare_exchange_strong(none, host);  // the first one, who is the library
  *plugin = &kPlugin;
  return KVC_OK;
}
