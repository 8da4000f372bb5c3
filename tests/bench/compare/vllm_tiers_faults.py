#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vllm_tiers_faults FOLDER [--kills N] [--json]: what a slab of libkvcache and vLLM's own `fs` tier make of the same accidents.

Each tier is made by vLLM's factory and driven as by vllm_tiers.py. Accidents: a process that is killed while it stores, N times; a chunk with one bit flipped; a
chunk whose second half is zeros, as after a loss of power before the disk has it all; a chunk cut short; other weights under the same model name; ten
times as many chunks as the tier should hold. Counted: hits, loads that the tier calls successful, and those with wrong bytes; files and bytes that are left.
"""
import argparse
import itertools
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import time

import numpy as np
import vllm_tiers as common

CHUNK, ROWS = 1 << 18, 64


def content_of(key):
    return np.random.default_rng(list(key)).integers(0, 2**63, CHUNK // 8, dtype=np.int64).view(np.uint8)


class Side:
    """One of both tiers in a folder. `open` and `close` are those of an engine."""

    def __init__(self, name, folder):
        self.name, self.folder, self.tier = name, folder / name, None
        self.folder.mkdir()
        self.memory = np.frombuffer(mmap.mmap(-1, CHUNK * ROWS), np.uint8).reshape(ROWS, CHUNK)
        self.room = CHUNK * ROWS * 2

    def open(self, weights="1"):
        entry = {"libkvcache": {"type": "KvCacheTier", "module_path": "kvcache.integrations.vllm_tier", "url": f"slab:{self.folder}/slab?bytes={self.room}",
                                "weights": weights}, "vllm": {"type": "fs", "root_dir": str(self.folder)}}[self.name]
        for _ in range(1000):  # a killed owner of the slab may still be dying
            try:
                self.tier = common.SecondaryTierFactory.create_secondary_tier(entry, memoryview(self.memory), common.spec_of(CHUNK, ROWS))
                return self
            except Exception as error:
                if type(error).__name__ != "BusyError":
                    raise
                time.sleep(0.01)

    def close(self):
        self.tier.shutdown()

    def store(self, keys):
        for row, key in enumerate(keys):
            self.memory[row] = content_of(key)
        return common.transfer(self.tier, keys, np.arange(len(keys), dtype=np.int32), common.Timed(), 8, False, 0)[1:]

    def check(self, keys):
        """Looks up and loads each key in a job of its own: (hits, loads that succeeded, wrong ones among those)."""
        request, hits = common.ReqContext("check"), []
        self.tier.on_new_request(request)
        for key in keys:
            while (answer := self.tier.lookup(key, request).name) == "RETRY":
                self.tier.on_schedule_end(common.STEP)
                time.sleep(0.001)
                list(self.tier.get_finished_jobs())
            hits += [key] if answer == "HIT" else []
        loaded = wrong = 0
        for number, key in enumerate(hits):
            self.memory[0] = 0
            good = common.transfer(self.tier, [key], np.zeros(1, np.int32), common.Timed(), 1, True, number)[1]
            loaded += good
            wrong += bool(good) and not np.array_equal(self.memory[0], content_of(key))
        self.tier.on_request_finished(request)
        return {"hits": len(hits), "loaded": loaded, "wrong": wrong}

    def damage(self, key, change):
        """Changes the bytes of a stored chunk in the file."""
        content = content_of(key)
        for path in self.folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                place = data.find(content.tobytes())
                if place >= 0:
                    with open(path, "r+b") as file:
                        file.seek(place)
                        new = change(content.copy())
                        file.write(new.tobytes())
                        if self.name == "vllm":
                            file.truncate(place + len(new))
                    return
        raise RuntimeError("the chunk is in no file")

    def left(self):
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return {"files": len(files), "temporary_files": sum(".tmp" in path.name for path in files), "mib": sum(path.stat().st_size for path in files) >> 20}


def flipped(content):
    content[CHUNK // 2] ^= 1
    return content


def halved(content):
    content[CHUNK // 2:] = 0
    return content


def key_of(number):
    return common.make_offload_key(np.random.default_rng(number).bytes(32), 0)


def kills(side, count, draw):
    """Children store the same 96 keys and are killed; the parent checks what they left, at the end for vLLM's tier too."""
    for kill in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            side.open()
            os.write(writer, b"!")
            for begin in itertools.count(kill * 8, 8):
                side.store([key_of((begin + i) % 96) for i in range(8)])
        os.read(reader, 1)
        os.close(reader), os.close(writer)
        time.sleep(draw.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    side.open()
    found = side.check([key_of(i) for i in range(96)])
    side.close()
    return {**found, **side.left()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.folder / f"vllm_tiers_faults-{os.getpid()}"
    folder.mkdir(parents=True)
    result = {}
    try:
        for name in ("libkvcache", "vllm"):
            side, found = Side(name, folder), {}
            found[f"{arguments.kills} kills, 96 chunks"] = kills(side, arguments.kills, random.Random(1))
            for number, (what, change) in enumerate([("one bit flipped", flipped), ("half of it zeros", halved), ("cut short", lambda content: content[:CHUNK // 2])]):
                if what == "cut short" and name == "libkvcache":
                    continue  # its file is never cut: it has one size
                key = key_of(1000 + number)
                side.open().store([key])
                side.close()
                side.damage(key, change)
                found[what] = side.open().check([key])
                side.close()
            side.open(weights="1").store([key_of(2000)])
            side.close()
            found["other weights"] = {"hits": side.open(weights="2").check([key_of(2000)])["hits"]}
            for begin in range(3000, 3000 + 20 * ROWS, ROWS):
                side.store([key_of(i) for i in range(begin, begin + ROWS)])
            side.close()
            found[f"{20 * ROWS * CHUNK >> 20} MiB stored"] = side.left()
            result[name] = found
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
