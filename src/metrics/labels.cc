// SPDX-License-Identifier: Apache-2.0
#include "metrics/labels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "metrics/families.h"

namespace kvc {
namespace {

constexpr size_t kMaxLabels = 64, kMaxBytes = 1 << 16;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name(const char* name) {
  if (!is_letter(name[0]) || (name[0] == '_' && name[1] == '_')) return false;
  return std::all_of(name, name + std::strlen(name), [](char c) { return is_letter(c) || is_digit(c); });
}

// Bytes of the UTF-8 character at `at`, which ends with a 0; 0 = there is none. RFC 3629: no surrogates,
// nothing longer than needed, nothing above U+10FFFF.
size_t character_at(const unsigned char* at) {
  const auto follows = [&](size_t i) { return (at[i] & 0xC0) == 0x80; };
  if (at[0] < 0x80) return 1;
  if (at[0] < 0xC2) return 0;
  if (at[0] < 0xE0) return follows(1) ? 2 : 0;
  if (at[0] < 0xF0) {
    const bool fits = !(at[0] == 0xE0 && at[1] < 0xA0) && !(at[0] == 0xED && at[1] >= 0xA0);
    return fits && follows(1) && follows(2) ? 3 : 0;
  }
  if (at[0] > 0xF4) return 0;
  const bool fits = !(at[0] == 0xF0 && at[1] < 0x90) && !(at[0] == 0xF4 && at[1] >= 0x90);
  return fits && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

bool is_utf8(const char* text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text);
  for (size_t size; *at != 0; at += size)
    if (size = character_at(at); size == 0) return false;
  return true;
}

kvc_status check_label(const kvc_label& label, size_t i) {
  if (label.name == nullptr || label.value == nullptr)
    return invalid("labels[%zu] has no %s", i, label.name == nullptr ? "name" : "value");
  if (!is_name(label.name)) {
    return invalid("labels[%zu].name is \"%.64s\"; letters, digits and _, not a digit or __ first", i,
                   label.name);
  }
  if (is_own_label(label.name))
    return invalid("labels[%zu].name is \"%s\", which metrics have themselves; choose another", i,
                   label.name);
  if (!is_utf8(label.value)) return invalid("labels[%zu], \"%.64s\": the value is not UTF-8", i, label.name);
  return KVC_OK;
}

}  // namespace

kvc_status write_labels(const kvc_label* labels, size_t num_labels, std::string* out) {
  if (num_labels > kMaxLabels) return invalid("num_labels is %zu; at most %zu", num_labels, kMaxLabels);
  if (labels == nullptr && num_labels != 0)
    return invalid("labels is NULL and num_labels is %zu", num_labels);
  std::vector<const kvc_label*> sorted;
  for (size_t i = 0; i < num_labels; ++i) {
    KVC_TRY(check_label(labels[i], i));
    sorted.push_back(&labels[i]);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const kvc_label* a, const kvc_label* b) { return std::strcmp(a->name, b->name) < 0; });
  out->clear();
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i != 0 && std::strcmp(sorted[i]->name, sorted[i - 1]->name) == 0)
      return invalid("two labels have the name \"%.64s\"; give it once", sorted[i]->name);
    if (i != 0) *out += ',';
    *out += sorted[i]->name;
    *out += "=\"";
    for (const char* c = sorted[i]->value; *c != 0; ++c) {
      if (*c == '\n') {
        *out += "\\n";
        continue;
      }
      if (*c == '\\' || *c == '"') *out += '\\';
      *out += *c;
    }
    *out += '"';
    if (out->size() > kMaxBytes) return invalid("the labels have more than %zu bytes", kMaxBytes);
  }
  return KVC_OK;
}

}  // namespace kvc
