# SPDX-License-Identifier: Apache-2.0
"""Threads: closing under calls, calls side by side, and garbage collection under pressure."""

import gc
import sys
import threading
import time

import numpy as np

import kvcache
from kvcache import Manager
from rounds import rounds


def run_threads(functions):
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_closing_while_other_threads_call_never_pulls_memory_away():
    tokens = np.arange(20000, dtype=np.int32)
    for _ in range(20):
        m = Manager(4096)
        began = threading.Barrier(4)

        def call():
            began.wait()
            try:
                while True:
                    m.allocate(tokens).free()
            except ValueError as error:
                assert "closed" in str(error)

        def close():
            began.wait()
            time.sleep(0.002)
            m.close()

        run_threads([call, call, call, close])


def test_the_interpreter_runs_on_during_a_long_call():
    """A thread that waits for the interpreter lock gets it inside of the call, if the call lets it go: nothing else does, with this switch interval.
    Where the machine is so busy that the thread does not come in time, it is tried again."""
    tokens, interval = np.arange(1 << 20, dtype=np.int32), sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    try:
        with Manager(1, max_request_tokens=len(tokens)) as m:
            for _ in range(1000):
                order, lock = [], threading.Lock()
                lock.acquire()
                thread = threading.Thread(target=lambda: (lock.acquire(), order.append("thread")))  # noqa: B023 - it ends in this round
                thread.start()
                lock.release()
                m.create(tokens).close()
                order.append("call")
                thread.join()
                if order == ["thread", "call"]:
                    return
    finally:
        sys.setswitchinterval(interval)
    assert False, "no thread ever ran beside the call"


def test_many_threads_share_one_manager():
    with Manager(512, 4) as m:
        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(300):
                with m.allocate(rng.integers(0, 3, 30).astype(np.int32)) as r:
                    r.commit(30)
                    r.append(1)

        run_threads([lambda seed=seed: work(seed) for seed in range(4)])
        m.check()
        stats = m.stats
        assert stats.admissions == 1200 and stats.live_requests == 0


def test_no_object_is_left_after_many_lives():
    live = kvcache._native.kvc_live_objects()
    for i in range(3000):
        m = Manager(4)
        kvcache.Step(m, 2, 2, 2)
        m.allocate([1, 2]).close()
        if i % 3:
            m.close()
        m.cycle = m
    del m
    gc.collect()
    assert kvcache._native.kvc_live_objects() == live


def test_many_requests_leave_the_process_as_small_as_before():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    with Manager(4) as m:
        tokens = np.array([1, 2], np.int32)
        for _ in range(1000):
            m.allocate(tokens).close()
        before, count = resident(), rounds(200_000)
        for _ in range(count):
            m.allocate(tokens).close()
        assert resident() - before < (2 << 20) + 16 * count  # what is lost in each would be 32 bytes at least


def test_allocation_in_a_finalizer_during_collection_is_safe():
    class Cycle:
        def __init__(self, m):
            self.request, self.me = m.create([1]), self

    with Manager(4, max_requests=4000) as m:
        gc.collect()
        gc.set_threshold(5)
        try:
            for _ in range(2000):
                Cycle(m)
        finally:
            gc.set_threshold(700)
        gc.collect()
        m.create([1]).close()
        assert m.stats.waiting_requests == 0
