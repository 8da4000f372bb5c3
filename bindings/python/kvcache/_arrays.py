# SPDX-License-Identifier: Apache-2.0
"""Checks the arrays of callers by one table, and makes arrays over memory of the library. NumPy is imported when it is first needed, so that
`import kvcache` is fast. Arrays of ids without a shape of their own (tokens, blocks of a Manager) go to the native layer, which checks them
by the table of kvcache.i (arrays.c)."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, SupportsIndex, Union

from . import _native
from .errors import BufferTooSmallError

__all__ = ["as_bytes", "at_least_0", "float_type", "grown", "np", "row_strides", "same_type", "take", "take_path", "view", "whole"]


class _LazyNumpy:
    def __getattr__(self, name: str) -> Any:
        import numpy

        value = getattr(numpy, name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np

    View = tuple[int, int, tuple[int, ...], tuple[int, ...]]  # address, element type, shape, byte strides
    Sizes = dict[str, Union[int, tuple[int, ...]]]
else:
    np = _LazyNumpy()

# NumPy has no bfloat16 and no float8: their bits are passed as integers.
_TYPES = {
    _native.KVC_INT8: "<i1", _native.KVC_UINT8: "<u1", _native.KVC_INT32: "<i4", _native.KVC_INT64: "<i8", _native.KVC_UINT64: "<u8",
    _native.KVC_FLOAT32: "<f4", _native.KVC_FLOAT16: "<f2", _native.KVC_BFLOAT16: "<u2", _native.KVC_FLOAT8_E4M3: "<u1",
    _native.KVC_FLOAT8_E5M2: "<u1",
}


class _Memory:
    """An object with NumPy's array interface. The array keeps it alive, and it keeps the owner of the memory alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, view: View, owner: object):
        address, dtype, shape, strides = view
        self.owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, False), "typestr": _TYPES[dtype], "shape": shape, "strides": strides}


def grown(call: Callable[[np.ndarray], int], dtype: Any, size: int, *columns: int) -> np.ndarray:
    """Calls with more and more rows until they are enough. Returns those that were filled."""
    while True:
        room = np.empty((size, *columns), dtype)
        try:
            return room[: call(room)]
        except BufferTooSmallError:
            size *= 4


def view(described: View, owner: object) -> np.ndarray:
    """Returns an array in place over a kvc_view. `owner` lives as long as the array."""
    if 0 in described[2]:
        return np.empty(described[2], _TYPES[described[1]])
    return np.asarray(_Memory(described, owner))


# ---- arrays of callers

class Rule(NamedTuple):
    """The requirements on an array. types: allowed element types; errors name the first as the remedy; none = any type, the array is memory.
    dims: the names of its dimensions; a number is a fixed size, `name?` may be left out, `*name` is any number of dimensions. converts: an array
    of another number type, or one that is not contiguous, is copied if no value changes; only for arrays that are read before the call returns.
    apart: rows (the last dimension) may have gaps between them; see row_strides()."""

    types: tuple[str, ...]
    dims: tuple[str, ...]
    converts: bool = False
    apart: bool = False


_FLOATS = ("float32", "float16", "uint16", "bfloat16")  # bfloat16: its bits, or the type of ml_dtypes
_COUNTS = ("uint64", "int64")  # int64 is passed as its bits; the library then refuses negative numbers as too large
_BOUNDS = Rule(("float16",), ("num_blocks", "num_heads", "2", "head_dim"))
_ROPE_TABLE, _PAIRS = Rule(("float32",), ("rows", "2", "pairs")), Rule(("int32",), ("copies", "2"))
_KEYS = Rule(_FLOATS, ("layers?", "tokens", "num_heads", "head_dim"), apart=True)
_TABLE_ROWS = Rule(("int64",), ("tokens",), True)
_MEMORY = Rule((), ("*bytes",))

# Every array of every call, as `function.argument` where a name means different things in different functions.
TABLE = {
    "requests": Rule(_COUNTS, ("requests",)), "statuses": Rule(("int32",), ("requests",)), "block_tables.out": Rule(("int32",), ("requests", "entries")),
    "block_table.out": Rule(("int32",), ("entries",)),
    "keys": Rule(("uint8",), ("*keys",)), "digests": Rule(("uint8",), ("*digests",)), "runs": Rule(_COUNTS, ("runs", "2"), True), "generations": Rule(_COUNTS, ("pages",), True),
    "memory": _MEMORY, "pages": _MEMORY, "copies": _PAIRS, "copy_tokens.copies": Rule(("int32",), ("copies", "6")), "blocks": Rule(("int32",), ("blocks",)), "slots": Rule(("int64",), ("tokens",)),
    "k": _KEYS, "v": _KEYS._replace(dims=("layers?", "tokens", "num_heads", "v_head_dim")),
    "rope_table": _ROPE_TABLE, "rope_rows": _TABLE_ROWS, "bounds": _BOUNDS, "key_bounds.out": _BOUNDS,
    "q": Rule(_FLOATS, ("queries", "q_heads", "head_dim"), apart=True), "attend.out": Rule(_FLOATS, ("queries", "q_heads", "v_head_dim"), apart=True),
    "lse": Rule(("float32",), ("queries", "q_heads")), "kv_lens": Rule(_COUNTS, ("requests",)), "q_offsets": Rule(_COUNTS, ("requests + 1",)),
    "q_starts": Rule(_COUNTS, ("requests",)), "block_tables": Rule(("int32",), ("requests", "entries")),
    "alibi_slopes": Rule(("float32",), ("q_heads",)), "sink_logits": Rule(("float32",), ("q_heads",)), "mask": Rule(("uint8",), ("*mask",)), "mask_offsets": Rule(_COUNTS, ("requests",)),
    "mask_starts": Rule(_COUNTS, ("requests",)), "block_mask": Rule(("uint8",), ("requests", "num_heads", "bytes")),
    "plan": Rule(("uint8",), ("*plan",)), "workspace": Rule(("uint8",), ("*workspace",)),
    "outs": Rule(_FLOATS, ("partials", "*rows", "v_dim")), "lses": Rule(("float32",), ("partials", "*rows")),
    "parents": Rule(("int32",), ("nodes",)),
    "factors": Rule(("float64",), ("pairs",), True), "frequencies": Rule(("float64",), ("pairs",), True), "num_blocks": Rule(_COUNTS, ("sizes",)),
    "positions": Rule(("int64",), ("positions",), True), "x": Rule(_FLOATS, ("tokens", "heads", "head_dim"), apart=True),
    "table": _ROPE_TABLE, "rows": _TABLE_ROWS,
    "values": Rule(("float32",), ("rows", "dim")), "codes": Rule(("uint8",), ("rows", "row_bytes")), "scales": Rule(("float32",), ("*scales",)),
    # Speculation.
    "draft_tokens": Rule(("int32",), ("nodes",), True), "draft_parents": Rule(("int32",), ("nodes",), True), "draft_offsets": Rule(_COUNTS, ("offsets",)),
    "target_tokens": Rule(("int32",), ("rows",), True), "p": Rule(("float32",), ("rows", "entries of p")), "p_ids": Rule(("int32",), ("rows", "entries of p")),
    "q_of_drafts": Rule(("float32",), ("rows of q", "entries of q")), "q_ids": Rule(("int32",), ("rows of q", "entries of q")),
    "q_rows": Rule(("int64",), ("nodes",), True), "uniforms": Rule(("float64",), ("rows",), True), "path": Rule(("int32",), ("nodes",)),
    "num_accepted": Rule(_COUNTS, ("requests",)), "draft_starts": Rule(_COUNTS, ("requests",)), "draft_tables": Rule(("int32",), ("requests", "entries")),
    "states": Rule(("int32",), ("rows",), True), "draft_rows": Rule(("int32",), ("draft rows",), True), "max_lengths": Rule(("int32",), ("draft rows",), True), "costs": Rule(("float64",), ("costs",), True),
    # Scheduler.
    "num_drafts": Rule(("int32",), ("requests",), True), "token_offsets": Rule(_COUNTS, ("items + 1",), True),
    "inputs": Rule(_COUNTS, ("inputs", "2"), True), "sampled": Rule(("int32",), ("sampled tokens",), True), "stopped": Rule(("uint8", "bool"), ("items",), True),
}


class _Compiled:
    """A rule in the form that take() uses."""

    __slots__ = ("rule", "label", "dims", "star", "optional", "types", "bfloat16")

    def __init__(self, name: str, rule: Rule):
        self.rule, self.label, self.bfloat16 = rule, name.rpartition(".")[2], "bfloat16" in rule.types
        self.optional = rule.dims[0].endswith("?")
        self.star = next((i for i, dim in enumerate(rule.dims) if dim.startswith("*")), -1)
        self.dims: tuple[str | int, ...] = tuple(int(dim) if dim.isdigit() else dim.rstrip("?") for dim in rule.dims)
        self.types: Optional[frozenset[np.dtype[Any]]] = None  # made when first needed: they need NumPy

    def has_type(self, dtype: np.dtype[Any]) -> bool:
        """Whether the rule allows the type. A type in another byte order is another type."""
        if self.types is None:
            self.types = frozenset(np.dtype(name) for name in self.rule.types if name != "bfloat16")
        return dtype in self.types or self.bfloat16 and dtype.name == "bfloat16" and dtype.itemsize == 2 and dtype.isnative


# The arrays that are looked at first, which set sizes for the others.
_SOURCES = {"tokens": "slots", "requests": "kv_lens", "q_heads": "q", "queries": "q", "partials": "outs", "layers": "k"}
_COMPILED = {name: _Compiled(name, rule) for name, rule in TABLE.items()}


def take(name: str, value: Any, sizes: Optional[Sizes] = None, *, written: bool = False) -> np.ndarray:
    """Returns the array of an argument as TABLE requires: C-contiguous, aligned, with a type and the dimensions of its rule. It is the caller's
    memory itself; only a sequence of integers that is not written is copied. `sizes` holds the known sizes of dimensions; those of this array are
    added. Raises TypeError and ValueError, whose text says what the array is, what it must be, and what to pass."""
    compiled = _COMPILED[name]
    rule, label = compiled.rule, compiled.label
    array, is_memory = (value, True) if type(value) is np.ndarray else _as_array(label, rule, value, written)
    if rule.types and not compiled.has_type(array.dtype):
        array = _converted(label, rule, array, written, written or is_memory and not rule.converts)
    elif array.dtype.hasobject:
        raise TypeError(f"{label} is {_said(array)}; it must be memory of numbers, not of Python objects")
    _bind(compiled, array, {} if sizes is None else sizes)
    return array if array.flags.carray else _in_place(label, rule, array, written)


def _in_place(name: str, rule: Rule, array: np.ndarray, written: bool) -> np.ndarray:
    """Handles an array that is not C-contiguous, aligned and writable: returns it if the rule allows that, or a copy if the rule converts;
    otherwise raises ValueError."""
    if array.size and not (array.flags.aligned and (array.flags.c_contiguous or rule.apart and _has_rows(array))):
        if not rule.converts or written:
            wanted = "its rows contiguous, with positive strides in whole elements" if rule.apart else "C-contiguous"
            what = f"has strides {array.strides}, it must be {wanted}" if array.flags.aligned else "is not aligned to its element type"
            raise ValueError(f"{name} is {_said(array)} and {what}: pass "
                             + ("a new array, as results are written in place, and copy from that" if written else "np.ascontiguousarray(x)"
                                if array.flags.aligned else "x.copy()"))
        array = np.array(array, order="C")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is read-only; results are written into it: pass a writable array")
    return array


def _has_rows(array: np.ndarray) -> bool:
    """Whether the last dimension is contiguous, and the other strides are positive and whole elements."""
    *strides, last = ((size, stride) for size, stride in zip(array.shape, array.strides))
    unit = array.itemsize
    return (last[0] == 1 or last[1] == unit) and all(size == 1 or stride > 0 and stride % unit == 0 for size, stride in strides)


def row_strides(array: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """For an array whose rows may have gaps, returns its memory as one dimension from the first element to the last, and the strides of all
    dimensions but the last, in elements; 0 = contiguous, or a dimension of one entry."""
    shape, unit = array.shape, array.itemsize
    if array.flags.c_contiguous:
        return array, [0] * (len(shape) - 1)
    strides = [0 if size == 1 else stride // unit for size, stride in zip(shape[:-1], array.strides)]
    extent = sum((size - 1) * stride for size, stride in zip(shape, strides)) + shape[-1]
    return np.lib.stride_tricks.as_strided(array, (extent,), (unit,)), strides


def _as_array(name: str, rule: Rule, value: Any, written: bool) -> tuple[np.ndarray, bool]:
    """Returns the array of `value`, and whether it is the memory of `value` itself and not a copy."""
    if isinstance(value, np.ndarray):
        return np.asarray(value), True  # a derived class may override anything
    try:
        return np.asarray(memoryview(value)), True
    except (TypeError, ValueError, BufferError):
        made = None if written or not rule.types or isinstance(value, (str, bytes)) else _made(rule, value)
    if made is None:
        raise TypeError(f"{name} is {type(value).__name__}; it must be {_wanted(rule, {})}") from None
    return made, False


def _made(rule: Rule, value: Any) -> Optional[np.ndarray]:
    """Makes an array from a sequence, or by the __array__ method of `value`."""
    is_number = rule.types[0].startswith("float")
    if not (hasattr(value, "__array__") or isinstance(value, (list, tuple, range)) and (rule.converts or not is_number)):
        return None
    try:
        made: np.ndarray = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return made if made.size or isinstance(value, np.ndarray) else made.astype(rule.types[0])


def _converted(name: str, rule: Rule, array: np.ndarray, written: bool, refused: bool) -> np.ndarray:
    wanted = np.dtype(rule.types[0])
    if not refused and wanted.kind == "f" and array.dtype.kind in "iuf" and np.can_cast(array.dtype, wanted, "safe"):
        return array.astype(wanted)
    if not refused and wanted.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(wanted)
        if not array.size or int(array.min()) >= limits.min and int(array.max()) <= limits.max:
            return array.astype(wanted)
        raise ValueError(f"{name} has values from {int(array.min())} to {int(array.max())}; an {wanted.name} holds {limits.min} to {limits.max}")
    remedy = f"pass np.empty(shape, np.{wanted.name})" if written else f"pass x.astype(np.{wanted.name})"
    if "uint16" in rule.types and array.dtype == np.int16 and not written:
        remedy = "pass x.view(np.uint16) if it holds the bits of bfloat16"
    raise TypeError(f"{name} is {_said(array)}; it must be {_wanted(rule, {})}: {remedy}")


def _bind(compiled: _Compiled, array: np.ndarray, sizes: Sizes) -> None:
    """Compares the shape with the rule and the known sizes, and adds the sizes that were not known."""
    shape: tuple[Any, ...] = array.shape
    dims, star, known = compiled.dims, compiled.star, len(sizes)
    if compiled.optional and len(shape) < len(dims):
        shape = (1, *shape)
    if 0 <= star <= len(shape) - len(dims) + 1 + star:
        end = star + len(shape) - len(dims) + 1
        shape = (*shape[:star], shape[star:end], *shape[end:])
    if len(shape) == len(dims):
        for dim, size in zip(dims, shape):
            if size != (sizes.setdefault(dim, size) if isinstance(dim, str) else dim):
                break
        else:
            return
    sizes = dict(list(sizes.items())[:known])  # without those of this array
    raise ValueError(f"{compiled.label} is {_said(array)}; it must be {_wanted(compiled.rule, sizes)}{_remedy(compiled, array, sizes)}")


def _remedy(compiled: _Compiled, array: np.ndarray, sizes: Sizes) -> str:
    """For an array of the wrong shape: says which array its sizes come from, and what to pass if two dimensions are exchanged."""
    dims = compiled.dims[1:] if compiled.optional and array.ndim < len(compiled.dims) else compiled.dims
    wanted = [dim if isinstance(dim, int) else sizes.get(dim) for dim in dims]
    if compiled.star >= 0 or array.ndim != len(dims):
        return ""
    for i in range(len(dims)):
        for j in range(i + 1, len(dims)):
            shape = list(array.shape)
            shape[i], shape[j] = shape[j], shape[i]
            if shape != list(array.shape) and all(size in (None, given) for size, given in zip(wanted, shape)) and wanted[i] != wanted[j]:
                return f"; {dims[i]} and {dims[j]} are exchanged: pass {compiled.label}.swapaxes({i}, {j})"
    for dim, size, given in zip(dims, wanted, array.shape):
        source = "x" if compiled.label == "rows" else _SOURCES.get(str(dim))
        if source and source != compiled.label and size not in (None, given):
            return f"; {source} has {dim} = {size}: make both equal"
    return ""


def _said(array: np.ndarray) -> str:
    order = "" if array.dtype.isnative else " in another byte order"
    return f"{array.dtype.name}{order} {list(array.shape)}"


def _wanted(rule: Rule, sizes: Sizes) -> str:
    types = " or ".join(rule.types) or "a C-contiguous array"
    return f"{types} [{', '.join(_wanted_dim(dim, sizes) for dim in rule.dims)}]"


def _wanted_dim(dim: str, sizes: Sizes) -> str:
    if dim.startswith("*"):
        return "..."
    name = dim.rstrip("?")
    size = sizes.get(name)
    return name + ("" if size is None else f" = {size}") + (" (optional)" if dim != name else "")


def same_type(name: str, array: np.ndarray, other_name: str, other: np.ndarray) -> None:
    if array.dtype != other.dtype:
        raise TypeError(f"{name} is {array.dtype.name} and {other_name} {other.dtype.name}; they must be of one type")


def float_type(array: np.ndarray) -> int:
    """Returns the KVC_* type of an array that take() has checked: float32, float16, or bfloat16 (uint16 bits, or the type of ml_dtypes)."""
    return {"f": _native.KVC_FLOAT32, "e": _native.KVC_FLOAT16}.get(array.dtype.char, _native.KVC_BFLOAT16)


def as_bytes(array: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """Returns an array that take() has checked; as bytes if the buffer protocol has no format for its element type."""
    return array if array is None or array.dtype.char in "fedBbHhIiLlQq" else array.reshape(-1).view(np.uint8)


def whole(number: SupportsIndex) -> int:
    """Returns a plain int, which is the same each time it is read."""
    return int.__add__(operator.index(number), 0)


def at_least_0(name: str, count: int) -> None:
    """Checks a number of entries of an array to make."""
    if count < 0:
        raise ValueError(f"{name} is {count}; it must be at least 0")


def take_path(name: str, path: Any) -> str:
    """Returns the path of a file or folder as text."""
    try:
        text = os.fspath(path)
    except TypeError:
        raise TypeError(f"{name} is {path!r:.100}; it must be a path: a str, or a pathlib.Path") from None
    if not isinstance(text, str):
        raise TypeError(f"{name} is bytes; it must be a str: pass os.fsdecode(x)")
    if "\0" in text:
        raise ValueError(f"{name} has a NUL, which no path has")
    return text
