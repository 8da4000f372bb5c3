# SPDX-License-Identifier: Apache-2.0
"""Paged attention of a decode step in Triton, for comparison: what one writes there in an afternoon. The context of a request is split, each part is
a program that holds the query heads of one KV head, and a second kernel merges the parts. It reads the blocks of a storage of libkvcache."""
import torch
import triton
import triton.language as tl


@triton.jit
def attend_part(q, k, v, tables, lens, sums, weights, scale, table_stride, block_stride, head_stride, token_stride,
                KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr,
                TILE: tl.constexpr, PARTS: tl.constexpr):
    request, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lens + request)
    share = tl.cdiv(tl.cdiv(length, TILE), PARTS) * TILE
    first = part * share
    last = tl.minimum(first + share, length)
    rows, dims = tl.arange(0, ROWS), tl.arange(0, DIM)
    row = (request * KV_HEADS + head) * GROUP + rows
    queries = tl.load(q + row[:, None] * DIM + dims[None, :], mask=rows[:, None] < GROUP, other=0.0)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    result = tl.zeros([ROWS, DIM], tl.float32)
    for start in range(first, last, TILE):
        token = start + tl.arange(0, TILE)
        there = token < last
        block = tl.load(tables + request * table_stride + token // PAGE, mask=there, other=0).to(tl.int64)
        place = block * block_stride + head * head_stride + (token % PAGE) * token_stride
        keys = tl.load(k + place[None, :] + dims[:, None], mask=there[None, :], other=0.0)
        logits = tl.where(there[None, :], tl.dot(queries, keys) * scale, float("-inf"))
        new = tl.maximum(largest, tl.max(logits, 1))
        probabilities = tl.exp2(logits - new[:, None])
        shrink = tl.exp2(largest - new)
        values = tl.load(v + place[:, None] + dims[None, :], mask=there[:, None], other=0.0)
        result = result * shrink[:, None] + tl.dot(probabilities.to(values.dtype), values)
        total = total * shrink + tl.sum(probabilities, 1)
        largest = new
    at = row * PARTS + part
    tl.store(sums + at[:, None] * DIM + dims[None, :], result, mask=rows[:, None] < GROUP)
    tl.store(weights + at * 2, largest, mask=rows < GROUP)
    tl.store(weights + at * 2 + 1, total, mask=rows < GROUP)


@triton.jit
def merge_parts(sums, weights, out, DIM: tl.constexpr, PARTS: tl.constexpr, PARTS_ROUNDED: tl.constexpr):
    row = tl.program_id(0)
    parts, dims = tl.arange(0, PARTS_ROUNDED), tl.arange(0, DIM)
    at = row * PARTS + parts
    largest = tl.load(weights + at * 2, mask=parts < PARTS, other=float("-inf"))
    total = tl.load(weights + at * 2 + 1, mask=parts < PARTS, other=0.0)
    weight = tl.exp2(largest - tl.max(largest, 0))
    each = tl.load(sums + at[:, None] * DIM + dims[None, :], mask=parts[:, None] < PARTS, other=0.0)
    merged = tl.sum(each * weight[:, None], 0) / tl.sum(total * weight, 0)
    tl.store(out + row * DIM + dims, merged.to(out.dtype.element_ty))


CONFIGS = [(tile, warps, stages) for tile in (32, 64, 128) for warps in (4, 8) for stages in (2, 3)]


class Decode:
    """Queries q [request][head][element] on planes of a storage, by one of CONFIGS with so many parts of a request."""

    def __init__(self, q, table, lens, page, kv_heads, config, parts):
        self.q, self.table, self.lens, self.page, self.kv_heads, self.config, self.parts = q, table, lens, page, kv_heads, config, parts
        requests, heads, dim = q.shape
        self.sums = torch.empty(requests * heads, parts, dim, dtype=torch.float32, device=q.device)
        self.weights = torch.empty(requests * heads, parts, 2, dtype=torch.float32, device=q.device)
        self.out = torch.empty_like(q)

    def __call__(self, k, v):
        """k, v [block][head][token][element], of equal strides"""
        assert k.stride() == v.stride() and k.stride(3) == 1
        requests, heads, dim = self.q.shape
        group, (tile, warps, stages) = heads // self.kv_heads, self.config
        attend_part[(requests, self.kv_heads, self.parts)](
            self.q, k, v, self.table, self.lens, self.sums, self.weights, dim**-0.5 * 1.4426950408889634, self.table.stride(0), *k.stride()[:3],
            KV_HEADS=self.kv_heads, GROUP=group, ROWS=max(16, triton.next_power_of_2(group)), DIM=dim, PAGE=self.page, TILE=tile,
            PARTS=self.parts, num_warps=warps, num_stages=stages)
        merge_parts[(requests * heads,)](self.sums, self.weights, self.out, DIM=dim, PARTS=self.parts,
                                         PARTS_ROUNDED=triton.next_power_of_2(self.parts))
        return self.out
