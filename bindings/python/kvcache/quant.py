# SPDX-License-Identifier: Apache-2.0
"""Quantization of rows of floats, for engines that keep their own tensors. The codes equal those of a Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _native
from ._arrays import as_bytes, np, take, whole
from .constants import DType

if TYPE_CHECKING:
    import numpy


def quantize(values: numpy.ndarray, dtype: DType | str, *, group: int = 0, asymmetric: bool = False, channels: bool = False,
             scale: float = 0.0) -> tuple[numpy.ndarray, Optional[numpy.ndarray]]:
    """Returns (codes, scales) of rows of floats.

    values: float32 [rows, dim]. dtype: "int8", "int4", "float8_e4m3" or "float8_e5m2". group: elements of a row that share a scale; 0 = the
    whole row. asymmetric (integer types): (scale, offset) pairs instead of scales. channels: one scale per column for all rows. scale: one given
    scale for all elements; 0 = the scales are computed.
    codes: uint8 [rows, bytes of a row]; int4 has two per byte, the first in the low half. scales: float32 [rows, groups] or [dim], with a last
    dimension of 2 if asymmetric; None if scale is given. A code c stands for c * scale + offset."""
    group, asymmetric, channels, scale = whole(group), bool(asymmetric), bool(channels), float(scale)
    struct = _format(dtype, group, asymmetric, channels, scale)
    values = take("values", values)
    rows, dim = values.shape
    codes = np.empty((rows, _row_bytes(struct.dtype, dim)), np.uint8)
    scales = None if scale else np.empty(_scale_shape(rows, dim, group, asymmetric, channels), np.float32)
    _native.kvc_quantize(struct, as_bytes(values), rows, dim, as_bytes(codes), as_bytes(scales))
    return codes, scales


def dequantize(codes: numpy.ndarray, scales: Optional[numpy.ndarray], dim: int, dtype: DType | str, *, group: int = 0,
               asymmetric: bool = False, channels: bool = False, scale: float = 0.0) -> numpy.ndarray:
    """Reverses quantize(), with the same options. Returns float32 [rows, dim]."""
    dim, group, asymmetric, channels, scale = whole(dim), whole(group), bool(asymmetric), bool(channels), float(scale)
    struct = _format(dtype, group, asymmetric, channels, scale)
    codes = take("codes", codes, {"row_bytes": _row_bytes(struct.dtype, dim)})
    rows = len(codes)
    if not scale:
        scales = take("scales", scales, {"*scales": _scale_shape(rows, dim, group, asymmetric, channels)})
    values = np.empty((rows, dim), np.float32)
    _native.kvc_dequantize(struct, as_bytes(codes), None if scale else as_bytes(scales), rows, dim, as_bytes(values))
    return values


def _format(dtype: DType | str, group: int, asymmetric: bool, channels: bool, scale: float) -> _native.kvc_quant_format:
    struct = _native.kvc_quant_format()
    struct.dtype, struct.group, struct.scale = DType.parse(dtype), group, scale
    struct.flags = (_native.KVC_QUANT_ASYMMETRIC if asymmetric else 0) | (_native.KVC_QUANT_CHANNELS if channels else 0)
    return struct


def _row_bytes(dtype: int, dim: int) -> int:
    return -(-dim // 2) if dtype == DType.INT4 else dim


def _scale_shape(rows: int, dim: int, group: int, asymmetric: bool, channels: bool) -> tuple[int, ...]:
    shape = (dim,) if channels else (rows, -(-dim // (group or max(dim, 1))))
    return (*shape, 2) if asymmetric else shape
