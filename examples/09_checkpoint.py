# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: an engine saves what it has cached, twice, and ends. Another one, with a larger pool, goes on where it stopped.

    09_checkpoint.py            both engines, each in a process of its own
    09_checkpoint.py FOLDER     one engine: it restores the newest checkpoint of the folder if there is one, and saves what it has at its end

The second save writes only pages that the first one has not. The second engine compares every byte with what a run without any cache computes."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import kvcache

BLOCK, LAYERS, HEADS, DIM = 16, 4, 2, 64
SYSTEM = [7 * i % 1000 for i in range(400)]  # what all prompts begin with
PROMPTS = [np.array(SYSTEM + [1000 * q + i for i in range(100 + 40 * q)], np.int32) for q in range(1, 5)]
NAMES = {"model": b"a model", "weights": b"revision 1"}  # a checkpoint of other weights is refused


def compute(tokens: np.ndarray, begin: int) -> np.ndarray:
    """Stands for the model: keys, or values, of the tokens from `begin` on, each of which follows from all tokens before it."""
    state = np.cumsum(tokens.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))[begin:]
    place = np.arange(LAYERS * HEADS * DIM, dtype=np.uint64).reshape(LAYERS, 1, HEADS, DIM)
    mixed = (state[None, :, None, None] ^ (place * np.uint64(0xBF58476D1CE4E5B9))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def serve(manager: kvcache.Manager, storage: kvcache.Storage, tokens: np.ndarray) -> tuple[int, int]:
    """Serves a prompt. Returns its cached tokens, and the bytes of all its tokens that are wrong."""
    with manager.allocate(tokens) as request:
        cached, slots = request.num_cached, request.slots(0, len(tokens))
        rows = compute(tokens, cached)
        storage.store(rows, -rows, slots[cached:])
        request.commit(len(tokens))
        right = compute(tokens, 0)  # without any cache
        keys, values = storage.gather(slots)
        return cached, sum(np.count_nonzero(a.view(np.uint8) != b.view(np.uint8)) for a, b in ((keys, right), (values, -right)))


def engine(folder: str) -> int:
    restart = bool(pathlib.Path(folder).is_dir() and kvcache.list_checkpoints(folder))
    blocks = 512 if restart else 256
    manager = kvcache.Manager(blocks, BLOCK)
    storage = kvcache.Storage(blocks, LAYERS, HEADS, DIM, block_size=BLOCK, dtype="float32")
    if restart:
        info = kvcache.restore_checkpoint(manager, storage, folder, **NAMES).info
        print(f"restored {info.num_pages} pages of {info.page_bytes // info.num_pages} bytes")
    cached = wrong = 0
    for i, tokens in enumerate(PROMPTS):
        hit, bad = serve(manager, storage, tokens)
        cached, wrong = cached + hit, wrong + bad
        if i % 2 == 1 and not restart:  # while the engine serves, every now and then
            saved = kvcache.save_checkpoint(manager, storage, folder, keep_last=2, **NAMES)
            print(f"saved {saved.num_pages} pages, of which {saved.new_pages} are new")
    print(f"{sum(map(len, PROMPTS))} tokens in {len(PROMPTS)} prompts: {cached} cached, {wrong} wrong bytes")
    full = sum((len(tokens) - 1) // BLOCK * BLOCK for tokens in PROMPTS)  # all that can be: a hit leaves a token to compute
    return int(wrong != 0 or (restart and cached != full))


def both_engines(folder: str) -> int:
    return max(subprocess.run([sys.executable, __file__, folder], check=False).returncode for _ in range(2))


def main() -> int:
    if len(sys.argv) > 1:
        return engine(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        return both_engines(str(pathlib.Path(folder) / "checkpoints"))


if __name__ == "__main__":
    sys.exit(main())
