# SPDX-License-Identifier: Apache-2.0
"""What a job of a Tier is made of: its keys, its buffers, and the array of items that the library works on. A job keeps all of them until the
library has ended it. Nothing here makes a Python object per page, unless the caller gives a list."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ._arrays import np, take, whole
from ._docs import described

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray

KEY_BYTES = 32
_ITEM: Any = None  # made when first needed: it needs NumPy


def item_type() -> Any:
    """Returns the kvc_tier_item of C as a type of NumPy."""
    global _ITEM
    if _ITEM is None:
        _ITEM = np.dtype([("key", "u1", (KEY_BYTES,)), ("data", "u8"), ("bytes", "u8"), ("runs", "u8"), ("num_runs", "u8"), ("generation", "u8"),
                          ("lease_until_ns", "u8"), ("result", "i4"), ("reserved", "u4")])
    return _ITEM


@described
class Completion(NamedTuple):
    """The end of a job.

    job: id of the job, as submit_get() and so on returned it.
    user_data: as given.
    num_ok: pages with PageResult.OK.
    results: int32 [pages], a PageResult each.
    generations: uint64 [pages] of the pages that were found or written; a get with it says EXPIRED if the page is another one by then.
    lease_until: uint64 [pages], of exists: the page stays until then, in nanoseconds of time.monotonic_ns() or of the `now_ns` that was given; 0 =
        nothing is promised.
    """

    job: int
    user_data: Any
    num_ok: int
    results: numpy.ndarray
    generations: numpy.ndarray
    lease_until: numpy.ndarray


class Job:
    """A job that is under way. waiter: who gets the completion; None = poll()."""

    __slots__ = ("number", "native", "items", "kept", "deadline", "user_data", "waiter")

    def __init__(self, number: int, items: Array, kept: Any, deadline: Optional[float], user_data: Any, waiter: Any):
        self.number, self.items, self.kept, self.deadline, self.user_data, self.waiter = number, items, kept, deadline, user_data, waiter
        self.native: Optional[int] = None

    def completion(self, num_ok: int) -> Completion:
        items = self.items
        return Completion(self.number, self.user_data, num_ok, items["result"].copy(), items["generation"].copy(), items["lease_until_ns"].copy())


def take_digest(name: str, value: Any) -> bytes:
    """Returns the 32 bytes of a digest, key or fingerprint."""
    try:
        digest = memoryview(value).tobytes()
    except (TypeError, ValueError, BufferError):
        raise TypeError(f"{name} is {type(value).__name__}; it must be {KEY_BYTES} bytes") from None
    if len(digest) != KEY_BYTES:
        raise ValueError(f"{name} has {len(digest)} bytes; it needs {KEY_BYTES}")
    return digest


def take_keys(name: str, value: Any) -> Array:
    """Returns keys or digests as uint8 [n, 32]: of one piece of memory, or of a list of bytes."""
    if isinstance(value, (list, tuple)):
        value = b"".join([take_digest(f"{name}[{i}]", key) for i, key in enumerate(tuple(value))])
    array = take(name, np.frombuffer(value, np.uint8) if type(value) is bytes else value)
    if array.size % KEY_BYTES or array.ndim > 1 and array.shape[-1] != KEY_BYTES:
        raise ValueError(f"{name} is uint8 {list(array.shape)}; it must be uint8 [pages, {KEY_BYTES}], or {KEY_BYTES} bytes for each page")
    keys: Array = array.reshape(-1, KEY_BYTES)
    return keys


def nanoseconds(name: str, seconds: Optional[float]) -> int:
    """Returns a time in ns for the library, to which 0 means none: None and infinity."""
    if seconds is None:
        return 0
    try:
        number = float(seconds)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {seconds!r:.100}; it must be a number of seconds, or None") from None
    if math.isnan(number) or number < 0:
        raise ValueError(f"{name} is {number}; it must be at least 0 seconds")
    return 0 if number > 1e9 else max(1, int(number * 1e9))


def lease_of(seconds: float) -> int:
    """Returns a lease in ns for the library, to which 0 means none; a long one is as long as it can be."""
    return 0 if not seconds else nanoseconds("lease", seconds) or 2**63 - 1


def shown_url(url: str) -> str:
    """Returns a URL as texts may show it: without a user and a password before the host. A '?' in a password looks as if parameters began there."""
    begin, last = url.find("//"), url.rfind("@")
    if begin < 0 or last < begin:
        return url
    end = url.find("?") if "?" in url else len(url)
    at = url.rfind("@", 0, end)
    host = "..." + url[at:end] if at > begin else ""
    return url[:begin + 2] + host + ("..." + url[last:] if last > end else url[end:])


def _memory(name: str, value: Any, written: bool) -> Array:
    """Returns the memory of a buffer as an array in place: of whatever has a buffer, and of PyTorch's tensors."""
    array: Array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise TypeError(f"{name} is a tensor on {value.device}; a tier reads and writes host memory: pass x.cpu(), or a pinned tensor to copy from")
        if value.dim() == 0 or value.stride(-1) != 1:
            raise ValueError(f"{name} is a tensor of strides {value.stride()}; its rows must be contiguous: pass x.contiguous()")
        array = value.detach().view(torch.uint8).numpy()
    elif isinstance(value, np.ndarray):
        array = np.asarray(value)  # a derived class may override anything
    else:
        try:
            array = np.asarray(memoryview(value))
        except (TypeError, ValueError, BufferError):
            raise TypeError(f"{name} is {type(value).__name__}; it must be an array or another buffer") from None
    if array.dtype.hasobject:
        raise TypeError(f"{name} has Python objects; it must be memory of numbers")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is read-only; pages are read into it: pass a writable buffer")
    return array


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _fill(items: Array, buffers: Any, written: bool) -> Any:
    """Sets data and bytes of the items to rows of one buffer, or to the buffers of a list. Returns what must stay alive."""
    pages = len(items)
    if isinstance(buffers, (list, tuple)):
        arrays = [_memory(f"buffers[{i}]", buffer, written) for i, buffer in enumerate(tuple(buffers))]
        if len(arrays) != pages:
            raise ValueError(f"buffers has {len(arrays)} buffers for {pages} keys; it must have one for each")
        for i, array in enumerate(arrays):
            if not array.flags.c_contiguous:
                raise ValueError(f"buffers[{i}] has strides {array.strides}; it must be C-contiguous: pass np.ascontiguousarray(x)")
        items["data"], items["bytes"] = [_address(array) for array in arrays], [array.nbytes for array in arrays]
        return arrays
    array = _memory("buffers", buffers, written)
    shape = f"{array.dtype.name} {list(array.shape)}"
    if array.ndim < 2:
        if not array.flags.c_contiguous or pages and array.nbytes % pages:
            raise ValueError(f"buffers is {shape}, {array.nbytes} bytes; it must be contiguous, with equally many bytes for each of the {pages} pages")
        row = step = array.nbytes // pages if pages else 0
    else:
        if len(array) != pages:
            raise ValueError(f"buffers is {shape}; it must have a row for each of the {pages} keys")
        row, step = array.nbytes // pages if pages else 0, array.strides[0]
        if pages and not array[0].flags.c_contiguous or pages > 1 and step < row:
            raise ValueError(f"buffers is {shape} with strides {array.strides}; its rows must be contiguous and apart: pass "
                             + ("a new array, and copy from that" if written else "np.ascontiguousarray(x)"))
    if row and pages:
        items["data"] = _address(array) + step * np.arange(pages, dtype=np.uint64)
    items["bytes"] = row
    return array


def make_items(keys: Any, buffers: Any, written: bool, has_buffers: bool, runs: Any, generations: Any, page_bytes: Optional[int],
               tier_bytes: int) -> tuple[Array, Any]:
    """Returns the items of a job, and what must stay alive until it has ended."""
    keys = take_keys("keys", keys)
    items = np.zeros(len(keys), item_type())
    items["key"] = keys
    if not has_buffers:
        return items, None
    kept: list[Any] = [_fill(items, buffers, written), buffers]
    if generations is not None:
        items["generation"] = take("generations", generations, {"pages": len(keys)})
    whole_page = None if page_bytes is None else whole(page_bytes)
    if whole_page is not None and not 0 < whole_page < 2**63:
        raise ValueError(f"page_bytes is {whole_page}; it must be from 1 to 2**63 - 1")
    needed, what = whole_page, "a page has"
    if runs is not None:
        runs = np.array(take("runs", runs), np.uint64, order="C")  # a copy, which nobody else changes
        if not len(runs):
            raise ValueError("runs is empty; pass None for the whole page")
        kept.append(runs)
        items["runs"], items["num_runs"] = _address(runs), len(runs)
        needed, what = sum(runs[:, 1].tolist()), "the runs have"
        whole_page = tier_bytes if whole_page is None else whole_page
    if needed is not None and len(items) and needed > int(items["bytes"].min()):
        raise ValueError(f"buffers has {int(items['bytes'].min())} bytes for a page; {what} {needed}")
    if whole_page is not None:
        items["bytes"] = whole_page
    return items, kept
