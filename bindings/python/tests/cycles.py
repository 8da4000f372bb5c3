# SPDX-License-Identifier: Apache-2.0
"""cycles.py [count]: lives of managers with a request and a step, every 64th with a storage, a stream and a tier, then closed. No object and no
memory may be left: exit code 1 if so. A million takes some minutes:

    PYTHONPATH=build/release/python python bindings/python/tests/cycles.py 1000000
"""

import array
import gc
import sys

import kvcache
from kvcache import _native


def rss():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def life(tokens, number):
    with kvcache.Manager(64, max_requests=4, event_capacity=8) as m:
        with m.allocate(tokens) as r, kvcache.Step(m, 2, 4, 8):
            r.commit(len(tokens))
        if number % 64 == 0:
            with kvcache.Manager(8, 4, max_requests=4) as other, kvcache.Scheduler(other, max_running=2, max_tokens=16) as scheduler:
                scheduler.add(tokens[:9], 4, inputs=[(0, 2)])
                tables = scheduler.plan().block_tables
            del tables
            with kvcache.Storage(2, 1, 1, 8) as s, kvcache.Stream() as stream:
                s.zero_blocks(array.array("i", [1]), stream=stream)
                kvcache.StreamEvent().record(stream)
            with kvcache.Tier("memory:?bytes=4096&jobs=2", 256, b"1" * 32) as tier:
                tier.exists(bytes(64))
                tier.submit_put(bytes(32), bytearray(256))


def main(count):
    tokens = array.array("i", range(40))
    before = 0
    for number in range(count):
        if number == count // 4:
            gc.collect()
            before = rss()
        life(tokens, number)
    gc.collect()
    grown, left = rss() - before, _native.kvc_live_objects()
    print(f"{count} lives: {left} objects left, {grown / 2**20:.1f} MiB more memory than after a quarter of them")
    return 1 if left or grown > 8 << 20 else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
