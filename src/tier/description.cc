// SPDX-License-Identifier: Apache-2.0
#include "tier/description.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/crc32c.h"
#include "base/dtype.h"
#include "tier/hex.h"

namespace kvc {
namespace {

constexpr char kCut[] = "...\n";   // the last line of what was cut
constexpr size_t kMostValue = 72;  // of a field, before its end is cut
constexpr size_t kHexDigits = 2 * sizeof(Digest256::bytes);

struct SlabDescription {
  uint32_t crc, size;  // the sum is of what follows
  uint64_t turn;       // the oldest one gives way
  Digest256 fingerprint;
  char text[kMostDescription];
};
constexpr size_t kInSlab = (kSector - sizeof(SlabHeader)) / sizeof(SlabDescription);
static_assert(kInSlab == 4);

uint32_t sum_of(const SlabDescription& of) {
  return crc32c(&of.size, sizeof of - offsetof(SlabDescription, size));
}

std::string escaped(const char* text, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    char hex[8];
    const auto byte = static_cast<unsigned char>(text[i]);
    snprintf(hex, sizeof hex, "\\x%02x", byte);
    out += byte >= ' ' && byte <= '~' && byte != '\\' ? std::string(1, text[i]) : hex;
  }
  return out;
}

// In quotes; of a long one the begin, and what tells it from others.
std::string value_of(const void* text, size_t size) {
  const auto* bytes = static_cast<const char*>(text);
  std::string out = '"' + escaped(bytes, std::min(size, kMostValue)) + '"';
  if (size <= kMostValue) return out;
  char more[64];
  snprintf(more, sizeof more, "... (%zu bytes, CRC-32C %08x)", size, crc32c(bytes, size));
  return out + more;
}

// The value of a field. Empty: it has none.
std::string field_of(const std::string& description, const std::string& name) {
  const std::string line = "\n" + name + ": ", all = "\n" + description;
  const size_t at = all.find(line);
  return at == std::string::npos ? ""
                                 : all.substr(at + line.size(), all.find('\n', at + 1) - at - line.size());
}

template <typename Each>
void each_field(const std::string& description, Each&& each) {
  for (size_t at = 0; at < description.size();) {
    const size_t end = std::min(description.find('\n', at), description.size());
    const size_t colon = description.find(": ", at);
    if (colon < end) each(description.substr(at, colon - at), description.substr(colon + 2, end - colon - 2));
    at = end + 1;
  }
}

std::string describe_shape(const PageShape& shape) {
  static constexpr const char* kPlanes[kNumPlanes] = {"keys", "values", "key_scales", "value_scales"};
  std::string out;
  const auto add = [&](const char* name, const std::string& value) { out += name + (": " + value) + '\n'; };
  const auto number = [](double value) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    return std::string(text);
  };
  add("block_size", number(shape.block_size));
  add("layers", number(shape.num_layers));
  add("heads", number(shape.num_heads));
  for (int p = 0; p < kNumPlanes; ++p) {
    const auto& plane = shape.planes[p];
    if (plane.row_bytes == 0) continue;
    add(kPlanes[p], std::string(dtype_name(plane.dtype)) + " x " + number(plane.num_elements) + ", " +
                        number(plane.row_bytes) + " bytes a row of " + number(plane.tokens_per_row) +
                        (plane.tokens_per_row == 1 ? " token" : " tokens"));
  }
  if (shape.latent) add("latent", "yes");
  if (shape.asymmetric) add("asymmetric", "yes");
  if (shape.hadamard) add("hadamard", "yes");
  if (shape.scale_group != 0) add("scale_group", number(shape.scale_group));
  if (shape.k_factor != 0 && shape.k_factor != 1) add("k_scale", number(static_cast<double>(shape.k_factor)));
  if (shape.v_factor != 0 && shape.v_factor != 1) add("v_scale", number(static_cast<double>(shape.v_factor)));
  return out;
}

std::string name_of(const Digest256& fingerprint) {
  char digits[kHexDigits + 1];
  write_hex(fingerprint, digits);
  return std::string(digits) + ".txt";
}

}  // namespace

std::string describe_pages(const PageSource& source, const PageShape* shapes, size_t num_shapes) {
  std::string out = "model: " + value_of(source.model, source.model_size) +
                    "\nweights: " + value_of(source.weights, source.weights_size) + "\n";
  if (source.numerics_size != 0) out += "numerics: " + value_of(source.numerics, source.numerics_size) + "\n";
  const std::string first = num_shapes == 0 ? "" : describe_shape(shapes[0]);
  out += first;
  for (size_t g = 1; g < num_shapes; ++g)
    each_field(describe_shape(shapes[g]), [&](const std::string& name, const std::string& value) {
      if (field_of(first, name) != value)
        out += name + " of group " + std::to_string(g) + ": " + value + "\n";
    });
  return clean_description(out.data(), out.size());
}

// Whole lines.
std::string clean_description(const char* text, size_t size) {
  std::string out;
  for (size_t at = 0; at < size;) {
    const char* const end = std::find(text + at, text + size, '\n');
    const auto length = static_cast<size_t>(end - text) - at;
    std::string line;
    for (size_t i = 0; i < std::min(length, kMostDescription); ++i) {
      const char c = text[at + i];
      line += c >= ' ' && c <= '~' ? std::string(1, c) : escaped(&c, 1);
    }
    if (out.size() + line.size() + sizeof kCut >= kMostDescription) return out + kCut;
    out += line + '\n';
    at += length + 1;
  }
  return out;
}

namespace {

bool is_cut(const std::string& description) {
  const std::string all = "\n" + description, end = std::string("\n") + kCut;
  return all.size() >= end.size() && all.compare(all.size() - end.size(), end.size(), end) == 0;
}

// *count: how many fields differ, or may.
std::string find_difference(const std::string& there, const std::string& here, size_t* count) {
  std::string out, doubtful;
  *count = 0;
  const auto compare = [&](const std::string& name) {
    const std::string a = field_of(there, name), b = field_of(here, name);
    if (a == b) return;
    ++*count;
    const bool is_unknown = (a.empty() && is_cut(there)) || (b.empty() && is_cut(here));
    std::string& text = is_unknown ? doubtful : out;
    if (!text.empty()) return;
    const auto shown = [&](const std::string& value) {
      constexpr size_t kMost = kMostValue + 8;
      if (value.empty()) return std::string(is_unknown ? "unknown (the description was cut)" : "absent");
      return value.size() <= kMost ? value : value.substr(0, kMost) + "...";
    };
    text = (name.size() <= 40 ? name : name.substr(0, 40) + "...") + " is " + shown(a) + " there and " +
           shown(b) + " here";
  };
  each_field(here, [&](const std::string& name, const std::string&) { compare(name); });
  each_field(there, [&](const std::string& name, const std::string&) {
    if (field_of(here, name).empty()) compare(name);
  });
  return out.empty() ? doubtful : out;
}

bool read_entry(Files& files, int slab, size_t i, SlabDescription* out) {
  const uint64_t at = sizeof(SlabHeader) + i * sizeof *out;
  return read_fully(files, slab, out, sizeof *out, at) == 0 && out->crc == sum_of(*out) &&
         out->size <= sizeof out->text && out->size != 0;
}

}  // namespace

std::string describe_difference(const std::string& there, const std::string& here) {
  size_t ignored;
  return find_difference(there, here, &ignored);
}

std::string describe_difference(const std::vector<PageDescription>& there, const Digest256& own,
                                const std::string& here) {
  std::string out;
  size_t least = SIZE_MAX;
  for (const PageDescription& one : there) {
    size_t count = 0;
    if (one.fingerprint == own || one.text.empty()) continue;
    const std::string text = find_difference(one.text, here, &count);
    if (count != 0 && count < least) least = count, out = text;
  }
  return out;
}

std::vector<PageDescription> read_slab_descriptions(Files& files, int slab) {
  std::vector<PageDescription> out;
  SlabDescription entry;
  for (size_t i = 0; i < kInSlab; ++i)
    if (read_entry(files, slab, i, &entry))
      out.push_back({entry.fingerprint, clean_description(entry.text, entry.size)});
  return out;
}

int write_slab_description(Files& files, int slab, const Digest256& fingerprint, const std::string& text) {
  SlabDescription entry, mine = {};
  size_t place = 0;
  uint64_t oldest = UINT64_MAX, latest = 0;
  for (size_t i = 0; i < kInSlab && oldest != 0; ++i) {
    const bool there = read_entry(files, slab, i, &entry);
    const bool is_own = there && entry.fingerprint == fingerprint;
    if (is_own && std::string(entry.text, entry.size) == text) return 0;
    if (there) latest = std::max(latest, entry.turn);
    const uint64_t turn = is_own ? 0 : there ? std::max<uint64_t>(entry.turn, 2) : 1;
    if (turn < oldest) oldest = turn, place = i;
  }
  mine.size = static_cast<uint32_t>(std::min(text.size(), sizeof mine.text));
  mine.turn = latest + 1;
  mine.fingerprint = fingerprint;
  text.copy(mine.text, mine.size);
  mine.crc = sum_of(mine);
  return write_fully(files, slab, &mine, sizeof mine, sizeof(SlabHeader) + place * sizeof mine);
}

int remove_slab_description(Files& files, int slab, const Digest256& fingerprint) {
  constexpr SlabDescription kNone = {};
  SlabDescription entry;
  int error = 0;
  for (size_t i = 0; error == 0 && i < kInSlab; ++i)
    if (read_entry(files, slab, i, &entry) && entry.fingerprint == fingerprint)
      error = write_fully(files, slab, &kNone, sizeof kNone, sizeof(SlabHeader) + i * sizeof kNone);
  return error;
}

std::string read_folder_description(Files& files, int folder, const Digest256& fingerprint) {
  OpenFile file(files);
  struct stat status;
  char text[kMostDescription + 1];  // one more is too long, and is cut
  if (file.open(folder, name_of(fingerprint).c_str(), O_RDONLY) != 0 ||
      files.status(file.fd(), &status) != 0 || !S_ISREG(status.st_mode))
    return "";
  const auto size = std::min<uint64_t>(static_cast<uint64_t>(status.st_size), sizeof text);
  return read_fully(files, file.fd(), text, size, 0) == 0 ? clean_description(text, size) : "";
}

std::vector<PageDescription> read_folder_descriptions(Files& files, int folder) {
  constexpr size_t kMost = 64;
  std::vector<PageDescription> out;
  static_cast<void>(files.list(folder, &out, [](void* data, const char* name) {
    auto* all = static_cast<std::vector<PageDescription>*>(data);
    Digest256 fingerprint;
    if (all->size() < kMost && std::strlen(name) == kHexDigits + 4 && read_hex(name, &fingerprint) &&
        std::strcmp(name + kHexDigits, ".txt") == 0)
      all->push_back({fingerprint, ""});
  }));
  for (PageDescription& one : out) one.text = read_folder_description(files, folder, one.fingerprint);
  return out;
}

int write_folder_description(Files& files, int folder, const Digest256& fingerprint,
                             const std::string& text) {
  const bool is_same = read_folder_description(files, folder, fingerprint) == text;
  OpenFile file(files);
  int error = file.open(folder, name_of(fingerprint).c_str(), O_RDWR | O_CREAT, 0600);
  if (error == 0 && is_same) return files.touch(file.fd());
  if (error == 0) error = write_fully(files, file.fd(), text.data(), text.size(), 0);
  if (error == 0) error = files.truncate(file.fd(), text.size());
  return error;
}

int remove_folder_description(Files& files, int folder, const Digest256& fingerprint, int64_t least_age_s) {
  const std::string name = name_of(fingerprint);
  struct stat status;
  const int error = files.status_at(folder, name.c_str(), &status);
  if (error != 0 || files.time() - status.st_mtim.tv_sec < least_age_s) return error;
  return remove_file(files, folder, name.c_str(), status);
}

}  // namespace kvc
