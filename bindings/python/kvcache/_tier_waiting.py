# SPDX-License-Identifier: Apache-2.0
"""Who waits for the jobs of a Tier, and how they learn that a job has ended when another thread has taken its completion."""

from __future__ import annotations

import contextlib
import os
import select
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    import asyncio

    from ._tier_jobs import Completion


class Signal:
    """A descriptor that is readable while it is set. The caller has the lock. An interrupt may come anywhere: then it is set anew, or emptied, by the
    next call."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._is_set: Optional[bool] = False  # None: not known

    def set(self, wanted: bool) -> None:
        if wanted == self._is_set:
            return
        self._is_set = None
        with contextlib.suppress(BlockingIOError):
            if wanted:
                os.write(self._writer, b"!")
            else:
                os.read(self.reader, 4096)
        self._is_set = wanted

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


class Ready:
    """The descriptor of fileno(): readable while the library has completions, or the tier has taken some that poll() has not returned."""

    def __init__(self, event_fd: int):
        self.taken = Signal()
        self.epoll = select.epoll()
        self.epoll.register(event_fd, select.EPOLLIN)
        self.epoll.register(self.taken.reader, select.EPOLLIN)

    def close(self) -> None:
        self.epoll.close()
        self.taken.close()


class Waiter:
    """A thread that waits for a job; also one that has gone, for which the completion is dropped."""

    def __init__(self) -> None:
        self.completion: Optional[Completion] = None

    def deliver(self, completion: Completion) -> None:
        self.completion = completion

    def fail(self) -> None:
        """The tier was closed."""


class FutureWaiter(Waiter):
    """A coroutine that waits for a job."""

    def __init__(self, watch: Watch, future: asyncio.Future[Completion]):
        super().__init__()
        self._watch, self._future, self._waits = watch, future, True

    def deliver(self, completion: Completion) -> None:
        self._watch.call(self._end, completion, None)

    def fail(self) -> None:
        self._watch.call(self._end, None, ValueError("the tier was closed"))

    def _end(self, completion: Optional[Completion], error: Optional[Exception]) -> None:
        """In the thread of the loop, once or more. A cancelled future is done."""
        if not self._waits:
            return
        self._waits = False
        self._watch.leave()
        if self._future.done():
            return
        if completion is not None:
            self._future.set_result(completion)
        elif error is not None:
            self._future.set_exception(error)


class Watch:
    """Takes completions in an event loop as long as coroutines wait there. It has a descriptor of its own, which outlives a tier that another
    thread closes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, event_fd: int, take: Callable[[], Any], watches: dict[Any, Watch]):
        self.loop, self._fd, self._watches, self.waiting = loop, os.dup(event_fd), watches, 0
        loop.add_reader(self._fd, take)
        watches[loop] = self

    def enter(self) -> None:
        self.waiting += 1

    def leave(self) -> None:
        """In the thread of the loop."""
        self.waiting -= 1
        if self.waiting <= 0:
            self.close()

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, and nobody waits there any more
            self.waiting -= 1

    def is_open(self) -> bool:
        return self._fd >= 0 and not self.loop.is_closed()

    def close(self) -> None:
        if self._fd >= 0:
            if not self.loop.is_closed():
                self.loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._watches.pop(self.loop, None)  # the tier is no longer in a cycle with it

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:  # of a loop that was closed
            os.close(self._fd)
