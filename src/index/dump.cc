// SPDX-License-Identifier: Apache-2.0
// The bytes of a dump, little-endian: header, workers, units, sets, blocks, CRC-32C of all before.
// docs/INDEX.md has the table. A load checks the CRC, then every number; bytes that were made to mislead it
// end in an error and an empty index.
#include "base/crc32c.h"
#include "base/status.h"
#include "index/prefix_index.h"

namespace kvc {
namespace {

constexpr char kDumpMagic[8] = {'K', 'V', 'C', 'I', 'N', 'D', 'E', 'X'};
constexpr uint32_t kDumpVersion = 1;

struct DumpHeader {
  char magic[8];
  uint32_t version, num_media;
  uint32_t group, num_workers;
  uint32_t num_units, num_sets;
  uint64_t num_blocks;
  uint64_t size;  // of the dump
};
static_assert(sizeof(DumpHeader) == 48);

struct DumpedWorker {
  uint64_t id, last_heard_ns;
  char name[64];
};
struct DumpedUnit {
  uint64_t namespace_id;
  uint32_t worker;  // number in the dump; UINT32_MAX: nobody's
  uint32_t padding;
};
struct DumpedWord {
  uint64_t bits;
  uint32_t word;
  uint32_t is_last;  // of its set
};
struct DumpedBlock {
  BlockKey key;
  uint32_t set;  // number in the dump
  uint32_t padding;
};
static_assert(sizeof(EventStream) == 56 && sizeof(DumpedWorker) == 80 && sizeof(DumpedUnit) == 16 &&
              sizeof(DumpedWord) == 16 && sizeof(DumpedBlock) == 24);

kvc_status damaged_dump(const char* what) {
  return invalid("the dump is damaged: %s; dump the index again", what);
}

}  // namespace

class PrefixIndex::Writer {
 public:
  explicit Writer(void* data) : begin_(static_cast<uint8_t*>(data)), at_(begin_) {}
  template <typename T>
  void add(const T& record) {
    std::memcpy(at_, &record, sizeof record);
    at_ += sizeof record;
  }
  void add_sum() { add(crc32c(begin_, static_cast<size_t>(at_ - begin_))); }

 private:
  uint8_t* begin_;
  uint8_t* at_;
};

class PrefixIndex::Reader {
 public:
  Reader(const void* data, size_t size) : at_(static_cast<const uint8_t*>(data)), left_(size) {}
  template <typename T>
  bool take(T* record) {
    if (left_ < sizeof *record) return false;
    std::memcpy(record, at_, sizeof *record);
    at_ += sizeof *record;
    left_ -= sizeof *record;
    return true;
  }
  size_t left() const { return left_; }

 private:
  const uint8_t* at_;
  size_t left_;
};

size_t PrefixIndex::dump_size() const {
  size_t words = 0;
  for (SetId set = 1; set < sets_.limit(); ++set)
    if (sets_.references(set) != 0)
      for (const HolderSets::Word* at = sets_.first(set); at != nullptr; at = sets_.next(*at)) ++words;
  return sizeof(DumpHeader) +
         workers_.num_workers() * (sizeof(DumpedWorker) + num_media() * sizeof(EventStream)) +
         workers_.num_units() * sizeof(DumpedUnit) + words * sizeof(DumpedWord) +
         table_.num_blocks() * sizeof(DumpedBlock) + sizeof(uint32_t);
}

kvc_status PrefixIndex::dump(void* data, size_t capacity, size_t* size) {
  const size_t needed = dump_size();
  if (capacity < needed) {
    *size = needed;
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "room for %zu bytes, and the dump has %zu", capacity, needed);
  }
  Array<uint32_t> numbers;  // of workers, then of sets
  if (!numbers.create(*memory_, size_t{workers_.limit()} + sets_.limit()))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the numbers of %u sets", sets_.limit());
  uint32_t* const worker_numbers = numbers.data();
  uint32_t* const set_numbers = worker_numbers + workers_.limit();

  Writer writer(data);
  DumpHeader header = {};
  std::memcpy(header.magic, kDumpMagic, sizeof kDumpMagic);
  header.version = kDumpVersion;
  header.num_media = num_media();
  header.group = group_;
  header.num_workers = workers_.num_workers();
  header.num_units = workers_.num_units();
  header.num_sets = static_cast<uint32_t>(sets_.num_sets());
  header.num_blocks = table_.num_blocks();
  header.size = needed;
  writer.add(header);
  uint32_t number = 0;
  for (uint32_t worker = 0; worker < workers_.limit(); ++worker) {
    const IndexedWorker& from = workers_[worker];
    if (from.flags == 0) continue;
    worker_numbers[worker] = number++;
    DumpedWorker to = {from.id, from.last_heard_ns, {}};
    std::memcpy(to.name, from.name, sizeof to.name);
    writer.add(to);
    for (uint32_t m = 0; m < num_media(); ++m) writer.add(from.streams[m]);
  }
  for (uint32_t unit = 0; unit < workers_.num_units(); ++unit) {
    const uint32_t owner = workers_.owner_of(unit);
    const bool owned = owner != Workers::kNone;
    writer.add(
        DumpedUnit{owned ? workers_.namespace_of(unit) : 0, owned ? worker_numbers[owner] : UINT32_MAX, 0});
  }
  number = 0;
  for (SetId set = 1; set < sets_.limit(); ++set) {
    if (sets_.references(set) == 0) continue;
    set_numbers[set] = number++;
    for (const HolderSets::Word* at = sets_.first(set); at != nullptr; at = sets_.next(*at))
      writer.add(DumpedWord{at->bits, at->word, sets_.next(*at) == nullptr});
  }
  for (BlockTable::Index entry = 1; entry < table_.limit(); ++entry)
    if (const SetId set = table_.set_of(entry); set != HolderSets::kEmpty)
      writer.add(DumpedBlock{table_.key_of(entry), set_numbers[set], 0});
  writer.add_sum();
  *size = needed;
  return KVC_OK;
}

kvc_status PrefixIndex::load_dump(const void* data, size_t size) {
  if (workers_.num_workers() != 0)
    return fail(KVC_ERROR_BUSY, "the index has %u workers; load into a new one", workers_.num_workers());
  DumpHeader header;
  if (size < sizeof header + sizeof(uint32_t) || std::memcmp(data, kDumpMagic, sizeof kDumpMagic) != 0)
    return invalid("%zu bytes that are no dump of an index; give what kvc_index_dump wrote", size);
  std::memcpy(&header, data, sizeof header);
  if (header.version != kDumpVersion) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "the dump has version %u, and this library reads version %u; update it", header.version,
                kDumpVersion);
  }
  if (header.size != size)
    return invalid("the dump has %llu bytes, and %zu were given; give all of it", ull(header.size), size);
  uint32_t sum;
  std::memcpy(&sum, static_cast<const char*>(data) + size - sizeof sum, sizeof sum);
  if (sum != crc32c(data, size - sizeof sum)) return damaged_dump("its checksum is wrong");
  if (header.num_media != num_media() || header.group != group_) {
    return invalid("the dump has num_media %u and group %u, the index %u and %u; set the index like the dump",
                   header.num_media, header.group, num_media(), group_);
  }
  if (header.num_blocks > table_.max_blocks())
    return fail(KVC_ERROR_LIMIT, "the dump has %llu blocks, and max_blocks is %zu; set it higher",
                ull(header.num_blocks), table_.max_blocks());
  if (header.num_workers > workers_.max_workers())
    return fail(KVC_ERROR_LIMIT, "the dump has %u workers, and max_workers is %u; set it higher",
                header.num_workers, workers_.max_workers());
  if (header.num_units > workers_.max_units())
    return fail(KVC_ERROR_LIMIT, "the dump has %u namespaces, and max_namespaces is %u; set it higher",
                header.num_units, workers_.max_units());
  workers_.reset();
  Reader reader(data, size - sizeof sum);
  const kvc_status status = load_parts(reader);
  if (status == KVC_OK) return KVC_OK;
  for (uint32_t worker = 0; worker < workers_.limit(); ++worker)
    if (workers_[worker].flags != 0) remove_at(worker);
  workers_.reset();
  return status;
}

kvc_status PrefixIndex::load_workers(Reader& reader, uint32_t num_workers, uint32_t num_units) {
  for (uint32_t i = 0; i < num_workers; ++i) {
    DumpedWorker from;
    if (!reader.take(&from)) return damaged_dump("it ends in its workers");
    if (workers_.find(from.id) != Workers::kNone) return damaged_dump("two workers have one number");
    const uint32_t worker = workers_.add(from.id, from.name, from.last_heard_ns);
    for (uint32_t m = 0; m < num_media(); ++m) {
      EventStream& stream = workers_[worker].streams[m];
      if (!reader.take(&stream)) return damaged_dump("it ends in its streams");
      if (stream.next > stream.seen) return damaged_dump("a stream ends before its first missing event");
      if (stream.is_resyncing != 0) {  // the rest of the list will not come
        stream.is_resyncing = 0;
        stream.needs_list = 1;
      }
    }
    workers_.publish_flags(worker);
  }
  for (uint32_t i = 0; i < num_units; ++i) {
    DumpedUnit from;
    if (!reader.take(&from)) return damaged_dump("it ends in its namespaces");
    if (from.worker != Workers::kNone &&
        (from.worker >= num_workers || workers_.find_unit(from.worker, from.namespace_id) != Workers::kNone))
      return damaged_dump("a namespace has no worker, or is there twice");
    workers_.append_unit(from.worker, from.namespace_id);
  }
  return KVC_OK;
}

// Each of the sets that it adds to `loaded` has a reference of it.
kvc_status PrefixIndex::load_sets(Reader& reader, uint32_t num_sets, SetId* loaded, uint32_t* num_loaded) {
  HolderSets::Draft draft;
  while (*num_loaded < num_sets) {
    draft.count = 0;
    for (DumpedWord word = {}; word.is_last == 0;) {
      if (!reader.take(&word) || draft.count == HolderSets::kMaxWords ||
          (draft.count != 0 && word.word <= draft.words[draft.count - 1]) ||
          !workers_.owns_all(word.word, word.bits))
        return damaged_dump("a set of holders is not one");
      draft.words[draft.count] = word.word;
      draft.bits[draft.count++] = word.bits;
    }
    const SetId set = sets_.find_or_make(draft);
    if (set == HolderSets::kNoRoom)
      return fail(KVC_ERROR_LIMIT, "the sets of holders have no room; set max_blocks higher");
    loaded[(*num_loaded)++] = set;
  }
  return KVC_OK;
}

kvc_status PrefixIndex::load_blocks(Reader& reader, uint64_t num_blocks, const SetId* loaded,
                                    uint32_t num_loaded) {
  for (uint64_t i = 0; i < num_blocks; ++i) {
    DumpedBlock block;
    if (!reader.take(&block) || block.set >= num_loaded || table_.look_up(block.key) != 0)
      return damaged_dump("a block has no set, or is there twice");
    const SetId set = loaded[block.set];
    sets_.add_reference(set);
    table_.insert(block.key, set);
    count_in(set);
  }
  return reader.left() == 0 ? KVC_OK : damaged_dump("it goes on behind its blocks");
}

kvc_status PrefixIndex::load_parts(Reader& reader) {
  DumpHeader header;
  if (!reader.take(&header)) return damaged_dump("it ends in its header");
  KVC_TRY(load_workers(reader, header.num_workers, header.num_units));
  Array<SetId> loaded;
  if (header.num_sets > reader.left() / sizeof(DumpedWord)) return damaged_dump("it ends in its sets");
  if (!loaded.create(*memory_, header.num_sets))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %u sets", header.num_sets);
  uint32_t num_loaded = 0;
  kvc_status status = load_sets(reader, header.num_sets, loaded.data(), &num_loaded);
  if (status == KVC_OK) status = load_blocks(reader, header.num_blocks, loaded.data(), num_loaded);
  for (uint32_t i = 0; i < num_loaded; ++i) sets_.release(loaded[i]);
  return status;
}

}  // namespace kvc
