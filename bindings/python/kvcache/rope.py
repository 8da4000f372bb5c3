# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of queries and keys: angles of a model, tables of cosines and sines, turning rows in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _native
from ._arrays import as_bytes, contiguous, float_type, np

if TYPE_CHECKING:
    import numpy

    from .models import Model


def rope_frequencies(model: "Model", layer: int = 0, length: int = 0, factors: "Optional[numpy.ndarray]" = None) -> "tuple[numpy.ndarray, float]":
    """(radians per position of each pair, float64 [rope_dim / 2]; attention factor) of a layer: kvc_model_rope. length: tokens of the sequence,
    for dynamic scaling. factors: float64 [rope_dim / 2] of the model's config.json, for LongRoPE. Raises UnsupportedError without them there."""
    if factors is not None:
        factors = np.ascontiguousarray(factors, np.float64)
        pairs = (model.rope_dim or model.head_dim) // 2
        if len(factors) != pairs:
            raise ValueError(f"factors has {len(factors)} entries; the model turns {pairs} pairs")
    frequencies, attention_factor = np.empty((model.rope_dim or model.head_dim) // 2), np.empty(1)
    _native.kvc_model_rope(model._model, layer, length, as_bytes(factors), as_bytes(frequencies), as_bytes(attention_factor))
    return frequencies, float(attention_factor[0])


def rope_table(frequencies: "numpy.ndarray", positions: "numpy.ndarray | int", attention_factor: float = 1.0) -> "numpy.ndarray":
    """Cosines and sines for apply_rope: float32 [positions, 2, pairs]. positions: int64 [n], or a number n for 0 .. n - 1."""
    frequencies = np.ascontiguousarray(frequencies, np.float64)
    given = None if isinstance(positions, int) else np.ascontiguousarray(positions, np.int64)
    table = np.empty((positions if given is None else len(given), 2, len(frequencies)), np.float32)
    _native.kvc_rope_table(as_bytes(frequencies), attention_factor, given, as_bytes(table))
    return table


def check_table(table: "numpy.ndarray", rows: "Optional[numpy.ndarray]", tokens: int) -> "Optional[numpy.ndarray]":
    """The rows of a table that so many tokens turn by, as the library takes them."""
    if table.ndim != 3:
        raise ValueError(f"table has {table.ndim} dimensions; it must be [rows, 2, pairs]")
    if table.dtype != np.float32:
        raise TypeError(f"table is {table.dtype.name}; it must be float32, from rope_table()")
    contiguous(table, (len(table), 2, table.shape[2]), "table")
    return None if rows is None else contiguous(np.ascontiguousarray(rows, np.int64), (tokens,), "rows")


def apply_rope(x: "numpy.ndarray", table: "numpy.ndarray", rows: "Optional[numpy.ndarray]" = None, *, first_element: int = 0,
               interleaved: bool = False) -> "numpy.ndarray":
    """Turns queries or keys in place, and returns them: kvc_rope_apply.

    x: [tokens, heads, head_dim], float32, float16, or bfloat16 as uint16 bits. table: of rope_table(). rows: int64 [tokens], the table's
    row of each token; None: row t for token t. Elements first_element .. first_element + 2 * pairs - 1 of each head turn, element i with
    i + pairs, or, interleaved, 2 i with 2 i + 1."""
    if x.ndim != 3:
        raise ValueError(f"x has {x.ndim} dimensions; it must be [tokens, heads, head_dim]")
    contiguous(x, x.shape, "x")
    rows = check_table(table, rows, len(x))
    struct = _native.kvc_rope_rows()
    struct.num_heads, struct.head_dim, struct.dtype = x.shape[1], x.shape[2], float_type(x, "x")
    struct.rope_dim, struct.first_element = 2 * table.shape[2], first_element
    struct.flags = _native.KVC_ROPE_ROWS_INTERLEAVED if interleaved else 0
    _native.kvc_rope_apply(struct, as_bytes(x), len(x), as_bytes(table), rows)
    return x
