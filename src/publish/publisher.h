// SPDX-License-Identifier: Apache-2.0
// A publisher (kvcache/publisher.h): reads the events of a manager, as any reader does, and makes numbered
// batches of them. Subscribers hold a set of blocks; the batches, applied in order, make it the manager's.
//
//   Changes       changes.h        the changes of one batch
//   NodeHashes    node_hashes.h    the names of positions, where they are not their digests
//   Listing       listing.h        all that is cached, for a resync
//   KeptBatches   kept_batches.h   what was published last, encoded
//
// Thread-safe by one mutex; the manager's lock is taken by its own functions only.
#pragma once
#include <kvcache/plugin.h>
#include <kvcache/publisher.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "events/encode.h"
#include "events/hash_chain.h"
#include "manager/manager.h"
#include "publish/changes.h"
#include "publish/kept_batches.h"
#include "publish/listing.h"
#include "publish/node_hashes.h"

namespace kvc {

struct PublisherOptions {
  std::string topic, medium, hash_seed;
  uint32_t groups, hash, flags, max_blocks, replay_batches;
  int64_t rank;  // -1 = none
  uint64_t interval_ns, replay_bytes, resync_interval_ns;
};

class Publisher {
 public:
  static kvc_status create(const Env& env, Manager& manager, const PublisherOptions& options, const char* url,
                           std::unique_ptr<Publisher>* out);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  kvc_status poll(uint64_t* num_batches);
  void resync();
  kvc_status read(uint64_t sequence, uint64_t* found, void* payload, size_t capacity, size_t* size);
  void name_namespace(uint64_t id, const char* lora_name, const char* lora_path, const char* salt);
  void read_stats(kvc_publisher_stats* stats);

 private:
  struct Namespace {
    uint64_t blocks = 0;  // that subscribers have
    bool has_lora = false, has_salt = false;
    std::string lora_name, lora_path, salt;
  };
  Publisher(const Env& env, Manager& manager, const PublisherOptions& options)
      : env_(env), manager_(manager), options_(options), memory_(env) {}
  kvc_status build(const char* url);
  kvc_status open_transport(const char* url);
  void run();

  // All under mutex_.
  kvc_status look();
  kvc_status follow();
  kvc_status publish_listing();
  void apply(const kvc_event& event, const int32_t* tokens);
  void store(const kvc_event& event, const int32_t* tokens, const NodeHashes* before);
  void remove(const kvc_event& event);
  void clear_namespace(uint64_t id);
  void clear_all();
  bool chains() const { return options_.hash != KVC_PUBLISHER_DIGEST; }
  Digest256 chain(const kvc_event& event, const int32_t* tokens, const Namespace& ns,
                  const Digest256* parent) const;
  Namespace& namespace_of(uint64_t id);
  void flush();
  void send(const KeptBatches::Batch& batch);
  void answer_replays();
  void answer_replay(uint64_t sequence);

  const Env env_;
  Manager& manager_;
  const PublisherOptions options_;
  Memory memory_;
  WireFormat format_;
  WireGroup groups_[kMaxGroups] = {};
  Digest256 root_ = {};  // parent of first blocks in vLLM's chain
  const kvc_transport* transport_ = nullptr;
  void* connection_ = nullptr;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool built_ = false, stop_ = false;
  uint64_t cursor_ = 0;
  uint64_t time_ns_ = 0;  // of the newest event
  bool resync_ = true;    // wanted
  uint64_t last_resync_ns_ = 0;
  Array<kvc_event> events_;  // of one poll
  Array<int32_t> tokens_;
  Changes changes_;
  KeptBatches kept_;
  NodeHashes nodes_;
  Listing listing_;
  std::unordered_map<uint64_t, Namespace> namespaces_;
  uint64_t blocks_ = 0;  // that subscribers have, of all namespaces
  uint64_t last_id_ = 0;
  Namespace* last_namespace_ = nullptr;
  kvc_publisher_stats stats_ = {};
  std::thread thread_;
};

}  // namespace kvc
