# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of queries and keys: frequencies of a model, tables of cosines and sines, rotation of rows in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Protocol

from . import _native
from ._arrays import as_bytes, float_type, np, row_strides, take, whole

if TYPE_CHECKING:
    import numpy

    from ._arrays import Sizes


class HasRope(Protocol):
    """A Model, as rope_frequencies() reads it."""

    _model: Any
    rope_dim: int
    head_dim: int


def rope_frequencies(model: HasRope, layer: int = 0, length: int = 0, factors: Optional[numpy.ndarray] = None) -> tuple[numpy.ndarray, float]:
    """Returns (frequencies, attention factor) of a layer. frequencies: float64 [rope_dim / 2], radians per position of each pair.

    length: tokens of the sequence, for dynamic scaling. factors: float64 [rope_dim / 2] from the model's config.json, for LongRoPE.
    Raises UnsupportedError for LongRoPE without factors."""
    pairs = (model.rope_dim or model.head_dim) // 2
    if factors is not None:
        factors = take("factors", factors, {"pairs": pairs})
    frequencies, attention_factor = np.empty(pairs), np.empty(1)
    _native.kvc_model_rope(model._model, layer, length, as_bytes(factors), as_bytes(frequencies), as_bytes(attention_factor))
    return frequencies, float(attention_factor[0])


def rope_table(frequencies: numpy.ndarray, positions: numpy.ndarray | int, attention_factor: float = 1.0) -> numpy.ndarray:
    """Returns cosines and sines for apply_rope() and Storage.store(): float32 [positions, 2, pairs].

    positions: int64 [n], or a number n for positions 0 .. n - 1."""
    frequencies = take("frequencies", frequencies)
    given = None if isinstance(positions, (int, np.integer)) else take("positions", positions)
    table = np.empty((whole(positions) if given is None else len(given), 2, len(frequencies)), np.float32)
    _native.kvc_rope_table(as_bytes(frequencies), attention_factor, np.arange(len(table)) if given is None else given, as_bytes(table))
    return table


def take_table(name: str, table: Any, rows_name: str, rows: Any, sizes: Sizes) -> tuple[numpy.ndarray, Optional[numpy.ndarray]]:
    """Returns a table, and the rows of it by which the tokens in `sizes` are rotated."""
    return take(name, table), None if rows is None else take(rows_name, rows, sizes)


def apply_rope(x: numpy.ndarray, table: numpy.ndarray, rows: Optional[numpy.ndarray] = None, *, first_element: int = 0,
               interleaved: bool = False) -> numpy.ndarray:
    """Rotates queries or keys in place, and returns them.

    x: [tokens, heads, head_dim], float32, float16, or bfloat16 as uint16 bits. It may be a part of a larger array if its last dimension is
    contiguous and its other strides are positive. table: from rope_table(). rows: int64 [tokens], row of the table for each token; None = row t
    for token t. Elements first_element .. first_element + 2 * pairs - 1 of each head rotate. Elements i and i + pairs form a pair; with
    interleaved, elements 2 i and 2 i + 1. Raises InvalidArgumentError for a row outside the table; then nothing is changed."""
    sizes: Sizes = {}
    rotated = take("x", x, sizes, written=True)
    table, rows = take_table("table", table, "rows", rows, sizes)
    struct = _native.kvc_rope_rows()
    struct.num_heads, struct.head_dim, struct.dtype = rotated.shape[1], rotated.shape[2], float_type(rotated)
    struct.rope_dim, struct.first_element = 2 * table.shape[2], first_element
    struct.flags = _native.KVC_ROPE_ROWS_INTERLEAVED if interleaved else 0
    memory, (struct.token_stride, struct.head_stride) = row_strides(rotated)
    _native.kvc_rope_apply(struct, as_bytes(memory), len(rotated), as_bytes(table), rows)
    return x
