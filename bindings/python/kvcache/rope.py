# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of queries and keys: angles of a model, tables of cosines and sines, turning rows in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _native
from ._arrays import as_bytes, float_type, np, row_strides, take, whole

if TYPE_CHECKING:
    import numpy

    from ._arrays import Sizes
    from .models import Model


def rope_frequencies(model: "Model", layer: int = 0, length: int = 0, factors: "Optional[numpy.ndarray]" = None) -> "tuple[numpy.ndarray, float]":
    """(radians per position of each pair, float64 [rope_dim / 2]; attention factor) of a layer: kvc_model_rope. length: tokens of the sequence,
    for dynamic scaling. factors: float64 [rope_dim / 2] of the model's config.json, for LongRoPE. Raises UnsupportedError without them there."""
    pairs = (model.rope_dim or model.head_dim) // 2
    if factors is not None:
        factors = take("factors", factors, {"pairs": pairs})
    frequencies, attention_factor = np.empty(pairs), np.empty(1)
    _native.kvc_model_rope(model._model, layer, length, as_bytes(factors), as_bytes(frequencies), as_bytes(attention_factor))
    return frequencies, float(attention_factor[0])


def rope_table(frequencies: "numpy.ndarray", positions: "numpy.ndarray | int", attention_factor: float = 1.0) -> "numpy.ndarray":
    """Cosines and sines for apply_rope: float32 [positions, 2, pairs]. positions: int64 [n], or a number n for 0 .. n - 1."""
    frequencies = take("frequencies", frequencies)
    given = None if isinstance(positions, (int, np.integer)) else take("positions", positions)
    table = np.empty((whole(positions) if given is None else len(given), 2, len(frequencies)), np.float32)
    _native.kvc_rope_table(as_bytes(frequencies), attention_factor, given, as_bytes(table))
    return table


def take_table(name: str, table: Any, rows_name: str, rows: Any, sizes: "Sizes") -> "tuple[numpy.ndarray, Optional[numpy.ndarray]]":
    """A table, and the rows of it that the tokens in `sizes` turn by."""
    return take(name, table), None if rows is None else take(rows_name, rows, sizes)


def apply_rope(x: "numpy.ndarray", table: "numpy.ndarray", rows: "Optional[numpy.ndarray]" = None, *, first_element: int = 0,
               interleaved: bool = False) -> "numpy.ndarray":
    """Turns queries or keys in place, and returns them: kvc_rope_apply.

    x: [tokens, heads, head_dim], float32, float16, or bfloat16 as uint16 bits; it may be a part of a larger array, whose last dimension is
    contiguous and whose other strides are positive. table: of rope_table(). rows: int64 [tokens], the table's
    row of each token; None: row t for token t. Elements first_element .. first_element + 2 * pairs - 1 of each head turn, element i with
    i + pairs, or, interleaved, 2 i with 2 i + 1."""
    sizes: "Sizes" = {}
    turned = take("x", x, sizes, written=True)
    table, rows = take_table("table", table, "rows", rows, sizes)
    struct = _native.kvc_rope_rows()
    struct.num_heads, struct.head_dim, struct.dtype = turned.shape[1], turned.shape[2], float_type(turned)
    struct.rope_dim, struct.first_element = 2 * table.shape[2], first_element
    struct.flags = _native.KVC_ROPE_ROWS_INTERLEAVED if interleaved else 0
    memory, (struct.token_stride, struct.head_stride) = row_strides(turned)
    _native.kvc_rope_apply(struct, as_bytes(memory), len(turned), as_bytes(table), rows)
    return x
