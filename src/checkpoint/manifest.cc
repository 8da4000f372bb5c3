// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <cstring>

#include "base/crc32c.h"
#include "base/status.h"

namespace kvc {
namespace {

constexpr char kMagic[8] = {'K', 'V', 'C', 'C', 'K', 'P', 'T', '\n'};
constexpr char kDataMagic[8] = {'K', 'V', 'C', 'D', 'A', 'T', 'A', '\n'};

struct Header {
  char magic[8];
  uint32_t version, header_bytes;
  uint32_t flags, num_sections;  // flags: 0; a reader refuses others
  uint64_t id, bytes;            // of the file
  Digest256 content;
  Lineage lineage;
  uint8_t reserved[32];
  uint32_t table_crc, header_crc;  // of the table of sections; of the bytes before
};
static_assert(sizeof(Header) == kManifestHeaderBytes);

struct ManifestSection {
  uint32_t kind, crc;
  uint64_t offset, bytes, reserved;
};
static_assert(sizeof(ManifestSection) == 32);

enum Kind : uint32_t {
  kInfo = 1,
  kNamespaces,
  kPositions,
  kTokens,
  kSpans,
  kPools,
  kPages,
  kFiles,
  kRequests,
  kRequestTokens,
  kRequestKeys,
  kRequestBonds,
  kQuotas,
  kPrompts,
  kNumKinds = kPrompts,
  kNumKindsOfVersion1 = kRequestKeys
};

struct DataHeader {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t id;
  uint8_t reserved[kDataHeaderBytes - 28];
  uint32_t crc;
};
static_assert(sizeof(DataHeader) == kDataHeaderBytes);

// What sections are made of is fixed.
static_assert(sizeof(Contents::Position) == 48 && sizeof(Contents::Cached) == 32 && sizeof(ExtraSpan) == 48);
static_assert(sizeof(Contents::WaitingRequest) == 104 && sizeof(kvc_extra_key) == 48);
static_assert(sizeof(Contents::RequestBond) == 40 && sizeof(Contents::Quota) == 32);

class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    put(static_cast<uint64_t>(value.size()));
    out.append(value);
  }
  template <typename T>
  void array(const std::vector<T>& values) {
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string out;
};

class Reader {
 public:
  Reader(const char* data, size_t size) : at_(data), left_(size) {}
  template <typename T>
  void get(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_ < sizeof *value) return fail();
    std::memcpy(value, at_, sizeof *value);
    at_ += sizeof *value, left_ -= sizeof *value;
  }
  template <typename T>
  T get() {
    T value = {};
    get(&value);
    return value;
  }
  void text(std::string* value) {
    const auto size = get<uint64_t>();
    if (size > left_) return fail();
    value->assign(at_, size);
    at_ += size, left_ -= size;
  }
  template <typename T>
  void array(std::vector<T>* values, uint64_t count) {
    if (count > left_ / sizeof(T)) return fail();
    values->resize(count);
    if (count != 0) std::memcpy(values->data(), at_, count * sizeof(T));
    at_ += count * sizeof(T), left_ -= count * sizeof(T);
  }
  // All that is left; it must be whole.
  template <typename T>
  void rest(std::vector<T>* values) {
    if (left_ % sizeof(T) != 0) return fail();
    array(values, left_ / sizeof(T));
  }
  bool done() const { return !failed_ && left_ == 0; }
  bool failed() const { return failed_; }
  size_t left() const { return left_; }
  void fail() { failed_ = true, left_ = 0; }

 private:
  const char* at_;
  size_t left_;
  bool failed_ = false;
};

void put_group(Writer* out, const Manifest::Group& group) {
  for (const uint32_t value : {group.kind, group.pool, group.sinks, group.has_pages}) out->put(value);
  out->put(group.window);
  if (group.has_pages == 0) return;
  const PageShape& shape = group.shape;
  for (const uint32_t value : {shape.num_layers, shape.num_heads, shape.block_size}) out->put(value);
  for (const auto& plane : shape.planes) {
    out->put(plane.dtype);
    for (const uint32_t value : {plane.row_bytes, plane.num_elements, plane.tokens_per_row}) out->put(value);
  }
  out->put(uint32_t{shape.latent} | uint32_t{shape.asymmetric} << 1 | uint32_t{shape.hadamard} << 2);
  out->put(shape.scale_group);
  out->put(shape.k_factor);
  out->put(shape.v_factor);
  const PagePart& part = group.part;
  for (const uint32_t value : {part.first_layer, part.num_layers, part.first_head, part.num_heads})
    out->put(value);
  out->put(group.part_bytes);
  out->put(group.fingerprint);
}

void get_group(Reader* in, Manifest::Group* group) {
  for (uint32_t* value : {&group->kind, &group->pool, &group->sinks, &group->has_pages}) in->get(value);
  in->get(&group->window);
  if (group->has_pages > 1) return in->fail();
  if (group->has_pages == 0) return;
  PageShape& shape = group->shape;
  for (uint32_t* value : {&shape.num_layers, &shape.num_heads, &shape.block_size}) in->get(value);
  for (auto& plane : shape.planes) {
    in->get(&plane.dtype);
    for (uint32_t* value : {&plane.row_bytes, &plane.num_elements, &plane.tokens_per_row}) in->get(value);
  }
  const auto flags = in->get<uint32_t>();
  if (flags > 7) return in->fail();
  shape.latent = (flags & 1) != 0, shape.asymmetric = (flags & 2) != 0, shape.hadamard = (flags & 4) != 0;
  in->get(&shape.scale_group);
  in->get(&shape.k_factor);
  in->get(&shape.v_factor);
  PagePart& part = group->part;
  for (uint32_t* value : {&part.first_layer, &part.num_layers, &part.first_head, &part.num_heads})
    in->get(value);
  in->get(&group->part_bytes);
  in->get(&group->fingerprint);
}

std::string encode_info(const Manifest& manifest) {
  Writer out;
  const Contents& contents = manifest.contents;
  for (const uint32_t value :
       {contents.block_size, contents.num_groups, static_cast<uint32_t>(contents.pools.size()),
        contents.lists.policy, contents.lists.has_levels, uint32_t{0}}) {
    out.put(value);
  }
  out.put(contents.lists.policy_weight);
  for (const std::string* text : {&manifest.model, &manifest.weights, &manifest.numerics}) out.text(*text);
  for (const Manifest::Group& group : manifest.groups) put_group(&out, group);
  return std::move(out.out);
}

void decode_info(Reader* in, Manifest* manifest) {
  Contents& contents = manifest->contents;
  uint32_t num_pools = 0, reserved = 0;
  for (uint32_t* value : {&contents.block_size, &contents.num_groups, &num_pools, &contents.lists.policy,
                          &contents.lists.has_levels, &reserved}) {
    in->get(value);
  }
  in->get(&contents.lists.policy_weight);
  for (std::string* text : {&manifest->model, &manifest->weights, &manifest->numerics}) in->text(text);
  if (contents.num_groups > 32 || num_pools > 32 || reserved != 0) return in->fail();
  contents.pools.resize(num_pools);
  manifest->groups.resize(contents.num_groups);
  for (Manifest::Group& group : manifest->groups) get_group(in, &group);
}

std::string encode_namespaces(const Contents& contents) {
  Writer out;
  for (const Contents::NamespaceEntry& entry : contents.namespaces) {
    out.put(entry.epoch);
    out.put(entry.id);
    out.put(entry.digest);
    out.put(uint64_t{entry.opens});
    out.text(entry.identity);
  }
  return std::move(out.out);
}

void decode_namespaces(Reader* in, Contents* contents) {
  while (!in->failed() && in->left() != 0) {
    Contents::NamespaceEntry entry = {};
    in->get(&entry.epoch);
    in->get(&entry.id);
    in->get(&entry.digest);
    const auto opens = in->get<uint64_t>();
    if (opens > UINT32_MAX) return in->fail();
    entry.opens = static_cast<uint32_t>(opens);
    in->text(&entry.identity);
    contents->namespaces.push_back(std::move(entry));
  }
}

std::string encode_pools(const Contents& contents) {
  Writer out;
  for (const Contents::Pool& pool : contents.pools) {
    for (const uint64_t value : {pool.first, pool.size, static_cast<uint64_t>(pool.blocks.size()),
                                 static_cast<uint64_t>(pool.free.size())}) {
      out.put(value);
    }
    out.array(pool.blocks);
    out.array(pool.free);
  }
  return std::move(out.out);
}

void decode_pools(Reader* in, Contents* contents) {
  for (Contents::Pool& pool : contents->pools) {
    in->get(&pool.first);
    in->get(&pool.size);
    const auto num_blocks = in->get<uint64_t>(), num_free = in->get<uint64_t>();
    in->array(&pool.blocks, num_blocks);
    in->array(&pool.free, num_free);
  }
}

std::string encode_prompts(const Contents& contents) {
  Writer out;
  for (const Contents::NamedPrompt& prompt : contents.prompts) {
    out.text(prompt.name);
    out.put(prompt.ns);
    out.put(prompt.index);
    for (const uint64_t value : {prompt.num_pinned, static_cast<uint64_t>(prompt.tokens.size()),
                                 static_cast<uint64_t>(prompt.keys.size())}) {
      out.put(value);
    }
    out.array(prompt.tokens);
    out.array(prompt.keys);
  }
  return std::move(out.out);
}

void decode_prompts(Reader* in, Contents* contents) {
  while (!in->failed() && in->left() != 0) {
    Contents::NamedPrompt prompt = {};
    in->text(&prompt.name);
    in->get(&prompt.ns);
    in->get(&prompt.index);
    in->get(&prompt.num_pinned);
    const auto num_tokens = in->get<uint64_t>(), num_keys = in->get<uint64_t>();
    in->array(&prompt.tokens, num_tokens);
    in->array(&prompt.keys, num_keys);
    contents->prompts.push_back(std::move(prompt));
  }
}

std::string encode_files(const Manifest& manifest) {
  Writer out;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    out.put(manifest.files[i]);
    out.text(manifest.codecs[i]);
  }
  return std::move(out.out);
}

void decode_files(Reader* in, Manifest* manifest) {
  while (!in->failed() && in->left() != 0) {
    Manifest::DataFile file = {};
    std::string codec;
    in->get(&file);
    in->text(&codec);
    manifest->files.push_back(file);
    manifest->codecs.push_back(std::move(codec));
  }
}

template <typename T>
std::string encode_array(const std::vector<T>& values) {
  Writer out;
  out.array(values);
  return std::move(out.out);
}

std::string encode_section(uint32_t kind, const Manifest& manifest) {
  const Contents& contents = manifest.contents;
  switch (kind) {
    case kInfo:
      return encode_info(manifest);
    case kNamespaces:
      return encode_namespaces(contents);
    case kPositions:
      return encode_array(contents.positions);
    case kTokens:
      return encode_array(contents.tokens);
    case kSpans:
      return encode_array(contents.spans);
    case kPools:
      return encode_pools(contents);
    case kPages:
      return encode_array(manifest.pages);
    case kFiles:
      return encode_files(manifest);
    case kRequests:
      return encode_array(contents.requests);
    case kRequestTokens:
      return encode_array(contents.request_tokens);
    case kRequestKeys:
      return encode_array(contents.request_keys);
    case kRequestBonds:
      return encode_array(contents.bonds);
    case kQuotas:
      return encode_array(contents.quotas);
    default:
      return encode_prompts(contents);
  }
}

bool decode_section(uint32_t kind, const char* data, size_t size, Manifest* manifest) {
  Reader in(data, size);
  Contents& contents = manifest->contents;
  switch (kind) {
    case kInfo:
      decode_info(&in, manifest);
      break;
    case kNamespaces:
      decode_namespaces(&in, &contents);
      break;
    case kPositions:
      in.rest(&contents.positions);
      break;
    case kTokens:
      in.rest(&contents.tokens);
      break;
    case kSpans:
      in.rest(&contents.spans);
      break;
    case kPools:
      decode_pools(&in, &contents);
      break;
    case kPages:
      in.rest(&manifest->pages);
      break;
    case kFiles:
      decode_files(&in, manifest);
      break;
    case kRequests:
      in.rest(&contents.requests);
      break;
    case kRequestTokens:
      in.rest(&contents.request_tokens);
      break;
    case kRequestKeys:
      in.rest(&contents.request_keys);
      break;
    case kRequestBonds:
      in.rest(&contents.bonds);
      break;
    case kQuotas:
      in.rest(&contents.quotas);
      break;
    default:
      decode_prompts(&in, &contents);
      break;
  }
  return in.done();
}

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

bool all_zero(const char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (data[i] != 0) return false;
  }
  return true;
}

kvc_status corrupt(const char* name, const char* what) {
  return fail(KVC_ERROR_CORRUPT, "%s: %s; the file is damaged", name, what);
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  header.version = kCheckpointVersion;
  header.header_bytes = sizeof header;
  header.num_sections = kNumKinds;
  header.id = manifest.id;
  header.content = manifest.content;
  header.lineage = manifest.contents.lineage;
  ManifestSection table[kNumKinds] = {};
  std::string out(sizeof header + sizeof table, '\0');
  for (uint32_t i = 0; i < kNumKinds; ++i) {
    const std::string bytes = encode_section(i + 1, manifest);
    table[i] = {i + 1, crc32c(bytes.data(), bytes.size()), out.size(), bytes.size(), 0};
    out += bytes;
    out.resize(round_up(out.size()), '\0');
  }
  header.bytes = out.size();
  header.table_crc = crc32c(table, sizeof table);
  header.header_crc = crc32c(&header, offsetof(Header, header_crc));
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, table, sizeof table);
  return out;
}

kvc_status check_manifest_header(const char* name, const void* data, size_t have, uint64_t size) {
  Header header;
  if (have < sizeof header) return corrupt(name, "it is shorter than a header");
  std::memcpy(&header, data, sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return corrupt(name, "it is no manifest of a checkpoint");
  if (header.header_crc != crc32c(&header, offsetof(Header, header_crc)))
    return corrupt(name, "the checksum of the header does not match");
  if (header.version == 0 || header.version > kCheckpointVersion || header.flags != 0 ||
      header.header_bytes != sizeof header)
    return fail(KVC_ERROR_UNSUPPORTED, "%s has version %u of the format; this library reads versions 1 to %u",
                name, header.version, kCheckpointVersion);
  const uint32_t num_kinds = header.version == 1 ? kNumKindsOfVersion1 : kNumKinds;
  const size_t table_bytes = num_kinds * sizeof(ManifestSection);
  if (header.bytes != size || size < sizeof header + table_bytes || header.num_sections != num_kinds ||
      !all_zero(reinterpret_cast<const char*>(header.reserved), sizeof header.reserved))
    return corrupt(name, "it has another size than its header says");
  return KVC_OK;
}

kvc_status decode_manifest(const char* name, const void* data, size_t size, Manifest* out) {
  KVC_TRY(check_manifest_header(name, data, size, size));
  const auto* const bytes = static_cast<const char*>(data);
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  ManifestSection table[kNumKinds] = {};
  const uint32_t num_kinds = header.num_sections;
  const size_t table_bytes = num_kinds * sizeof table[0];
  std::memcpy(table, bytes + sizeof header, table_bytes);
  if (header.table_crc != crc32c(table, table_bytes))
    return corrupt(name, "the checksum of the table of sections does not match");
  uint64_t at = sizeof header + table_bytes;
  *out = Manifest();
  for (uint32_t i = 0; i < num_kinds; ++i) {
    const ManifestSection& section = table[i];
    if (section.kind != i + 1 || section.offset != at || section.bytes > size - at || section.reserved != 0)
      return corrupt(name, "a section is not where it should be");
    const char* const begin = bytes + at;
    if (section.crc != crc32c(begin, section.bytes)) {
      return fail(KVC_ERROR_CORRUPT,
                  "%s: the checksum of section %u at byte %llu does not match; the file is damaged", name,
                  section.kind, ull(at));
    }
    if (!decode_section(section.kind, begin, section.bytes, out))
      return corrupt(name, "a section has another content than it should");
    const uint64_t end = round_up(at + section.bytes);
    if (end > size || !all_zero(begin + section.bytes, end - at - section.bytes))
      return corrupt(name, "a section is not followed by zeroes");
    at = end;
  }
  if (at != size) return corrupt(name, "bytes follow the last section");
  out->id = header.id;
  out->version = header.version;
  out->content = header.content;
  out->contents.lineage = header.lineage;
  if (header.version == 1) out->contents.bonds.resize(out->contents.requests.size());
  if (!out->codecs.empty()) out->codec = out->codecs[0];
  return check_manifest(name, *out);
}

std::string make_data_header(uint64_t id) {
  DataHeader header = {};
  std::memcpy(header.magic, kDataMagic, sizeof header.magic);
  header.version = kDataVersion;
  header.header_bytes = sizeof header;
  header.id = id;
  header.crc = crc32c(&header, offsetof(DataHeader, crc));
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

bool is_data_header(const void* data, uint64_t id) {
  return std::memcmp(data, make_data_header(id).data(), kDataHeaderBytes) == 0;
}

}  // namespace kvc
