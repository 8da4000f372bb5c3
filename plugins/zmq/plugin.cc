// SPDX-License-Identifier: Apache-2.0
// The plug-in `zmq`: batches of events by ZeroMQ, as vLLM's ZmqEventPublisher sends them. A PUB socket sends
// [topic, number, payload]; a ROUTER socket takes [identity, "", number] and answers [identity, "", topic,
// number, payload] for each batch, then [identity, "", "", -1, ""]. Numbers are 8 bytes, big-endian.
//
// PUB leaves out a subscriber whose queue is full, without a word. Here it refuses the message then
// (ZMQ_XPUB_NODROP), which is sent again with leave to drop: so the publisher can count.
#include <kvcache/plugin.h>
#include <zmq.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "url.h"

namespace kvc_zmq {
namespace {

constexpr size_t kIdentity = 255;        // bytes of the name of a peer, at most
constexpr int64_t kLargestRequest = 64;  // bytes of a frame; a peer that sends more is disconnected

std::atomic<void (*)(const char* text)> set_error{nullptr};

kvc_status failed(kvc_status status, const std::string& text) {
  if (const auto set = set_error.load(); set != nullptr) set(text.c_str());
  return status;
}

struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
struct EndContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
using Socket = std::unique_ptr<void, CloseSocket>;

class Transport {
 public:
  kvc_status open(const Url& url, uint64_t replay_batches) {
    context_.reset(zmq_ctx_new());
    if (context_ == nullptr) return failed(KVC_ERROR_OUT_OF_MEMORY, "zmq: no memory for a context");
    publish_.reset(zmq_socket(context_.get(), ZMQ_PUB));
    if (publish_ == nullptr)
      return failed(KVC_ERROR_LIMIT, std::string("zmq: no socket: ") + zmq_strerror(errno));
    set(publish_, ZMQ_SNDHWM, url.hwm);
    set(publish_, ZMQ_LINGER, url.linger_ms);
    set(publish_, ZMQ_XPUB_NODROP, 1);
    if (const kvc_status status = attach(publish_, url.endpoint, url.binds); status != KVC_OK) return status;
    if (url.replay.empty()) return KVC_OK;
    replay_.reset(zmq_socket(context_.get(), ZMQ_ROUTER));
    if (replay_ == nullptr)
      return failed(KVC_ERROR_LIMIT, std::string("zmq: no socket: ") + zmq_strerror(errno));
    // A whole replay with its end fits twice, because peers confirm what they read late.
    set(replay_, ZMQ_SNDHWM, static_cast<int>(2 * (replay_batches + 1)));
    set(replay_, ZMQ_LINGER, url.linger_ms);
    set(replay_, ZMQ_ROUTER_MANDATORY, 1);
    zmq_setsockopt(replay_.get(), ZMQ_MAXMSGSIZE, &kLargestRequest, sizeof kLargestRequest);
    return attach(replay_, url.replay, true);
  }

  kvc_status publish(const kvc_frame* frames, size_t num_frames) {
    const kvc_status status = send(publish_, frames, num_frames, 0);
    if (status != KVC_ERROR_AGAIN) return status;
    set(publish_, ZMQ_XPUB_NODROP, 0);
    const kvc_status again = send(publish_, frames, num_frames, 0);
    set(publish_, ZMQ_XPUB_NODROP, 1);
    return again == KVC_OK ? kvc_status{KVC_ERROR_AGAIN} : again;
  }

  kvc_status receive(uint64_t* sequence) {
    if (replay_ == nullptr) return KVC_ERROR_AGAIN;
    uint8_t frame[kLargestRequest];
    bool good = true;
    size_t count = 0;
    for (int more = 1; more != 0; ++count) {
      uint8_t* const to = count == 0 ? identity_ : frame;
      const int size =
          zmq_recv(replay_.get(), to, count == 0 ? sizeof identity_ : sizeof frame, ZMQ_DONTWAIT);
      if (size < 0) return errno == EAGAIN ? KVC_ERROR_AGAIN : KVC_ERROR_INTERNAL;
      const auto bytes = static_cast<size_t>(size);
      if (count == 0) identity_size_ = bytes;
      good &= count == 0 ? bytes <= sizeof identity_ : bytes == (count == 1 ? 0 : sizeof *sequence);
      size_t length = sizeof more;
      zmq_getsockopt(replay_.get(), ZMQ_RCVMORE, &more, &length);
    }
    if (!good || count != 3) return KVC_ERROR_INVALID_ARGUMENT;
    uint64_t number = 0;
    for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | frame[i];
    *sequence = number;
    return KVC_OK;
  }

  kvc_status reply(const kvc_frame* frames, size_t num_frames) {
    if (zmq_send(replay_.get(), identity_, identity_size_, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0 ||
        zmq_send(replay_.get(), nullptr, 0, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
      return KVC_ERROR_AGAIN;  // it is gone, or does not read
    return send(replay_, frames, num_frames, 1);
  }

 private:
  static void set(const Socket& socket, int option, int value) {
    zmq_setsockopt(socket.get(), option, &value, sizeof value);
  }
  static kvc_status attach(const Socket& socket, const std::string& endpoint, bool binds) {
    const int code =
        binds ? zmq_bind(socket.get(), endpoint.c_str()) : zmq_connect(socket.get(), endpoint.c_str());
    if (code == 0) return KVC_OK;
    const kvc_status status = errno == EADDRINUSE ? KVC_ERROR_BUSY : KVC_ERROR_INVALID_ARGUMENT;
    return failed(status, std::string("zmq: cannot ") + (binds ? "bind " : "connect to ") +
                              endpoint.substr(0, 200) + ": " + zmq_strerror(errno));
  }
  // Once a part of a message is taken, its others are.
  static kvc_status send(const Socket& socket, const kvc_frame* frames, size_t num_frames, size_t sent) {
    for (size_t i = 0; i < num_frames; ++i) {
      const int flags = ZMQ_DONTWAIT | (i + 1 < num_frames ? ZMQ_SNDMORE : 0);
      if (zmq_send(socket.get(), frames[i].data, frames[i].bytes, flags) >= 0) continue;
      return errno == EAGAIN && i + sent == 0 ? KVC_ERROR_AGAIN : KVC_ERROR_INTERNAL;
    }
    return KVC_OK;
  }

  std::unique_ptr<void, EndContext> context_;
  Socket publish_, replay_;
  uint8_t identity_[kIdentity];
  size_t identity_size_ = 0;
};

kvc_status open_transport(const kvc_transport_config* config, void** out) {
  try {
    Url url;
    std::string error;
    if (!parse_url(config->url, &url, &error)) return failed(KVC_ERROR_INVALID_ARGUMENT, "zmq: " + error);
    auto transport = std::make_unique<Transport>();
    const kvc_status status = transport->open(url, config->replay_batches);
    if (status == KVC_OK) *out = transport.release();
    return status;
  } catch (const std::bad_alloc&) {
    return KVC_ERROR_OUT_OF_MEMORY;
  }
}
void close_transport(void* transport) { delete static_cast<Transport*>(transport); }
kvc_status publish(void* transport, const kvc_frame* frames, size_t num_frames) {
  return static_cast<Transport*>(transport)->publish(frames, num_frames);
}
kvc_status receive(void* transport, uint64_t* sequence) {
  return static_cast<Transport*>(transport)->receive(sequence);
}
kvc_status reply(void* transport, const kvc_frame* frames, size_t num_frames) {
  return static_cast<Transport*>(transport)->reply(frames, num_frames);
}

constexpr kvc_transport kTransport = {
    sizeof(kvc_transport), open_transport, close_transport, publish, receive, reply};
constexpr kvc_plugin kPlugin = {sizeof(kvc_plugin), KVC_PLUGIN_ABI, 0, "zmq", nullptr, nullptr, nullptr,
                                &kTransport};

}  // namespace
}  // namespace kvc_zmq

extern "C" __attribute__((visibility("default"))) kvc_status kvc_plugin_entry_v1(const kvc_plugin_host* host,
                                                                                 const kvc_plugin** plugin) {
  kvc_zmq::set_error = host->set_error;
  *plugin = &kvc_zmq::kPlugin;
  return KVC_OK;
}
