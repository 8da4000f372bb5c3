# SPDX-License-Identifier: Apache-2.0
"""Streams: queues of work of a Storage, which is done in order while Python continues. On the CPU each stream has a thread."""

from __future__ import annotations

import collections
import threading
from typing import Any, Optional

from . import _native
from .records import BackendInfo, DeviceInfo


def device_info(device: Optional[str] = None) -> DeviceInfo:
    """Returns the properties of a device; None = the CPU. Raises NotFoundError, whose text lists the devices."""
    return DeviceInfo.of(_native.kvc_device_read_info, device)


def open_backend(name: str, path: Optional[str] = None) -> BackendInfo:
    """Opens a backend and returns its properties. name: "cpu", "cuda" or "hip". path: its file, or the only folder to search; None = the
    folder of the library and those of the variable KVC_BACKEND_PATH. Raises NotFoundError, whose text lists the files that were searched, and
    UnsupportedError."""
    if path is not None:
        _native.kvc_backend_open(name, path)
    return BackendInfo.of(_native.kvc_backend_properties, name)


class StreamEvent:
    """A point in a stream that the host or other streams can wait for. Before it is recorded it counts as reached."""

    def __init__(self, device: Optional[str] = None):
        self._e: Any = _native.kvc_stream_event_create(device)

    def record(self, stream: Stream) -> None:
        """Moves the event to the present end of the stream."""
        _native.kvc_stream_event_record(self._e, stream._s)

    @property
    def done(self) -> bool:
        """Whether all work before the event is done."""
        return bool(_native.kvc_stream_event_query(self._e))

    def synchronize(self) -> None:
        """Waits until all work before the event is done."""
        _native.kvc_stream_event_synchronize(self._e)


class Stream:
    """A queue of work on storages. A call of a Storage that is given a stream checks its arguments, enqueues its work and returns.
    Until the work is done, the arrays of keys, values, queries, masks and bounds must not change, and the results must not be read. The
    stream keeps these arrays alive. Any thread may use it. close() waits for its work.

    device: None = the CPU. handle: a stream of the device's runtime, such as torch.cuda.Stream.cuda_stream, which must outlive this
    object; 0 = the runtime's default stream."""

    _BATCH = 16  # calls whose arrays are released together

    def __init__(self, device: Optional[str] = None, *, handle: Optional[int] = None):
        self._lock = threading.RLock()
        self._kept: list[Any] = []
        self._batches: collections.deque[tuple[StreamEvent, list[Any]]] = collections.deque()
        self._device = device
        if handle is None:
            self._s: Any = _native.kvc_stream_create(device)
        else:
            self._s = _native.kvc_stream_adopt(device, handle or None, 0 if handle else _native.KVC_STREAM_LEGACY)

    def close(self) -> None:
        """Waits for the stream's work and closes it. Later calls raise ValueError; closing again does nothing."""
        self._s = None
        self._kept.clear()
        self._batches.clear()

    __del__ = close  # the arrays are released after the stream

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def synchronize(self) -> None:
        """Waits for the work that is in the stream now."""
        with self._lock:
            kept, batches = self._kept, list(self._batches)
            self._kept = []  # for the work that other threads enqueue meanwhile
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
        """Work that is enqueued from now on waits for the event, as it was last recorded before this call."""
        _native.kvc_stream_wait_event(self._open(), event._e)

    @property
    def handle(self) -> int:
        """The stream of the runtime (cudaStream_t, hipStream_t). Raises UnsupportedError on the CPU."""
        return _native.kvc_stream_handle(self._open())

    def _open(self) -> Any:
        if self._s is None:
            raise ValueError("the stream is closed")
        return self._s

    def _keep(self, arrays: Any) -> None:
        """Keeps the arrays of the call that was just enqueued alive until its work is done."""
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
