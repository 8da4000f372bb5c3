# SPDX-License-Identifier: Apache-2.0
"""Streams of a device: what a Storage does later, in order, while Python goes on. On the CPU a stream has a thread of its own."""

from __future__ import annotations

import collections
import threading
from typing import Any, Optional

from . import _native
from .records import BackendInfo, DeviceInfo


def device_info(device: Optional[str] = None) -> DeviceInfo:
    """DeviceInfo of a device (None: the CPU). Raises NotFoundError, whose text says which there are."""
    info = _native.kvc_device_info()
    _native.kvc_device_properties(device, info)
    return DeviceInfo.read(info)


def open_backend(name: str, path: Optional[str] = None) -> BackendInfo:
    """BackendInfo of a backend ("cpu", "cuda", "hip"), which is opened from a file or folder, or where the environment and the library's
    own folder have it. Raises NotFoundError, which names all files that were looked for, and UnsupportedError."""
    if path is not None:
        _native.kvc_backend_open(name, path)
    info = _native.kvc_backend_info()
    _native.kvc_backend_properties(name, info)
    return BackendInfo.read(info)


class StreamEvent:
    """A place in a stream that others can wait for: kvc_stream_event. One that was never recorded counts as reached."""

    def __init__(self, device: Optional[str] = None):
        self._e: Any = _native.kvc_stream_event_create(device)

    def record(self, stream: "Stream") -> None:
        """Puts the event at the present end of the stream, in place of where it was."""
        _native.kvc_stream_event_record(self._e, stream._s)

    @property
    def done(self) -> bool:
        """Whether all work before the event's place is done."""
        return bool(_native.kvc_stream_event_query(self._e))

    def synchronize(self) -> None:
        """Waits until the event's place is reached."""
        _native.kvc_stream_event_synchronize(self._e)


class Stream:
    """A queue of work on storages: kvc_stream; with `handle` one that the caller has from the device's runtime, such as
    torch.cuda.Stream.cuda_stream, which must outlive this one. Calls of a Storage that are given one check their arguments, enqueue and return. Until the work
    is done nobody else may change the arrays of keys, values, queries, masks and bounds, or read the results; the stream keeps
    them alive. Any thread may use it. Closing waits for its work."""

    _BATCH = 16  # calls whose arrays are let go together

    def __init__(self, device: Optional[str] = None, *, handle: Optional[int] = None):
        self._lock = threading.RLock()
        self._kept: "list[Any]" = []
        self._batches: "collections.deque[tuple[StreamEvent, list[Any]]]" = collections.deque()
        self._device = device
        if handle is None:
            self._s: Any = _native.kvc_stream_create(device)
        else:
            self._s = _native.kvc_stream_adopt(device, handle or None, 0 if handle else _native.KVC_STREAM_LEGACY)

    def close(self) -> None:
        """Waits for its work and ends it; later calls raise ValueError. Doing so again does nothing."""
        self._s = None
        self._kept.clear()
        self._batches.clear()

    __del__ = close  # its arrays go after the stream itself

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def synchronize(self) -> None:
        """Waits until what has been enqueued so far is done."""
        with self._lock:
            kept, batches = self._kept, list(self._batches)
            self._kept = []  # of what other threads enqueue meanwhile
        try:
            _native.kvc_stream_synchronize(self._open())
        except BaseException:
            with self._lock:
                self._kept += kept
            raise
        with self._lock:
            for batch in batches:
                if batch in self._batches:
                    self._batches.remove(batch)

    def wait(self, event: StreamEvent) -> None:
        """What is enqueued from now on is done after the event's place, as recorded last before this call."""
        _native.kvc_stream_wait_event(self._open(), event._e)

    @property
    def handle(self) -> int:
        """The runtime's stream (cudaStream_t, hipStream_t). Raises UnsupportedError on the CPU."""
        return _native.kvc_stream_handle(self._open())

    def _open(self) -> Any:
        if self._s is None:
            raise ValueError("the stream is closed")
        return self._s

    def _keep(self, arrays: Any) -> None:
        """Arrays of a call that was enqueued just now live until it is done."""
        done = []  # freed after the lock is released: freeing an array may run code
        with self._lock:
            self._kept.append(arrays)
            if len(self._kept) >= self._BATCH:
                batch, self._kept = self._kept, []
                try:
                    event = StreamEvent(self._device)
                    event.record(self)  # after all calls of the batch
                except BaseException:
                    self._kept += batch
                    raise
                self._batches.append((event, batch))
            while self._batches and self._batches[0][0].done:
                done.append(self._batches.popleft())
