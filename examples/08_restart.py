# SPDX-License-Identifier: Apache-2.0
"""Warm restart: an engine is killed by SIGKILL, and the next one finds the prefixes of its prompts in a file.

    08_restart.py          both lives: starts an engine, kills it, and starts another one
    08_restart.py FILE     one life. If the file has nothing yet, it computes, stores and serves on until you kill it (kill -9).

The second life prints how many tokens it loaded, and compares every byte with what a run without any cache computes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import List

import numpy as np

import kvcache

BLOCKS, BLOCK, LAYERS, HEADS, DIM = 256, 16, 4, 2, 64
SYSTEM = [7 * i % 1000 for i in range(400)]  # what all prompts begin with
PROMPTS = [np.array(SYSTEM + [1000 * q + i for i in range(100 + 40 * q)], np.int32) for q in range(1, 5)]
MODEL, WEIGHTS = b"a model", b"revision 1"  # pages of other weights are never found


def compute(tokens: np.ndarray, begin: int) -> np.ndarray:
    """Stands for the model: keys, or values, of the tokens from `begin` on, each of which follows from all tokens before it."""
    state = np.cumsum(tokens.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))[begin:]
    place = np.arange(LAYERS * HEADS * DIM, dtype=np.uint64).reshape(LAYERS, 1, HEADS, DIM)
    mixed = (state[None, :, None, None] ^ (place * np.uint64(0xBF58476D1CE4E5B9))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def serve(manager: kvcache.Manager, storage: kvcache.Storage, tokens: np.ndarray) -> List[int]:
    """Serves a prompt. Returns its cached tokens, those that were loaded included, and the bytes that are wrong."""
    with manager.allocate(tokens) as request:
        cached, slots = request.num_cached, request.slots(0, len(tokens))
        rows = compute(tokens, cached)
        storage.store(rows, -rows, slots[cached:])
        request.commit(len(tokens))
        right = compute(tokens, 0)  # without any cache
        keys, values = storage.gather(slots)
        wrong = sum(np.count_nonzero(a.view(np.uint8) != b.view(np.uint8)) for a, b in ((keys, right), (values, -right)))
        return [cached, wrong]


def live(file: str) -> int:
    storage = kvcache.Storage(BLOCKS, LAYERS, HEADS, DIM, block_size=BLOCK, dtype="float32")
    with kvcache.Manager(BLOCKS, BLOCK, offload=f"slab:{file}?bytes=16MiB", storages=storage, model=MODEL, weights=WEIGHTS) as manager:
        cached, wrong = np.sum([serve(manager, storage, tokens) for tokens in PROMPTS], axis=0)
        manager.offload.flush()  # the engine is about to be killed
        loaded = manager.offload.stats().loaded_tokens
        print(f"{sum(map(len, PROMPTS))} tokens in {len(PROMPTS)} prompts: {loaded} loaded from {file}, {cached - loaded} shared with other prompts, "
              f"{wrong} wrong bytes, {manager.offload.tier_stats().stored_pages} pages stored", flush=True)
        if loaded == 0:
            print(f"waiting for kill -9 {os.getpid()}", flush=True)
            while True:
                time.sleep(60)
    return int(wrong != 0)


def both_lives(file: str) -> int:
    command = [sys.executable, __file__, file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        print("first life:", first.stdout.readline(), end="")
        ready = first.stdout.readline().startswith("waiting")
        first.kill()  # SIGKILL: it can do nothing about it
    second = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print("second life:", second.stdout, end="")
    blocks = len(set(tuple(tokens[: end]) for tokens in PROMPTS for end in range(BLOCK, len(tokens), BLOCK)))
    return int(not ready or second.returncode != 0 or f" {blocks * BLOCK} loaded" not in second.stdout)


def main() -> int:
    if len(sys.argv) > 1:
        return live(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        return both_lives(str(pathlib.Path(folder) / "kv"))


if __name__ == "__main__":
    sys.exit(main())
