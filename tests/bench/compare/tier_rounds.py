# SPDX-License-Identifier: Apache-2.0
"""Rounds of stores, lookups and loads through the tiers of an engine, on one disk: what vllm_tiers.py and lmcache_tiers.py share.

Rounds alternate between the sides, each with new keys, and swap who begins. A round: look up keys that are not there, store them, look them up, load them,
compare every byte. Figures are medians of rounds; a ratio is the median of the rounds' ratios, above 1 if libkvcache is better. `disk` reads as
many bytes of one file with one system call for each chunk, past the page cache, by the threads of the slab: more than that no tier can load that reads the
disk. With --cold, what the system has cached of the files is dropped before the loads, which matters only to a side that uses the page cache.
"""
import argparse
import concurrent.futures
import json
import mmap
import os
import pathlib
import shutil
import statistics
import sys
import time

import numpy as np


class Timed:
    """Seconds and numbers of calls by kind."""

    def __init__(self):
        self.seconds, self.calls = {}, {}

    def __call__(self, kind, function, *arguments):
        begin = time.perf_counter()
        result = function(*arguments)
        self.add(kind, time.perf_counter() - begin)
        return result

    def add(self, kind, seconds, calls=1):
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.calls[kind] = self.calls.get(kind, 0) + calls

    def us(self, kind, calls=None):
        """Microseconds per call, or of all of them per one of `calls`."""
        return self.seconds.get(kind, 0.0) / (calls or self.calls.get(kind, 1)) * 1e6


def parse(doc, slab):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="on the disk to measure")
    parser.add_argument("--chunk-bytes", type=int, default=2 << 20)
    parser.add_argument("--chunks", type=int, default=128, help="of a round")
    parser.add_argument("--job", type=int, default=16, help="chunks of a job")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slab", default=slab, help="further parameters of the slab's URL")
    parser.add_argument("--cold", action="store_true", help="drop the page cache of the files before the loads")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def drop_cache(folder):
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def read_disk(file, memory, threads=16):
    """Bytes per second of reads into the rows of the memory."""
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        read = sum(pool.map(lambda i: os.preadv(descriptor, [memory[i]], i * memory.shape[1]), range(len(memory))))
        seconds = time.perf_counter() - begin
    os.close(descriptor)
    return read / seconds


def one_round(side, memory, number, arguments, folder):
    """side has keys(count); look_up(keys), the number of hits; move(keys, load), (seconds, chunks that were moved); figures(keys)."""
    keys = side.keys(len(memory))
    side.timed = Timed()
    pattern = np.random.default_rng(number).integers(0, 2**63, memory.size // 8, dtype=np.int64).view(np.uint8).reshape(memory.shape)
    misses = side.look_up(keys)
    memory[:] = pattern
    put, stored = side.move(keys, False)
    memory[:] = 0
    hits = side.look_up(keys)
    if arguments.cold:
        drop_cache(folder)
    get, loaded = side.move(keys, True)
    wrong = int((memory != pattern).any(1).sum())
    if misses or stored != len(keys) or hits != len(keys) or loaded != len(keys) or wrong:
        sys.exit(f"{folder.name}: {misses} hits before the stores, then of {len(keys)}: {stored} stores, {hits} hits, {loaded} loads; {wrong} chunks are wrong")
    return {"put_gb_per_s": memory.size / put / 1e9, "get_gb_per_s": memory.size / get / 1e9, **side.figures(keys)}


def ratio(figure, ours, theirs):
    pairs = [(a[figure], b[figure]) for a, b in zip(ours, theirs) if a[figure] and b[figure]]  # 0: no such call in this round
    return statistics.median(a / b if figure.endswith("_per_s") else b / a for a, b in pairs) if pairs else None


def compare(arguments, open_sides):
    """open_sides(folder, memory, bytes of the slab) returns {name: side}, with libkvcache first, whose slab is folder/slab; what another side leaves
    in folder/name is removed after each round."""
    folder = arguments.folder / f"tiers-{os.getpid()}"
    folder.mkdir(parents=True)
    size = arguments.chunk_bytes * arguments.chunks
    memory = np.frombuffer(mmap.mmap(-1, size), np.uint8).reshape(arguments.chunks, -1)
    sides, disk = {}, []
    try:
        sides = open_sides(folder, memory, 3 * size + (64 << 20))
        names = list(sides)
        rounds = {name: [] for name in names}
        for number in range(arguments.rounds + 1):  # the first one warms up
            for name in names if number % 2 else names[::-1]:
                figures = one_round(sides[name], memory, number, arguments, folder)
                if number:
                    rounds[name].append(figures)
                for file in (folder / name).rglob("*"):
                    if file.is_file():
                        file.unlink()
            if number:
                disk.append(read_disk(folder / "slab", memory) / 1e9)
    finally:
        for side in sides.values():
            side.close()
        shutil.rmtree(folder)
    result = {name: {figure: statistics.median(entry[figure] for entry in found) for figure in found[0]} for name, found in rounds.items()}
    result["disk"] = {"get_gb_per_s": statistics.median(disk)}
    for name in names[1:]:
        result[f"ratio to {name}"] = {figure: ratio(figure, rounds[names[0]], rounds[name]) for figure in result[name]}
    result |= {name: getattr(arguments, name) for name in ("chunk_bytes", "chunks", "job", "rounds", "slab", "cold")}
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))
