# SPDX-License-Identifier: Apache-2.0
"""Quantization of arrays that an engine keeps itself, by the rules of a Storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _native
from ._arrays import as_bytes, contiguous, np
from .constants import DType

if TYPE_CHECKING:
    import numpy


def quantize(values: "numpy.ndarray", dtype: "DType | str", *, group: int = 0, asymmetric: bool = False, channels: bool = False,
             scale: float = 0.0) -> "tuple[numpy.ndarray, Optional[numpy.ndarray]]":
    """(codes, scales) of rows of floats: kvc_quantize.

    values: float32 [rows, dim]. dtype: "int8", "int4", "float8_e4m3" or "float8_e5m2". group: elements of a row that share a scale, 0 = the
    whole row. asymmetric (integer types): (scale, offset) pairs. channels: a scale per column instead. scale: one for all, given.
    codes: uint8 [rows, bytes of a row]; int4 two per byte, the first in the low half. scales: float32 [rows, groups] or [dim], with a last
    dimension of 2 if asymmetric; None if scale is given. A code c stands for c * scale + offset."""
    struct = _format(dtype, group, asymmetric, channels, scale)
    rows, dim = _rows(values)
    codes = np.empty((rows, _row_bytes(struct.dtype, dim)), np.uint8)
    scales = None if scale else np.empty(_scale_shape(rows, dim, group, asymmetric, channels), np.float32)
    _native.kvc_quantize(struct, as_bytes(contiguous(values, (rows, dim), "values")), rows, dim, as_bytes(codes), as_bytes(scales))
    return codes, scales


def dequantize(codes: "numpy.ndarray", scales: "Optional[numpy.ndarray]", dim: int, dtype: "DType | str", *, group: int = 0,
               asymmetric: bool = False, channels: bool = False, scale: float = 0.0) -> "numpy.ndarray":
    """The way back of quantize(), with its options: float32 [rows, dim]."""
    struct = _format(dtype, group, asymmetric, channels, scale)
    rows = len(codes)
    contiguous(codes, (rows, _row_bytes(struct.dtype, dim)), "codes")
    if codes.dtype != np.uint8:
        raise TypeError(f"codes is {codes.dtype.name}; it must be uint8")
    if not scale:
        if scales is None or scales.dtype != np.float32:
            raise TypeError("scales must be a float32 array, from quantize()")
        contiguous(scales, _scale_shape(rows, dim, group, asymmetric, channels), "scales")
    values = np.empty((rows, dim), np.float32)
    _native.kvc_dequantize(struct, as_bytes(codes), None if scale else as_bytes(scales), rows, dim, as_bytes(values))
    return values


def _format(dtype: "DType | str", group: int, asymmetric: bool, channels: bool, scale: float) -> "_native.kvc_quant_format":
    struct = _native.kvc_quant_format()
    struct.dtype, struct.group, struct.scale = DType.parse(dtype), group, scale
    struct.flags = (_native.KVC_QUANT_ASYMMETRIC if asymmetric else 0) | (_native.KVC_QUANT_CHANNELS if channels else 0)
    return struct


def _rows(values: "numpy.ndarray") -> "tuple[int, int]":
    if values.ndim != 2 or values.dtype != np.float32:
        raise TypeError(f"values is {values.dtype.name} with {values.ndim} dimensions; it must be float32 [rows, dim]")
    return values.shape[0], values.shape[1]


def _row_bytes(dtype: int, dim: int) -> int:
    return -(-dim // 2) if dtype == DType.INT4 else dim


def _scale_shape(rows: int, dim: int, group: int, asymmetric: bool, channels: bool) -> "tuple[int, ...]":
    shape = (dim,) if channels else (rows, -(-dim // (group or max(dim, 1))))
    return (*shape, 2) if asymmetric else shape
