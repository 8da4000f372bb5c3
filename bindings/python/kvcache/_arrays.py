# SPDX-License-Identifier: Apache-2.0
"""NumPy, imported when first needed (`import kvcache` stays fast), and arrays over memory of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _native


__all__ = ["as_bytes", "contiguous", "float_type", "np", "view"]


class _LazyNumpy:
    def __getattr__(self, name: str) -> Any:
        import numpy

        value = getattr(numpy, name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np

    View = tuple[int, int, tuple[int, ...], tuple[int, ...]]  # address, element type, shape, byte strides
else:
    np = _LazyNumpy()

# NumPy has no bfloat16 and no float8: their bits come as integers.
_TYPES = {
    _native.KVC_INT8: "<i1", _native.KVC_UINT8: "<u1", _native.KVC_INT32: "<i4", _native.KVC_INT64: "<i8", _native.KVC_UINT64: "<u8",
    _native.KVC_FLOAT32: "<f4", _native.KVC_FLOAT16: "<f2", _native.KVC_BFLOAT16: "<u2", _native.KVC_FLOAT8_E4M3: "<u1",
    _native.KVC_FLOAT8_E5M2: "<u1",
}


class _Memory:
    """What NumPy's array interface asks for. The array keeps this, this keeps the owner of the memory."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, view: "View", owner: object):
        address, dtype, shape, strides = view
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, False), "typestr": _TYPES[dtype], "shape": shape, "strides": strides}


def view(described: "View", owner: object) -> "np.ndarray":
    """An array in place over a kvc_view; `owner` lives as long as the array."""
    if 0 in described[2]:
        return np.empty(described[2], _TYPES[described[1]])
    return np.asarray(_Memory(described, owner))


def contiguous(array: "np.ndarray", shape: "tuple[int, ...]", name: str) -> "np.ndarray":
    """The array itself, if it has this shape and is C-contiguous."""
    if tuple(array.shape) != shape or not array.flags.c_contiguous:
        raise ValueError(f"{name} must be a C-contiguous array of shape {list(shape)}, not {list(array.shape)} with strides {array.strides}")
    return array


_FLOATS = {"float32": _native.KVC_FLOAT32, "float16": _native.KVC_FLOAT16, "uint16": _native.KVC_BFLOAT16, "bfloat16": _native.KVC_BFLOAT16}


def float_type(array: "np.ndarray", name: str) -> int:
    """float32, float16, or bfloat16, which NumPy has as uint16 bits or by ml_dtypes."""
    try:
        return _FLOATS[array.dtype.name]
    except KeyError:
        raise TypeError(f"{name} is {array.dtype.name}; it must be float32, float16, or uint16 (the bits of bfloat16)") from None


def as_bytes(array: "Optional[np.ndarray]") -> "Optional[np.ndarray]":
    """The same memory as bytes: the element types of extensions have no buffer format."""
    return None if array is None else array.view(np.uint8).reshape(-1)
