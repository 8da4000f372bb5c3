// SPDX-License-Identifier: Apache-2.0
// Whether what a manifest says can be: a file may have right checksums and come from anywhere.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/status.h"
#include "checkpoint/manifest.h"
#include "manager/cross.h"
#include "manager/prompts.h"
#include "prefix/namespace_table.h"
#include "prefix/retention.h"

namespace kvc {
namespace {

class ManifestCheck {
 public:
  ManifestCheck(const char* name, const Manifest& manifest)
      : name_(name), manifest_(manifest), contents_(manifest.contents) {}

  kvc_status run() {
    KVC_TRY(check_groups());
    KVC_TRY(check_namespaces());
    KVC_TRY(check_positions());
    KVC_TRY(check_pools());
    KVC_TRY(check_pages());
    KVC_TRY(check_prompts());
    KVC_TRY(check_quotas());
    return check_requests();
  }

 private:
  kvc_status wrong(const char* what, uint64_t index) const {
    return fail(KVC_ERROR_CORRUPT, "%s: %s %llu is not possible; the file is damaged", name_, what,
                ull(index));
  }

  kvc_status check_groups() const {
    if (contents_.block_size == 0 || contents_.block_size > kMaxPageTokens)
      return wrong("block_size", contents_.block_size);
    if (contents_.num_groups == 0 || contents_.pools.empty()) return wrong("the number of groups", 0);
    if (contents_.lists.has_levels > 1) return wrong("has_levels", contents_.lists.has_levels);
    if (!(contents_.lists.policy_weight >= 0 && contents_.lists.policy_weight <= 1e30))
      return wrong("the weight of the policy", 0);
    for (size_t g = 0; g < manifest_.groups.size(); ++g) {
      const Manifest::Group& group = manifest_.groups[g];
      if (group.pool >= contents_.pools.size()) return wrong("the pool of group", g);
      if (group.has_pages != 0 && (group.part_bytes == 0 || group.part_bytes > PTRDIFF_MAX / 2))
        return wrong("the page of group", g);
    }
    return KVC_OK;
  }

  kvc_status check_namespaces() const {
    const auto& all = contents_.namespaces;
    if (all.empty() || all.size() > NamespaceTable::kMaxNamespaces)
      return wrong("the number of namespaces", all.size());
    std::unordered_set<std::string> known;
    for (size_t i = 0; i < all.size(); ++i) {
      const std::string& identity = all[i].identity;
      const bool right =
          i == 0 ? identity.empty() : NamespaceTable::is_framed(identity.data(), identity.size());
      if (!right || all[i].opens == 0 || all[i].epoch >= NamespaceTable::kMaxResets ||
          !known.insert(identity).second)
        return wrong("namespace", i);
      if (all[i].digest != NamespaceTable::digest_of_identity(identity.data(), identity.size()))
        return wrong("the digest of namespace", i);
    }
    return KVC_OK;
  }

  kvc_status check_positions() const {
    const auto& all = contents_.positions;
    const uint32_t block_size = contents_.block_size;
    if (all.size() > INT32_MAX / 2) return wrong("the number of positions", all.size());
    if (contents_.tokens.size() != all.size() * block_size)
      return wrong("the number of tokens", contents_.tokens.size());
    uint32_t cross_groups = 0;
    for (size_t g = 0; g < manifest_.groups.size(); ++g)
      cross_groups |= uint32_t{manifest_.groups[g].kind == KVC_GROUP_CROSS} << g;
    const uint32_t groups = manifest_.groups.size() == 32 ? UINT32_MAX : (1u << manifest_.groups.size()) - 1;
    for (size_t i = 0; i < all.size(); ++i) {
      const Contents::Position& position = all[i];
      if (position.ns >= contents_.namespaces.size() || position.parent < -1 ||
          position.parent >= static_cast<int64_t>(i) || (position.resident & ~groups) != 0 ||
          position.level >= kNumLevels || position.uses > 255 || position.spare != 0) {
        return wrong("position", i);
      }
      const bool root = position.parent < 0;
      const Contents::Position& parent = all[root ? i : static_cast<size_t>(position.parent)];
      if (position.ns != parent.ns || position.depth != (root ? 0 : parent.depth + 1) ||
          position.depth >= UINT32_MAX / block_size) {
        return wrong("position", i);
      }
      // A position is of an encoder, with placeholder tokens and blocks of cross groups, or of a prompt.
      const int32_t* const tokens = contents_.tokens_of(i);
      const bool encoder = tokens[0] == kCrossToken;
      const uint32_t others = encoder ? ~cross_groups : cross_groups;
      if ((position.resident & others) != 0 || (encoder && cross_groups == 0) ||
          (!root && encoder != (contents_.tokens_of(static_cast<size_t>(position.parent))[0] == kCrossToken)))
        return wrong("position", i);
      for (uint32_t t = 0; t < block_size; ++t) {
        if (encoder ? tokens[t] != kCrossToken : tokens[t] < 0)
          return wrong("token", static_cast<uint32_t>(tokens[t]));
      }
      KVC_TRY(check_spans(i, position));
    }
    return KVC_OK;
  }

  kvc_status check_spans(size_t index, const Contents::Position& position) const {
    const uint64_t count = contents_.spans.size();
    if (position.first_span > count || position.num_spans > count - position.first_span ||
        position.num_spans > most_keys_of_block(contents_.block_size))
      return wrong("the extra keys of position", index);
    const auto block_size = static_cast<int64_t>(contents_.block_size);
    const int64_t first = int64_t{position.depth} * block_size;
    std::vector<kvc_extra_key> keys(position.num_spans);
    for (uint32_t i = 0; i < position.num_spans; ++i) {
      const ExtraSpan& span = contents_.spans[position.first_span + i];
      if (span.offset < -first || span.offset >= block_size || span.length == 0 || span.length > UINT32_MAX ||
          span.offset + static_cast<int64_t>(span.length) <= 0) {
        return wrong("the extra keys of position", index);
      }
      keys[i] = {static_cast<uint64_t>(first + span.offset), span.length, {}};
      std::memcpy(keys[i].digest, span.digest, sizeof span.digest);
    }
    std::vector<ExtraKey> ordered(keys.size());
    bool good = order_keys(keys.data(), keys.size(), ordered.data()) == keys.size() &&
                link_keys(ordered.data(), 0, ordered.size()) == kNoToken;
    for (size_t i = 0; good && i < keys.size(); ++i) {
      const kvc_extra_key key = ordered[i].plain();
      good = std::memcmp(&key, &keys[i], sizeof key) == 0;
    }
    return good ? KVC_OK : wrong("the extra keys of position", index);
  }

  kvc_status check_pools() const {
    std::vector<uint32_t> seen(contents_.positions.size(), 0);
    uint64_t end = 0;
    for (size_t p = 0; p < contents_.pools.size(); ++p) {
      const Contents::Pool& pool = contents_.pools[p];
      if (pool.first < end || pool.size > INT32_MAX || pool.first > INT32_MAX - pool.size ||
          pool.blocks.size() + pool.free.size() > pool.size)
        return wrong("pool", p);
      end = pool.first + pool.size;
      std::vector<int32_t> ids = pool.free;
      bool in_use = false;
      for (size_t i = 0; i < pool.blocks.size(); ++i) {
        const Contents::Cached& cached = pool.blocks[i];
        if (cached.position >= seen.size() || cached.group >= manifest_.groups.size() ||
            manifest_.groups[cached.group].pool != p || cached.level >= kNumLevels ||
            cached.shelf >= Policy::kMaxShelves || cached.in_use > 1 || (in_use && cached.in_use == 0) ||
            cached.age > UINT64_MAX / 8) {
          return wrong("a block of pool", p);
        }
        in_use = cached.in_use != 0;
        const uint32_t bit = 1u << cached.group;
        if ((seen[cached.position] & bit) != 0 || (contents_.positions[cached.position].resident & bit) == 0)
          return wrong("a block of pool", p);
        seen[cached.position] |= bit;
        ids.push_back(cached.block);
      }
      std::sort(ids.begin(), ids.end());
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < static_cast<int64_t>(pool.first) || ids[i] >= static_cast<int64_t>(end) ||
            (i != 0 && ids[i] == ids[i - 1]))
          return wrong("a block id of pool", p);
      }
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] != contents_.positions[i].resident) return wrong("the blocks of position", i);
    }
    return KVC_OK;
  }

  kvc_status check_pages() const {
    for (size_t i = 0; i < manifest_.files.size(); ++i) {
      const Manifest::DataFile& file = manifest_.files[i];
      if (file.id == 0 || file.id > manifest_.id || file.bytes < kDataHeaderBytes || file.bytes > INT64_MAX ||
          file.bytes % kDataHeaderBytes != 0 || file.reserved != 0 || manifest_.codecs[i].size() > 15 ||
          (i != 0 && file.id >= manifest_.files[i - 1].id)) {
        return wrong("data file", i);
      }
    }
    size_t index = 0;
    std::vector<const Manifest::Page*> order;
    order.reserve(manifest_.pages.size());
    for (const Contents::Pool& pool : contents_.pools) {
      for (const Contents::Cached& cached : pool.blocks) {
        if (index == manifest_.pages.size()) return wrong("the number of pages", index);
        const Manifest::Page& page = manifest_.pages[index++];
        const Manifest::Group& group = manifest_.groups[cached.group];
        if (page.reserved != 0 || page.compressed > 1) return wrong("page", index - 1);
        if (group.has_pages == 0) {
          if (page.file != Manifest::kNoFile) return wrong("page", index - 1);
          continue;
        }
        if (page.file >= manifest_.files.size() || page.offset < kDataHeaderBytes ||
            page.offset > manifest_.files[page.file].bytes ||
            page.stored_bytes > manifest_.files[page.file].bytes - page.offset || page.stored_bytes == 0 ||
            (page.compressed != 0 ? page.stored_bytes >= group.part_bytes
                                  : page.stored_bytes != group.part_bytes)) {
          return wrong("page", index - 1);
        }
        order.push_back(&page);
      }
    }
    if (index != manifest_.pages.size()) return wrong("the number of pages", manifest_.pages.size());
    std::sort(order.begin(), order.end(), [](const Manifest::Page* a, const Manifest::Page* b) {
      return a->file != b->file ? a->file < b->file : a->offset < b->offset;
    });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i]->file == order[i - 1]->file &&
          order[i]->offset < order[i - 1]->offset + order[i - 1]->stored_bytes)
        return wrong("the place of page", i);
    }
    return KVC_OK;
  }

  kvc_status check_prompts() const {
    std::unordered_set<std::string> known;
    std::unordered_set<uint32_t> indices;
    for (size_t i = 0; i < contents_.prompts.size(); ++i) {
      const Contents::NamedPrompt& prompt = contents_.prompts[i];
      if (prompt.name.empty() || prompt.name.size() > Prompts::kLongestName ||
          prompt.name.find('\0') != std::string::npos || !known.insert(prompt.name).second ||
          !indices.insert(prompt.index).second || prompt.ns >= contents_.namespaces.size() ||
          prompt.tokens.size() > UINT32_MAX || prompt.keys.size() > UINT32_MAX ||
          prompt.num_pinned > prompt.tokens.size() / contents_.block_size) {
        return wrong("registered prompt", i);
      }
    }
    return KVC_OK;
  }

  kvc_status check_quotas() const {
    std::unordered_map<uint32_t, uint32_t> class_of, ns_of;
    std::unordered_set<uint64_t> known;
    for (size_t i = 0; i < contents_.quotas.size(); ++i) {
      const Contents::Quota& quota = contents_.quotas[i];
      if (quota.ns >= contents_.namespaces.size() || quota.cls == 0 || quota.cls > Quotas::kMaxQuotas ||
          quota.pool >= contents_.pools.size() || quota.spare != 0 || quota.min > INT32_MAX ||
          (quota.max != Quotas::kNoMaximum && (quota.max > INT32_MAX || quota.min > quota.max)) ||
          class_of.emplace(quota.ns, quota.cls).first->second != quota.cls ||
          ns_of.emplace(quota.cls, quota.ns).first->second != quota.ns ||
          !known.insert(uint64_t{quota.cls} << 32 | quota.pool).second) {
        return wrong("quota", i);
      }
    }
    return KVC_OK;
  }

  kvc_status check_requests() const {
    if (contents_.bonds.size() != contents_.requests.size())
      return wrong("the number of bonds of requests", contents_.bonds.size());
    for (size_t i = 0; i < contents_.bonds.size(); ++i) {
      if (contents_.bonds[i].prompt > contents_.prompts.size()) return wrong("the prompt of request", i);
    }
    for (const int32_t token : contents_.request_tokens) {
      if (token < 0) return wrong("token", static_cast<uint32_t>(token));
    }
    const uint64_t tokens = contents_.request_tokens.size(), keys = contents_.request_keys.size();
    for (size_t i = 0; i < contents_.requests.size(); ++i) {
      const Contents::WaitingRequest& request = contents_.requests[i];
      if (request.ns >= contents_.namespaces.size() || request.first_token > tokens ||
          request.num_tokens > tokens - request.first_token || request.first_key > keys ||
          request.num_keys > keys - request.first_key || request.flags > 63 || request.headroom > 255 ||
          request.prompt_tokens > request.num_tokens || request.committed > request.num_tokens ||
          request.external_tokens > UINT32_MAX || request.slots > UINT32_MAX ||
          request.lookahead > UINT32_MAX) {
        return wrong("request", i);
      }
    }
    return KVC_OK;
  }

  const char* name_;
  const Manifest& manifest_;
  const Contents& contents_;
};

}  // namespace

kvc_status check_manifest(const char* name, const Manifest& manifest) {
  return ManifestCheck(name, manifest).run();
}

}  // namespace kvc
