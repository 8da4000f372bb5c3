// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "connection.h"

namespace kvc_redis {

std::atomic<void (*)(const char* text)> set_error{nullptr};

namespace {

constexpr size_t kMany = 64;  // commands sent before their replies are read
constexpr size_t kMaxKey = kMaxPrefix + 2 + 64;
constexpr size_t kMaxShort = kMaxKey + 64;  // bytes of a command that has a key alone

struct Worker {
  Connection connection;
  uint64_t epoch = 0;  // of the store, when the connection was opened
  char commands[kMany * kMaxShort];
};

class Store {
 public:
  explicit Store(const Url& url) : url_(url) {}

  bool create(uint32_t num_workers, uint64_t page_bytes) {
    largest_ = page_bytes + KVC_PAGE_HEADER_BYTES;
    num_workers_ = num_workers;
    workers_.reset(new (std::nothrow) Worker[num_workers]);
    return workers_ != nullptr;
  }

  // EXISTS or UNLINK of each: an integer, 0 or 1.
  void ask(const kvc_store_call* call, kvc_store_item* items, size_t num_items, const char* command,
           int32_t result_of_0) {
    Worker& worker = worker_of(call);
    const uint64_t deadline_ns = deadline_of(call);
    for (size_t first = 0; first < num_items; first += kMany) {
      kvc_store_item* const some = items + first;
      const size_t count = std::min(kMany, num_items - first);
      size_t bytes = 0;
      for (size_t i = 0; i < count; ++i)
        bytes += write_command(worker.commands + bytes, 2, command, some[i].key);
      iovec part = {worker.commands, bytes};
      size_t done = 0;
      if (begin(worker, deadline_ns) && worker.connection.send(&part, 1)) {
        Reply reply;
        while (done < count && worker.connection.next(&reply)) {
          if (reply.kind != ReplyKind::kInteger || (reply.number != 0 && reply.number != 1)) {
            worker.connection.refuse(reply);
            break;
          }
          some[done++].result = reply.number == 1 ? KVC_PAGE_OK : result_of_0;
        }
      }
      if (done < count) return fail_rest(worker, items, first + done, num_items);
    }
  }

  void get(const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
    Worker& worker = worker_of(call);
    const uint64_t deadline_ns = deadline_of(call);
    for (size_t i = 0; i < num_items; ++i)
      if (!begin(worker, deadline_ns) || !get_one(worker, &items[i]))
        return fail_rest(worker, items, i, num_items);
  }

  void put(const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
    Worker& worker = worker_of(call);
    const uint64_t deadline_ns = deadline_of(call);
    for (size_t i = 0; i < num_items; ++i)
      if (!begin(worker, deadline_ns) || !put_one(worker, &items[i]))
        return fail_rest(worker, items, i, num_items);
  }

  int64_t last_errno() const { return last_errno_.load(std::memory_order_relaxed); }

 private:
  Worker& worker_of(const kvc_store_call* call) { return workers_[std::min(call->worker, num_workers_ - 1)]; }
  uint64_t deadline_of(const kvc_store_call* call) const {
    return call->deadline_ns != 0 ? call->deadline_ns : now_ns() + url_.timeout_ms * 1000000;
  }

  // After a failure of one connection the others are not trusted either: their server may be gone.
  bool begin(Worker& worker, uint64_t deadline_ns) {
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    if (worker.epoch != epoch) worker.connection.close();
    worker.epoch = epoch;
    return worker.connection.begin(url_, deadline_ns);
  }

  void fail_rest(Worker& worker, kvc_store_item* items, size_t first, size_t num_items) {
    for (size_t i = first; i < num_items; ++i) items[i].result = worker.connection.result();
    last_errno_.store(worker.connection.last_errno(), std::memory_order_relaxed);
    if (!worker.connection.is_open()) epoch_.fetch_add(1, std::memory_order_relaxed);
  }

  // "*<words>\r\n", the command and the key. @return bytes.
  size_t write_command(char* out, int words, const char* command, const uint8_t* key) const {
    static constexpr char kHex[] = "0123456789abcdef";
    char* at = out + sprintf(out, "*%d\r\n$%zu\r\n%s\r\n$%zu\r\n", words, std::strlen(command), command,
                             url_.prefix_bytes + 2 + 64);
    std::memcpy(at, url_.prefix, url_.prefix_bytes);
    at += url_.prefix_bytes;
    *at++ = '1';
    *at++ = ':';
    for (size_t i = 0; i < 32; ++i) *at++ = kHex[key[i] >> 4], *at++ = kHex[key[i] & 15];
    *at++ = '\r';
    *at++ = '\n';
    return static_cast<size_t>(at - out);
  }

  bool get_one(Worker& worker, kvc_store_item* item) {
    iovec part = {worker.commands, write_command(worker.commands, 2, "GET", item->key)};
    Reply reply;
    if (!worker.connection.send(&part, 1) || !worker.connection.next(&reply)) return false;
    item->result = KVC_PAGE_MISS;
    if (reply.kind == ReplyKind::kNil || reply.has_code("WRONGTYPE")) return true;
    if (reply.kind != ReplyKind::kBulk) return worker.connection.refuse(reply);
    const auto bytes = static_cast<uint64_t>(reply.number);
    if (bytes == KVC_PAGE_HEADER_BYTES + item->bytes) {
      if (!worker.connection.read_bulk(item->header, KVC_PAGE_HEADER_BYTES, item->data, item->bytes))
        return false;
      item->result = KVC_PAGE_OK;
      return true;
    }
    if (bytes <= largest_) return worker.connection.skip_bulk(bytes);
    worker.connection.close();  // sooner than to read what no page is
    return true;
  }

  bool put_one(Worker& worker, kvc_store_item* item) {
    char* const head = worker.commands;
    size_t bytes = write_command(head, url_.ttl_s != 0 ? 5 : 3, "SET", item->key);
    bytes += static_cast<size_t>(sprintf(
        head + bytes, "$%llu\r\n", static_cast<unsigned long long>(KVC_PAGE_HEADER_BYTES + item->bytes)));
    char tail[64] = "\r\n", ms[24];
    if (url_.ttl_s != 0) {
      const int digits = sprintf(ms, "%llu", static_cast<unsigned long long>(url_.ttl_s * 1000));
      sprintf(tail, "\r\n$2\r\nPX\r\n$%d\r\n%s\r\n", digits, ms);
    }
    iovec parts[] = {{head, bytes},
                     {item->header, KVC_PAGE_HEADER_BYTES},
                     {item->data, item->bytes},
                     {tail, std::strlen(tail)}};
    Reply reply;
    if (!worker.connection.send(parts, 4) || !worker.connection.next(&reply)) return false;
    item->result = KVC_PAGE_OK;
    if (reply.kind == ReplyKind::kStatus && reply.is_text("OK")) return true;
    item->result = KVC_PAGE_NO_SPACE;
    if (reply.has_code("OOM")) return last_errno_.store(errno_of_error(reply)), true;
    return worker.connection.refuse(reply);
  }

  const Url url_;
  uint64_t largest_ = 0;  // bytes of a value
  uint32_t num_workers_ = 0;
  std::unique_ptr<Worker[]> workers_;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int64_t> last_errno_{0};
};

kvc_status open(const kvc_store_config* config, void** out) {
  Url url;
  char error[400], text[440];
  if (!parse_url(config->url, &url, error, sizeof error)) {
    snprintf(text, sizeof text, "tier redis: %s", error);
    set_error.load()(text);
    return KVC_ERROR_INVALID_ARGUMENT;
  }
  auto* store = new (std::nothrow) Store(url);
  if (store == nullptr || !store->create(std::max(config->num_threads, 1u), config->page_bytes)) {
    delete store;
    set_error.load()("tier redis: no memory for connections; use fewer threads");
    return KVC_ERROR_OUT_OF_MEMORY;
  }
  *out = store;
  return KVC_OK;
}

void close(void* store) { delete static_cast<Store*>(store); }

void exists(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
  static_cast<Store*>(store)->ask(call, items, num_items, "EXISTS", KVC_PAGE_MISS);
}

void get(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
  static_cast<Store*>(store)->get(call, items, num_items);
}

void put(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
  static_cast<Store*>(store)->put(call, items, num_items);
}

void remove(void* store, const kvc_store_call* call, kvc_store_item* items, size_t num_items) {
  static_cast<Store*>(store)->ask(call, items, num_items, "UNLINK", KVC_PAGE_OK);
}

void info(void* store, kvc_store_info* out) { out->last_errno = static_cast<Store*>(store)->last_errno(); }

}  // namespace

const kvc_store kStore = {sizeof kStore, KVC_STORE_REMOTE, 0, open, close, exists, get, put, remove, info};

}  // namespace kvc_redis
