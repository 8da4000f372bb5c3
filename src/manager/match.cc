// SPDX-License-Identifier: Apache-2.0
// How long is the hit: the longest length that every group can serve. Works on residency masks along a known
// path, so that the same rules serve admissions, probes, pins and external prefixes.
#include "manager/manager.h"

namespace kvc {

// Longest length <= limit whose window and sinks are all resident in a sliding-window group.
size_t Manager::longest_window(uint32_t group, size_t limit, const uint32_t* residents) const {
  const GroupShape& shape = shape_.groups[group];
  const uint32_t bit = 1u << group;
  size_t sinks = 0;
  while (sinks < shape.sinks && sinks < limit && (residents[sinks] & bit) != 0) ++sinks;
  if (sinks < shape.sinks && sinks < limit) limit = sinks;

  size_t length = limit;
  size_t run_begin = length;  // positions [run_begin, length) are resident
  while (length != 0) {
    const size_t needed = shape.window_start(length * shape_.block_size, shape_.block_size);
    if (run_begin <= needed) break;
    if ((residents[run_begin - 1] & bit) != 0) {
      --run_begin;
    } else {
      length = --run_begin;
    }
  }
  return length;
}

// Largest length <= positions that does not end inside an extra key's span.
size_t Manager::cut(const TokenSpan& tokens, size_t positions) const {
  if (tokens.num_keys == 0) return positions;
  return cut_at_spans(tokens.keys, tokens.num_keys, positions * shape_.block_size, shape_.block_size) /
         shape_.block_size;
}

// Every constraint only shortens, so the first length that all accept is the longest.
size_t Manager::longest_common(size_t limit, const uint32_t* residents, const TokenSpan& keys,
                               uint32_t groups) const {
  const uint32_t full = groups & shape_.full_groups;
  size_t length = 0;
  while (length < limit && (residents[length] & full) == full) ++length;
  for (;;) {
    const size_t before = length;
    for (uint32_t windows = groups & shape_.window_groups; windows != 0; windows &= windows - 1) {
      length = longest_window(static_cast<uint32_t>(__builtin_ctz(windows)), length, residents);
    }
    length = cut(keys, length);
    if (length == before) return length;
  }
}

uint32_t Manager::lost_positions(size_t known, size_t length, const uint32_t* residents,
                                 uint32_t groups) const {
  size_t best = length;
  for (uint32_t rest = groups; rest != 0; rest &= rest - 1) {
    const size_t alone = longest_common(known, residents, TokenSpan{}, rest & -rest);
    if (alone > best) best = alone;
  }
  return static_cast<uint32_t>(best - length);
}

size_t Manager::match(const Prompt& prompt, size_t limit, uint32_t groups, uint32_t drop, NodeId* path,
                      uint32_t* residents, uint32_t* lost) {
  const TokenSpan keys{nullptr, 0, prompt.keys, prompt.num_keys};
  const bool one_full_group = (groups & shape_.window_groups) == 0 && (groups & (groups - 1)) == 0;
  if (lost != nullptr) *lost = 0;
  if (one_full_group) {
    size_t length = cut(keys, tree_.walk(prompt, limit, groups, path));
    if (drop != 0) length = cut(keys, length < drop ? 0 : length - drop);
    return length;
  }
  const size_t known = tree_.walk(prompt, limit, 0, path);
  for (size_t i = 0; i < known; ++i) residents[i] = tree_[path[i]].resident;
  size_t length = longest_common(known, residents, keys, groups);
  if (lost != nullptr) {
    *lost = lost_positions(known, longest_common(known, residents, TokenSpan{}, groups), residents, groups);
  }
  if (drop != 0) length = longest_common(length < drop ? 0 : length - drop, residents, keys, groups);
  return length;
}

bool Manager::reserve_scratch(size_t positions) {
  return path_.reserve(arena_, positions, 0) && residents_.reserve(arena_, positions, 0);
}

}  // namespace kvc
