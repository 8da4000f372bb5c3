// SPDX-License-Identifier: Apache-2.0
#include "property/bytes.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace {

uint64_t mix(uint64_t chain, uint64_t value) {
  chain = (chain ^ value) * 0x9e3779b97f4a7c15u;
  return chain ^ (chain >> 29);
}

// The chain goes on by a token and the part of an extra key that lies over it.
uint64_t extend(uint64_t chain, const model::Letter& letter) {
  chain = mix(chain, static_cast<uint64_t>(letter.token) + 1);
  for (const model::Part& part : letter.parts)
    chain = mix(mix(mix(chain, static_cast<uint64_t>(part.digest)), part.length), part.offset);
  return chain;
}

void demand(kvc_status status) {
  if (status == KVC_OK) return;
  std::fprintf(stderr, "the content oracle's storage: %s\n", kvc_last_error());
  std::abort();
}

}  // namespace

Bytes::Bytes(const model::Model& model)
    : model_(model), block_size_(model.config().block_size), author_(model.num_blocks(), kNobody) {
  kvc_storage_config config{};
  config.struct_size = sizeof config;
  config.num_blocks = model.num_blocks();
  config.num_layers = config.num_heads = 1;
  config.head_dim = 2;
  config.block_size = static_cast<uint32_t>(block_size_);
  config.dtype = KVC_FLOAT32;
  demand(kvc_storage_create(&config, &storage_));
}

Bytes::~Bytes() { kvc_storage_destroy(storage_); }

// 24 bits per element, so that each is a plain number; never all zero.
Bytes::Row Bytes::row_of(uint64_t chain, uint64_t group) {
  const uint64_t a = mix(chain, group + 1), b = mix(a, 1);
  const auto number = [](uint64_t bits) { return static_cast<float>((bits & 0xffffff) | 1); };
  return {{number(a), number(a >> 24)}, {number(b), number(b >> 24)}};
}

std::vector<uint64_t> Bytes::chains(uint64_t ns, uint64_t epoch, const model::Text& text,
                                    uint64_t count) const {
  std::vector<uint64_t> out(count);
  uint64_t chain = mix(mix(1, ns), epoch);
  for (uint64_t t = 0; t < count; ++t) {
    model::Letter letter{text.tokens[t], {}};
    for (const model::Span& span : text.spans)
      if (span.covers(t)) letter.parts.push_back({span.digest, span.count, t - span.first});
    if (text.origin && t == 0) letter.parts.push_back({text.origin, 1, 0});
    letter.order();
    out[t] = chain = extend(chain, letter);
  }
  return out;
}

void Bytes::put(uint64_t chain, uint64_t group, int block, uint64_t offset) {
  slots_.push_back(block * static_cast<int64_t>(block_size_) + static_cast<int64_t>(offset));
  rows_.push_back(row_of(chain, group));
}

// The rows of an encoder, which its number tells apart if it is private; of its last block too.
void Bytes::put_cross(const model::Request& request, bool authors) {
  model::Text text;
  text.tokens.assign(model_.up(request.options.cross) * block_size_, -1);
  text.spans = {{0, request.options.cross,
                 request.options.cross_digest ? request.options.cross_digest : request.text.origin}};
  const std::vector<uint64_t> chain = chains(request.options.ns, request.epoch, text, text.tokens.size());
  for (size_t i = 0; i < request.cross.size(); ++i)
    for (size_t t = 0; t < chain.size(); ++t) {
      const int block = request.cross[i][t / block_size_].block;
      put(chain[t], request.table.size() + i, block, t % block_size_);
      if (authors) author_[block] = static_cast<int64_t>(request.options.ns);
    }
}

void Bytes::put_published(int id) {
  const model::Block& block = model_.block(id);
  const model::Key& key = block.at->first;
  uint64_t chain = mix(mix(1, key.ns), key.epoch);
  for (size_t t = 0; t < key.prefix.size(); ++t) {
    chain = extend(chain, key.prefix[t]);
    if (t + 1 == key.prefix.size() && is_state(static_cast<uint64_t>(block.group)))
      put(chain, static_cast<uint64_t>(block.group), id, 0);
    else if (t + block_size_ >= key.prefix.size() && !is_state(static_cast<uint64_t>(block.group)))
      put(chain, static_cast<uint64_t>(block.group), id, t % block_size_);
  }
}

// As arguments of the storage's functions: these rows at slots_.
kvc_rows Bytes::at_slots(std::vector<Row>& of) const {
  kvc_rows rows{};
  rows.struct_size = sizeof rows;
  rows.num_tokens = slots_.size();
  rows.slots = slots_.data();
  rows.k = of.data();
  rows.v = of.empty() ? nullptr : of[0].v;
  rows.k_token_stride = rows.v_token_stride = sizeof(Row) / sizeof(float);
  return rows;
}

void Bytes::flush() {
  const kvc_rows rows = at_slots(rows_);
  if (!slots_.empty()) demand(kvc_storage_store(storage_, &rows, nullptr));
  slots_.clear(), rows_.clear();
}

void Bytes::write(const model::Request& request, uint64_t count, const std::vector<int32_t>& learned) {
  model::Text text = request.text;
  text.tokens.insert(text.tokens.end(), learned.begin(), learned.end());
  if (!request.admitted || count > text.tokens.size() || count > request.capacity) return;  // will be refused
  if (!model_.accepts(request, count, text.tokens)) return;
  copy_pending();
  const std::vector<uint64_t> chain = chains(request.options.ns, request.epoch, text, count);
  if (request.cross_pending && count > request.committed && count > request.cached + request.options.external)
    put_cross(request, true);
  for (size_t g = 0; g < request.table.size(); ++g)
    for (uint64_t t = is_state(g) && count > request.committed ? count - 1 : request.committed; t < count;
         ++t)
      if (const int block = request.table[g][t / block_size_].block; block >= 0) {
        put(chain[t], g, block, is_state(g) ? 0 : t % block_size_);
        author_[block] = static_cast<int64_t>(request.options.ns);
      }
  flush();
}

void Bytes::write_external(const std::vector<int>& blocks, uint64_t ns, uint64_t group,
                           const model::Text& text) {
  if (!model_.epochs.count(ns)) return;
  copy_pending();
  const std::vector<uint64_t> chain = chains(ns, model_.epochs.at(ns), text, text.tokens.size());
  for (size_t j = 0; j < blocks.size() && (j + 1) * block_size_ <= chain.size(); ++j) {
    const int id = blocks[j];
    if (!model_.usable(id) || model_.findable(id)) continue;
    if (model_.block(id).external == 0 || model_.block(id).requests > 0) continue;  // will be refused
    for (size_t i = 0; i < block_size_ && !is_state(group); ++i)
      put(chain[j * block_size_ + i], group, id, i);
    if (is_state(group)) put(chain[(j + 1) * block_size_ - 1], group, id, 0);
    author_[id] = static_cast<int64_t>(ns);
  }
  flush();
}

void Bytes::copy(const std::vector<model::Copy>& copies) {
  std::vector<kvc_block_copy> pairs;
  for (const model::Copy& copy : copies) {
    pairs.push_back({copy.source, copy.destination});
    author_[copy.destination] = author_[copy.source];
  }
  demand(kvc_storage_copy_blocks(storage_, pairs.data(), pairs.size(), nullptr));
}

void Bytes::copy_pending() {
  std::vector<model::Copy> copies;
  for (const model::Copy& pair : model_.pending)
    if (pending_done_.insert(pair.destination).second) copies.push_back(pair);
  copy(copies);
  std::vector<int32_t> zeros;
  for (const int block : model_.zeros)
    if (zeros_done_.insert(block).second) zeros.push_back(block), author_[block] = kNobody;
  demand(kvc_storage_zero_blocks(storage_, zeros.data(), zeros.size(), nullptr));
}

void Bytes::pending_dropped() {
  std::erase_if(pending_done_, [&](int block) {
    return std::none_of(model_.pending.begin(), model_.pending.end(),
                        [&](const model::Copy& pair) { return pair.destination == block; });
  });
}

void Bytes::spoil_fenced() {
  std::vector<int32_t> blocks;
  for (const model::Pool& pool : model_.pools)
    for (const auto& [block, step] : pool.fenced)
      if (!model_.block(block).published) blocks.push_back(block);
  demand(kvc_storage_zero_blocks(storage_, blocks.data(), blocks.size(), nullptr));
}

void Bytes::fill(uint64_t step) {
  for (size_t id = 0; id < model_.num_blocks(); ++id) {
    const model::Block& block = model_.block(static_cast<int>(id));
    if (block.filling != step) continue;
    put_published(static_cast<int>(id));
    author_[id] = static_cast<int64_t>(block.at->first.ns);
  }
  flush();
}

void Bytes::spoil_filling(uint64_t step) {
  std::vector<int32_t> blocks;
  for (size_t id = 0; id < model_.num_blocks(); ++id)
    if (model_.block(static_cast<int>(id)).filling >= step) blocks.push_back(static_cast<int32_t>(id));
  demand(kvc_storage_zero_blocks(storage_, blocks.data(), blocks.size(), nullptr));
}

std::string Bytes::check_authors() {
  if (!model_.config().zero_cross_namespace && !model_.config().zero_always) return "";
  const std::set<int> to_clear(model_.zeros.begin(), model_.zeros.end());  // before anybody writes to them
  // A copy takes a block off the list. If it is listed again, it must be cleared again.
  std::erase_if(zeros_done_, [&](int block) { return !to_clear.count(block); });
  std::set<int> unfinished;
  for (const model::Copy& copy : model_.pending) unfinished.insert(copy.destination);
  for (const auto& [id, request] : model_.requests) {
    model::Table rows = request.table;
    rows.insert(rows.end(), request.cross.begin(), request.cross.end());
    for (const auto& row : rows)
      for (const model::Cell& cell : row) {
        if (cell.block < 0 || unfinished.count(cell.block)) continue;
        int64_t& author = author_[cell.block];
        const auto reader = static_cast<int64_t>(request.options.ns);
        if (author != kNobody && author != reader && !to_clear.count(cell.block))
          return "block " + std::to_string(cell.block) + " comes to namespace " + std::to_string(reader) +
                 " uncleared, written by " +
                 (author == kAnybody ? "a external holder" : std::to_string(author));
        author = reader;
      }
  }
  for (size_t i = 0; i < author_.size(); ++i) {
    const int id = static_cast<int>(i);
    if (!model_.usable(id) || model_.findable(id) || unfinished.count(id)) continue;
    if (model_.block(id).external != 0 && model_.block(id).requests == 0) author_[i] = kAnybody;
  }
  return "";
}

std::string Bytes::check() {
  std::set<int> unfinished;  // copies that are still to be carried out
  for (const model::Copy& pair : model_.pending)
    if (!pending_done_.count(pair.destination)) unfinished.insert(pair.destination);
  for (const auto& [id, request] : model_.requests) {
    if (!request.admitted) continue;
    const std::vector<uint64_t> chain =
        chains(request.options.ns, request.epoch, request.text, request.committed);
    for (size_t g = 0; g < request.table.size(); ++g)
      for (uint64_t t = is_state(g) && request.committed ? request.committed - 1 : 0; t < request.committed;
           ++t)
        if (const int block = request.table[g][t / block_size_].block; block >= 0 && !unfinished.count(block))
          put(chain[t], g, block, is_state(g) ? 0 : t % block_size_);
    if (!request.cross_pending) put_cross(request, false);
  }
  for (size_t id = 0; id < model_.num_blocks(); ++id) {
    if (model_.usable(static_cast<int>(id)) && model_.findable(static_cast<int>(id)))
      put_published(static_cast<int>(id));
  }
  std::vector<Row> found(rows_.size());
  const kvc_rows rows = at_slots(found);
  if (!slots_.empty()) demand(kvc_storage_gather(storage_, &rows, nullptr));
  std::string error;
  for (size_t i = 0; i < rows_.size() && error.empty(); ++i)
    if (std::memcmp(&found[i], &rows_[i], sizeof(Row)) != 0)
      error = "block " + std::to_string(slots_[i] / static_cast<int64_t>(block_size_)) + " token " +
              std::to_string(slots_[i] % static_cast<int64_t>(block_size_)) + " holds other bytes";
  slots_.clear(), rows_.clear();
  return error;
}
