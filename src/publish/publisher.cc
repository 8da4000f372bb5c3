// SPDX-License-Identifier: Apache-2.0
#include "publish/publisher.h"

#include <chrono>

#include "events/msgpack.h"
#include "plugin/plugins.h"

namespace kvc {
namespace {

constexpr size_t kEvents = 256;          // of one poll
constexpr size_t kReplayRequests = 64;   // for replay, of one look
constexpr size_t kMaxAdapterName = 255;  // bytes of the name of an adapter

uint64_t steady_ns() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::string_view kind_name(uint32_t kind) {
  switch (kind) {
    case KVC_GROUP_SLIDING_WINDOW:
      return "sliding_window";
    case KVC_GROUP_CHUNKED_LOCAL:
      return "chunked_local_attention";
    case KVC_GROUP_STATE:
      return "mamba";
    case KVC_GROUP_CROSS:
      return "cross_attention";
    default:
      return "full_attention";
  }
}

const Digest256& digest_of(const uint8_t (&bytes)[32]) { return *reinterpret_cast<const Digest256*>(bytes); }

}  // namespace

// ---- creation ---------------------------------------------------------------------------------

kvc_status Publisher::create(const Env& env, Manager& manager, const PublisherOptions& options,
                             const char* url, std::unique_ptr<Publisher>* out) {
  std::unique_ptr<Publisher> made(new Publisher(env, manager, options));
  KVC_TRY(made->build(url));
  if ((options.flags & KVC_PUBLISHER_THREAD) != 0)
    made->thread_ = std::thread([p = made.get()] { p->run(); });
  *out = std::move(made);
  return KVC_OK;
}

kvc_status Publisher::build(const char* url) {
  const Shape& shape = manager_.shape();
  format_.arrays = (options_.flags & KVC_PUBLISHER_ARRAYS) != 0;
  format_.hash = (options_.flags & KVC_PUBLISHER_BYTES) != 0 ? WireHash::kBytes
                 : options_.hash == KVC_PUBLISHER_SGLANG     ? WireHash::kFirstBytes
                                                             : WireHash::kLastBytes;
  format_.rank = options_.rank;
  format_.medium = options_.medium;
  format_.block_size = shape.block_size;
  for (uint32_t g = 0; g < shape.num_groups && (options_.flags & KVC_PUBLISHER_NO_GROUPS) == 0; ++g) {
    const GroupShape& group = shape.groups[g];
    const bool has_window = group.kind == KVC_GROUP_SLIDING_WINDOW || group.kind == KVC_GROUP_CHUNKED_LOCAL;
    groups_[g] = {kind_name(group.kind), has_window ? static_cast<uint32_t>(group.window) : 0};
  }
  root_ = vllm_root(options_.hash_seed);

  // A batch whose blocks have nothing in common is the largest.
  const char name[kMaxAdapterName] = {};
  const Digest256 digest = {};
  WireRun largest;
  largest.kind = KVC_EVENT_STORED;
  largest.parent = &digest;
  largest.hashes = {&digest, 1};
  largest.lora_name = {name, sizeof name};
  const size_t most = (options_.max_blocks + size_t{1}) * wire_bound(format_, groups_, {&largest, 1});
  if (options_.replay_bytes < most)
    return invalid("replay_bytes is %llu; a batch of max_blocks (%u) blocks of %u tokens may take %zu bytes",
                   ull(options_.replay_bytes), options_.max_blocks, shape.block_size, most);
  if (!events_.create(memory_, kEvents) || !tokens_.create(memory_, kEvents * shape.block_size) ||
      !changes_.create(memory_, options_.max_blocks, shape.block_size, shape.num_groups) ||
      !kept_.create(memory_, options_.replay_batches, options_.replay_bytes))
    return fail(KVC_ERROR_OUT_OF_MEMORY,
                "no memory for a publisher of %llu bytes; set a smaller replay_bytes",
                ull(options_.replay_bytes));
  if (url != nullptr) KVC_TRY(open_transport(url));
  built_ = true;
  return KVC_OK;
}

kvc_status Publisher::open_transport(const char* url) {
  const char* const end = std::strchr(url, ':');
  if (end == nullptr)
    return invalid(
        "url is \"%.60s\"; it begins with the name of a plug-in and a colon: \"zmq:tcp://0.0.0.0:5557\"",
        url);
  const std::string name(url, end);
  const kvc_plugin* plugin = nullptr;
  KVC_TRY(open_plugin(name.c_str(), nullptr, &plugin));
  transport_ = transport_of(*plugin);
  if (transport_ == nullptr)
    return fail(KVC_ERROR_UNSUPPORTED, "the plug-in \"%s\" is no transport; zmq is one", name.c_str());
  const kvc_transport_config config = {sizeof config, url, options_.replay_batches};
  fail(KVC_OK, "the plug-in \"%s\" failed without a text", name.c_str());
  kvc_status status = checked_status(transport_->open(&config, &connection_), KVC_ERROR_INTERNAL);
  if (status != KVC_OK) transport_ = nullptr;
  return status;
}

Publisher::~Publisher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  try {
    if (built_) (void)look();
  } catch (const std::bad_alloc&) {  // then the last events are not published
  }
  if (transport_ != nullptr) transport_->close(connection_);
}

void Publisher::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    try {
      (void)look();
    } catch (const std::bad_alloc&) {  // the next look may have more memory
    }
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.interval_ns), [&] { return stop_; });
  }
}

// ---- calls ------------------------------------------------------------------------------------

kvc_status Publisher::poll(uint64_t* num_batches) {
  const std::lock_guard lock(mutex_);
  const uint64_t first = kept_.next_sequence();
  KVC_TRY(look());
  *num_batches = kept_.next_sequence() - first;
  return KVC_OK;
}

void Publisher::resync() {
  const std::lock_guard lock(mutex_);
  resync_ = true;
}

kvc_status Publisher::read(uint64_t sequence, uint64_t* found, void* payload, size_t capacity, size_t* size) {
  const std::lock_guard lock(mutex_);
  const uint64_t first = sequence < kept_.oldest() ? kept_.oldest() : sequence;
  if (first >= kept_.next_sequence())
    return fail(KVC_ERROR_NOT_FOUND, "there is no batch %llu yet; the next one is %llu", ull(sequence),
                ull(kept_.next_sequence()));
  const KeptBatches::Batch batch = kept_[first];
  *size = batch.size;
  if (batch.size > capacity)
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "batch %llu has %zu bytes, the buffer %zu", ull(first),
                batch.size, capacity);
  std::memcpy(payload, batch.data, batch.size);
  *found = first;
  return KVC_OK;
}

void Publisher::name_namespace(uint64_t id, const char* lora_name, const char* lora_path, const char* salt) {
  const std::lock_guard lock(mutex_);
  flush();  // what waits refers to the texts
  Namespace& ns = namespace_of(id);
  ns.has_lora = lora_name != nullptr;
  ns.has_salt = salt != nullptr;
  ns.lora_name = lora_name == nullptr ? "" : lora_name;
  ns.lora_path = lora_path == nullptr ? "" : lora_path;
  ns.salt = salt == nullptr ? "" : salt;
}

void Publisher::read_stats(kvc_publisher_stats* stats) {
  const std::lock_guard lock(mutex_);
  *stats = stats_;
  stats->next_sequence = kept_.next_sequence();
  stats->cancelled_events = changes_.cancelled();
  stats->kept_batches = kept_.count();
  stats->kept_bytes = kept_.bytes();
}

// ---- events -----------------------------------------------------------------------------------

kvc_status Publisher::look() {
  constexpr int kResyncs = 3;  // of one look: events may be lost again at once
  for (int i = 0; i < kResyncs; ++i) {
    if (resync_) KVC_TRY(publish_listing());
    if (!resync_) KVC_TRY(follow());
    if (!resync_) break;
  }
  flush();
  answer_replays();
  return KVC_OK;
}

// Applies the events that there are. Stops where a resync is wanted.
kvc_status Publisher::follow() {
  for (uint64_t left = manager_.shape().event_capacity + kEvents; left >= kEvents; left -= kEvents) {
    kvc_event_batch batch = {sizeof batch,   events_.data(), sizeof(kvc_event), events_.size(), 0,
                             tokens_.data(), tokens_.size()};
    const uint64_t expected = cursor_;
    KVC_TRY(manager_.poll_events(&cursor_, &batch));
    if (const uint64_t lost = cursor_ - expected - batch.count; lost != 0) {
      stats_.lost_events += lost;
      resync_ = true;
      return KVC_OK;
    }
    if (batch.count == 0) return KVC_OK;
    const int32_t* tokens = tokens_.data();
    for (size_t i = 0; i < batch.count && !resync_; ++i) {
      apply(events_[i], tokens);
      tokens += events_[i].num_tokens;
    }
    if (resync_) return KVC_OK;
  }
  return KVC_OK;
}

void Publisher::apply(const kvc_event& event, const int32_t* tokens) {
  time_ns_ = event.time_ns;
  if (event.kind == KVC_EVENT_ALL_CLEARED) return clear_all();
  if (event.kind == KVC_EVENT_NAMESPACE_CLEARED) return clear_namespace(event.namespace_id);
  if ((options_.groups >> event.group & 1) == 0) return;
  if (changes_.full()) flush();
  if (event.kind == KVC_EVENT_STORED)
    store(event, tokens, nullptr);
  else
    remove(event);
}

Publisher::Namespace& Publisher::namespace_of(uint64_t id) {
  if (last_namespace_ == nullptr || last_id_ != id) {
    last_namespace_ = &namespaces_[id];
    last_id_ = id;
  }
  return *last_namespace_;
}

Digest256 Publisher::chain(const kvc_event& event, const int32_t* tokens, const Namespace& ns,
                           const Digest256* parent) const {
  ChainKeys keys;
  keys.extra = digest_of(event.extra_digest);
  if (ns.has_lora) {
    keys.lora_name = ns.lora_name;
    keys.lora_path = ns.lora_path;
  }
  char hex[2 * sizeof(Digest256)];
  if (parent == nullptr && ns.has_salt) {
    keys.salt = ns.salt;
  } else if (parent == nullptr && event.namespace_id != 0 && !ns.has_lora) {
    to_hex(digest_of(event.parent_digest), hex);  // of the namespace
    keys.salt = {hex, sizeof hex};
  }
  if (options_.hash == KVC_PUBLISHER_SGLANG) return sglang_hash(parent, tokens, event.num_tokens, keys);
  return vllm_hash(parent == nullptr ? root_ : *parent, tokens, event.num_tokens, keys);
}

// `before`: where the parent's hash may be as well.
void Publisher::store(const kvc_event& event, const int32_t* tokens, const NodeHashes* before) {
  Namespace& ns = namespace_of(event.namespace_id);
  BlockChange change;
  change.kind = KVC_EVENT_STORED;
  change.group = event.group;
  change.digest = &digest_of(event.digest);
  change.extra = &digest_of(event.extra_digest);
  change.tokens = tokens;
  if (event.parent_node != 0) change.parent_digest = &digest_of(event.parent_digest);
  if (ns.has_lora) change.lora_name = ns.lora_name;
  Digest256 hash;
  if (chains()) {
    if (event.parent_node != 0) {
      const Digest256* parent = before == nullptr ? nullptr : before->find(event.parent_node);
      if (parent != nullptr) nodes_.know(event.parent_node, *parent);
      change.parent_hash = nodes_.find(event.parent_node);
      if (change.parent_hash == nullptr) {
        ++stats_.unresolved_blocks;
        return;
      }
    }
    // Another group may have it already.
    const Digest256* known = nodes_.find(event.node);
    hash = known != nullptr ? *known : chain(event, tokens, ns, change.parent_hash);
    change.hash = &hash;
    nodes_.store(event.node, event.parent_node, event.group, hash);
  } else {
    change.hash = change.digest;
    change.parent_hash = change.parent_digest;
  }
  changes_.add(change);
  ++ns.blocks;
  ++blocks_;
}

void Publisher::remove(const kvc_event& event) {
  BlockChange change;
  change.kind = KVC_EVENT_REMOVED;
  change.group = event.group;
  change.digest = &digest_of(event.digest);
  change.hash = chains() ? nodes_.find(event.node) : change.digest;
  if (change.hash == nullptr) return;  // it was never told
  changes_.add(change);
  if (chains()) nodes_.remove(event.node, event.group);
  --namespace_of(event.namespace_id).blocks;
  --blocks_;
}

void Publisher::clear_all() {
  changes_.add_clear();
  nodes_.clear();
  for (auto& [id, ns] : namespaces_) ns.blocks = 0;
  blocks_ = 0;
}

// The schema can clear everything, not a namespace: then all that is left is told anew.
void Publisher::clear_namespace(uint64_t id) {
  const uint64_t blocks = namespace_of(id).blocks;
  if (blocks == 0) return;
  if (blocks == blocks_)
    clear_all();
  else
    resync_ = true;
}

kvc_status Publisher::publish_listing() {
  const kvc_status status = listing_.read(manager_, format_.block_size, options_.groups, &cursor_);
  if (status != KVC_OK) return status == KVC_ERROR_AGAIN ? kvc_status{KVC_OK} : status;
  NodeHashes before;
  before.swap(nodes_);
  clear_all();
  time_ns_ = env_.wall_clock_ns();
  for (size_t i = 0; i < listing_.size(); ++i) {
    if (changes_.full()) flush();
    store(listing_.event(i), listing_.tokens(i), &before);
  }
  flush();
  listing_.clear();
  resync_ = false;
  last_resync_ns_ = steady_ns();
  ++stats_.resyncs;
  return KVC_OK;
}

// ---- batches ----------------------------------------------------------------------------------

void Publisher::flush() {
  if (changes_.any()) {
    const std::span<const WireRun> runs = changes_.runs();
    for (const WireRun& run : runs) {
      if (run.kind == KVC_EVENT_STORED) stats_.stored_blocks += run.hashes.size();
      if (run.kind == KVC_EVENT_REMOVED) stats_.removed_blocks += run.hashes.size();
    }
    uint8_t* const out = kept_.begin(wire_bound(format_, groups_, runs));
    const double seconds = static_cast<double>(time_ns_) / 1e9;
    const KeptBatches::Batch batch = kept_.end(encode_batch(format_, seconds, groups_, runs, out));
    stats_.bytes += batch.size;
    send(batch);
  }
  changes_.clear();
}

void Publisher::send(const KeptBatches::Batch& batch) {
  if (transport_ == nullptr) return;
  const uint64_t number = big_endian(batch.sequence);
  const kvc_frame frames[] = {
      {options_.topic.data(), options_.topic.size()}, {&number, sizeof number}, {batch.data, batch.size}};
  const kvc_status status = transport_->publish(connection_, frames, std::size(frames));
  if (status == KVC_ERROR_AGAIN)
    ++stats_.slow_batches;
  else if (status != KVC_OK)
    ++stats_.failed_batches;
}

void Publisher::answer_replays() {
  if (transport_ == nullptr || transport_->receive == nullptr) return;
  for (size_t i = 0; i < kReplayRequests; ++i) {
    uint64_t sequence = 0;
    const kvc_status status = transport_->receive(connection_, &sequence);
    if (status == KVC_OK)
      answer_replay(sequence);
    else if (status == KVC_ERROR_INVALID_ARGUMENT)
      ++stats_.bad_requests;
    else
      break;
  }
}

void Publisher::answer_replay(uint64_t sequence) {
  ++stats_.replay_requests;
  if (sequence < kept_.oldest()) {
    ++stats_.replay_misses;
    if (options_.resync_interval_ns != UINT64_MAX &&
        steady_ns() - last_resync_ns_ >= options_.resync_interval_ns)
      resync_ = true;
  }
  uint64_t at = sequence < kept_.oldest() ? kept_.oldest() : sequence;
  for (; at < kept_.next_sequence(); ++at) {
    const KeptBatches::Batch batch = kept_[at];
    const uint64_t number = big_endian(at);
    const kvc_frame frames[] = {
        {options_.topic.data(), options_.topic.size()}, {&number, sizeof number}, {batch.data, batch.size}};
    if (transport_->reply(connection_, frames, std::size(frames)) != KVC_OK) return;
    ++stats_.replayed_batches;
  }
  const uint64_t end = UINT64_MAX;
  const kvc_frame frames[] = {{nullptr, 0}, {&end, sizeof end}, {nullptr, 0}};
  (void)transport_->reply(connection_, frames, std::size(frames));
}

}  // namespace kvc
