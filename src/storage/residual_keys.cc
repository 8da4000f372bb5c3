// SPDX-License-Identifier: Apache-2.0
#include "storage/residual_keys.h"

#include <algorithm>
#include <bit>

#include "quant/convert.h"
#include "storage/channel_keys.h"

namespace kvc {

uint64_t residual_key_bytes(const Layout& layout, uint32_t residual_blocks) {
  return uint64_t{residual_blocks} * layout.num_layers * layout.num_heads * layout.block_size * layout.k_dim *
         sizeof(uint16_t);
}

bool ResidualKeys::create(const Layout& layout, char* slab, Memory& memory, uint32_t residual_blocks,
                          size_t num_workers, bool empty) {
  if (layout.slab_bytes > PTRDIFF_MAX / 16) return false;  // below, no product of its sizes overflows
  layout_ = &layout;
  slab_ = slab;
  residual_blocks_ = residual_blocks;
  words_ = ceil_div(layout.block_size, 64);
  const size_t areas = size_t{layout.num_layers} * residual_blocks;
  if (!state_.create(memory, layout.num_layers * layout.num_blocks) ||
      !areas_.create(memory, areas + layout.num_layers) || !stored_.create(memory, areas * words_) ||
      !rows_.create(memory, residual_key_bytes(layout, residual_blocks) / sizeof(uint16_t)) ||
      !scratch_.create(memory, num_workers * head_elements()))
    return false;
  if (!empty) std::fill_n(state_.data(), state_.size(), uint32_t{kQuantized});
  for (uint32_t l = 0; l < layout.num_layers; ++l) {
    for (uint32_t i = 0; i <= residual_blocks; ++i) {
      area(l, i).next = i == residual_blocks ? 0 : i + 1;
      area(l, i).prev = i == 0 ? residual_blocks : i - 1;
    }
  }
  return true;
}

bool ResidualKeys::is_residual(uint64_t block) const {
  for (uint32_t l = 0; l < layout_->num_layers; ++l) {
    if (state_[l * layout_->num_blocks + block] >= kFirstArea) return true;
  }
  return false;
}

void ResidualKeys::place(uint32_t layer, uint32_t i, uint32_t after) {
  Area& moved = area(layer, i);
  area(layer, moved.prev).next = moved.next;
  area(layer, moved.next).prev = moved.prev;
  if (after == i) after = moved.prev;  // it stays where it is
  moved.prev = after;
  moved.next = area(layer, after).next;
  area(layer, moved.next).prev = i;
  area(layer, after).next = i;
}

uint32_t ResidualKeys::acquire(uint32_t layer, uint64_t block, bool may_quantize) {
  const uint32_t i = area(layer, residual_blocks_).next;
  if (area(layer, i).pass == pass_ || (area(layer, i).pass != 0 && !may_quantize)) return kNone;
  if (area(layer, i).pass != 0) quantize_layer(layer, area(layer, i).block);
  area(layer, i).block = block;
  area(layer, i).pass = pass_;
  place(layer, i, area(layer, residual_blocks_).prev);
  return i;
}

void ResidualKeys::release(uint32_t layer, uint64_t block, State to) {
  uint32_t& now = state(layer, block);
  if (now >= kFirstArea) {
    area(layer, now - kFirstArea).pass = 0;
    place(layer, now - kFirstArea, residual_blocks_);
  }
  now = to;
}

void ResidualKeys::quantize_head(uint32_t layer, uint64_t block, uint32_t head, float* scratch) {
  to_float(KVC_BFLOAT16, find(layer, block, head, 0), scratch, head_elements());
  quantize_keys(*layout_, slab_, layer, block, head, scratch);
}

void ResidualKeys::quantize_layer(uint32_t layer, uint64_t block) {
  for (uint32_t h = 0; h < layout_->num_heads; ++h) quantize_head(layer, block, h, scratch_.data());
  release(layer, block, kQuantized);
}

void ResidualKeys::quantize(uint64_t block) {
  for (uint32_t l = 0; l < layout_->num_layers; ++l) {
    if (state(l, block) >= kFirstArea) quantize_layer(l, block);
  }
}

void ResidualKeys::clear(uint64_t block) {
  for (uint32_t l = 0; l < layout_->num_layers; ++l) release(l, block, kEmpty);
}

void ResidualKeys::replace(uint64_t block) {
  for (uint32_t l = 0; l < layout_->num_layers; ++l) release(l, block, kQuantized);
}

void ResidualKeys::copy(uint64_t source, uint64_t destination) {
  for (uint32_t l = 0; l < layout_->num_layers; ++l) {
    release(l, destination, kEmpty);
    ++pass_;
    if (state(l, source) >= kFirstArea) {
      const uint32_t from = state(l, source) - kFirstArea;
      area(l, from).pass = pass_;  // its own copy must not quantize it
      place(l, from, area(l, residual_blocks_).prev);
      const uint32_t to = acquire(l, destination, true);
      if (to == kNone) {  // there is only one area
        quantize_layer(l, source);
      } else {
        std::copy_n(area_row(l, from, 0), layout_->num_heads * head_elements(), area_row(l, to, 0));
        std::copy_n(stored(l, from), words_, stored(l, to));
        state(l, destination) = kFirstArea + to;
        continue;
      }
    }
    state(l, destination) = state(l, source);
  }
}

// Area i takes over what the block holds. In a quantized block, the tokens before the first that is stored
// now count as stored.
void ResidualKeys::take_over(uint32_t layer, uint64_t block, uint32_t i, uint64_t first_token) {
  std::fill_n(stored(layer, i), words_, 0);
  if (state(layer, block) == kEmpty) {
    std::fill_n(area_row(layer, i, 0), layout_->num_heads * head_elements(), uint16_t{0});
  } else {
    alignas(64) float row[kMaxRowElements];
    for (uint32_t h = 0; h < layout_->num_heads; ++h) {
      for (uint32_t t = 0; t < layout_->block_size; ++t) {
        read_quantized_key(*layout_, slab_, layer, block, h, t, layout_->k_dim, row);
        from_float(KVC_BFLOAT16, row, area_row(layer, i, h) + size_t{t} * layout_->k_dim, layout_->k_dim);
      }
    }
    for (uint64_t t = 0; t < first_token; ++t) stored(layer, i)[t / 64] |= uint64_t{1} << t % 64;
  }
  state(layer, block) = kFirstArea + i;
}

// Finds the end of the run and an area for its rows; false: not in this pass.
bool ResidualKeys::plan(uint32_t layer, const kvc_backend_rows& rows, bool may_quantize, Run* run) {
  const uint64_t size = layout_->block_size;
  uint64_t first = size, count = 0;
  bool in_order = true;
  size_t end = run->begin;
  for (; end < rows.num_tokens; ++end) {
    const int64_t slot = slot_of(rows, layout_->block_size, end);
    if (slot < 0 || static_cast<uint64_t>(slot) / size != run->block) break;
    const uint64_t token = static_cast<uint64_t>(slot) % size;
    in_order &= token == count++;
    first = std::min(first, token);
  }
  run->end = end;
  run->area = kNone;
  run->complete = in_order && count == size;
  if (run->complete) {
    release(layer, run->block, kQuantized);
    return true;
  }
  if (const uint32_t now = state(layer, run->block); now >= kFirstArea) {
    run->area = now - kFirstArea;
    area(layer, run->area).pass = pass_;
    place(layer, run->area, area(layer, residual_blocks_).prev);
  } else {
    run->area = acquire(layer, run->block, may_quantize);
    if (run->area == kNone) return false;
    take_over(layer, run->block, run->area, first);
  }
  uint64_t* bits = stored(layer, run->area);
  for (size_t i = run->begin; i < end; ++i) {
    const uint64_t token = static_cast<uint64_t>(slot_of(rows, layout_->block_size, i)) % size;
    bits[token / 64] |= uint64_t{1} << token % 64;
  }
  uint64_t missing = size;
  for (size_t w = 0; w < words_; ++w) missing -= static_cast<uint64_t>(std::popcount(bits[w]));
  run->complete = missing == 0;
  return true;
}

void ResidualKeys::write(uint32_t layer, const Run& run, uint32_t head, const RowArray& from,
                         const kvc_backend_rows& rows, float* scratch) {
  const uint32_t dim = layout_->k_dim;
  alignas(64) float values[kMaxRowElements];
  alignas(64) char rotated[kMaxRowElements * sizeof(float)];
  uint16_t rounded[kMaxRowElements];
  for (size_t t = run.begin; t < run.end; ++t) {
    const uint64_t token = static_cast<uint64_t>(slot_of(rows, layout_->block_size, t)) % layout_->block_size;
    to_float(from.dtype, from.row_to_store(t, head, dim, rotated), values, dim);
    hadamard_row(*layout_, values, dim);
    uint16_t* to = run.area == kNone ? rounded : area_row(layer, run.area, head) + token * dim;
    from_float(KVC_BFLOAT16, values, to, dim);
    if (run.area == kNone) to_float(KVC_BFLOAT16, rounded, scratch + token * dim, dim);
  }
  if (run.area == kNone) {
    quantize_keys(*layout_, slab_, layer, run.block, head, scratch);
  } else if (run.complete) {
    quantize_head(layer, run.block, head, scratch);
  }
}

// Works in passes of a few blocks, each at most once: plans them one by one, then all workers write.
void ResidualKeys::store(uint32_t layer, const RowArray& from, const kvc_backend_rows& rows,
                         WorkerPool& workers) {
  constexpr size_t kRuns = 64;
  Run runs[kRuns];
  for (size_t t = 0; t < rows.num_tokens;) {
    ++pass_;
    size_t count = 0;
    bool frees = false;  // the pass frees an area at its end: until then, no block is quantized early
    while (count < kRuns && t < rows.num_tokens) {
      const int64_t slot = slot_of(rows, layout_->block_size, t);
      if (slot < 0) {
        ++t;
        continue;
      }
      Run& run = runs[count];
      run.block = static_cast<uint64_t>(slot) / layout_->block_size;
      run.begin = t;
      const bool again =
          std::any_of(runs, runs + count, [&](const Run& other) { return other.block == run.block; });
      if (again || !plan(layer, rows, !frees, &run)) break;
      frees |= run.complete && run.area != kNone;
      ++count;
      t = run.end;
    }
    const uint32_t heads = layout_->num_heads;
    workers.for_each(count * heads, [&](size_t i, size_t worker) {
      write(layer, runs[i / heads], static_cast<uint32_t>(i % heads), from, rows,
            scratch_.data() + worker * head_elements());
    });
    for (size_t i = 0; i < count; ++i) {
      if (runs[i].complete) release(layer, runs[i].block, kQuantized);
    }
  }
}

}  // namespace kvc
