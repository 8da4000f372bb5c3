// SPDX-License-Identifier: Apache-2.0
// What the pages of a fingerprint are of, in words, kept beside them: so that who finds pages of another one
// can say which field differs. A description is lines "field: value" of printable ASCII. It explains, and
// decides nothing: whoever may write to the place may have written it, so readers clean it. Thread-safe.
//
// A slab has four, in the sector of its header; a new one takes the place of the oldest. A folder has one
// file for each, <fingerprint>.txt. Who opens the place removes those that no page has any more.
#pragma once
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "tier/page.h"
#include "tier/slab_format.h"

namespace kvc {

inline constexpr size_t kMostDescription = 944;

struct DigestOrder {
  bool operator()(const Digest256& a, const Digest256& b) const {
    return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) < 0;
  }
};
using Fingerprints = std::set<Digest256, DigestOrder>;

struct PageDescription {
  Digest256 fingerprint;
  std::string text;  // clean
};

// Of the pages of several groups; what the others have as the first one has is not repeated.
std::string describe_pages(const PageSource& source, const PageShape* shapes, size_t num_shapes);
// Of bytes that anybody may have written: what is not printable is escaped; of what is too long the last
// lines are left out, for which there is a line "...".
std::string clean_description(const char* text, size_t size);
// The first field that differs and both values: `weights is "v1" there and "v2" here`. Empty: none does. What
// a description that was cut does not have is unknown, and told if nothing else differs.
std::string describe_difference(const std::string& there, const std::string& here);

// The same of several: of the description with the fewest differences that is not of `own`.
std::string describe_difference(const std::vector<PageDescription>& there, const Digest256& own,
                                const std::string& here);

// Of a slab. What does not check is left out.
std::vector<PageDescription> read_slab_descriptions(Files& files, int slab);
int write_slab_description(Files& files, int slab, const Digest256& fingerprint, const std::string& text);
int remove_slab_description(Files& files, int slab, const Digest256& fingerprint);

// Of a folder.
std::vector<PageDescription> read_folder_descriptions(Files& files, int folder);
std::string read_folder_description(Files& files, int folder, const Digest256& fingerprint);
int write_folder_description(Files& files, int folder, const Digest256& fingerprint, const std::string& text);
// If nobody has written it for so long: an engine that has just begun has stored nothing yet.
int remove_folder_description(Files& files, int folder, const Digest256& fingerprint, int64_t least_age_s);

}  // namespace kvc
