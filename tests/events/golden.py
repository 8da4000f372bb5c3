# SPDX-License-Identifier: Apache-2.0
"""golden.py FOLDER: writes golden_batches.txt and golden_hashes.txt anew: batches of events as vLLM's own classes and msgspec encode them, and hashes
as vLLM's own function makes them. FOLDER holds the wheel of vLLM, or gets it (350 MB). Needs msgspec, pyzmq and cbor2. golden_test.cc has the same
batches."""
import hashlib
import importlib.metadata
import pathlib
import sys

import msgspec

sys.dont_write_bytecode = True
import engines  # noqa: E402

VLLM = "0.33.0"
HERE = pathlib.Path(__file__).resolve().parent
TIME = 1790000000.25


def digest(number):
    return hashlib.sha256(b"block %d" % number).digest()


def tokens(first, count):
    """Of 1, 2, 3 and 5 bytes."""
    return [(first + i) * 7919 % (1 << (7 * (i % 4 + 1))) for i in range(count)]


def extra(number):
    return hashlib.sha256(b"image %d" % number).hexdigest()


def batches(vllm, hashed):
    """name -> (time, events, rank)."""
    stored, removed = vllm.BlockStored, vllm.BlockRemoved

    def store(parent, blocks, first_token, block_size=16, medium="GPU", lora_name=None, **optional):
        return stored(block_hashes=[hashed(digest(b)) for b in blocks], parent_block_hash=None if parent is None else hashed(digest(parent)),
                      token_ids=tokens(first_token, block_size * len(blocks)), block_size=block_size, lora_id=None, medium=medium,
                      lora_name=lora_name, **optional)

    def remove(blocks, medium="GPU", **optional):
        return removed(block_hashes=[hashed(digest(b)) for b in blocks], medium=medium, **optional)

    group = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    window = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 4096}
    lora = "sql-adapter"
    return {
        "plain": ([store(None, [0, 1], 0)], 0),
        "empty": ([], 7),
        "cleared": ([vllm.AllBlocksCleared()], None),
        "groups": ([store(None, [0], 5, **group), store(0, [1, 2], 21, **window), remove([2], group_idx=1), remove([0, 1], group_idx=0),
                    vllm.AllBlocksCleared(), store(None, [3], 0, **group)], 300),
        "keys": ([store(None, [4, 5], 0, lora_name=lora, extra_keys=[(lora,), (lora, (extra(1), 0))], **group),
                  store(5, [6, 7], 9, extra_keys=[None, ((extra(2), 0),)], **group), store(7, [8], 9, lora_name="", extra_keys=[("",)])], 3),
        "cpu": ([store(None, range(20), 1, medium="CPU"), remove(range(40), medium="CPU")], 70000),
    } | {f"many{i}": ([remove([b]) for b in range(i)], 0) for i in (15, 16)}


def arrays(vllm):
    """The classes as they were before events became maps: fields by place, as far as events told a window."""
    kinds = {}
    for name, last in (("BlockStored", "kv_cache_spec_sliding_window"), ("BlockRemoved", "group_idx"), ("AllBlocksCleared", None)):
        fields = []
        for f in msgspec.structs.fields(getattr(vllm, name)):
            fields.append((f.name, f.type) if f.required else (f.name, f.type, f.default))
            if f.name == last:
                break
        kinds[name] = msgspec.defstruct(name, fields, array_like=True, omit_defaults=True, tag=True)
    return type("Arrays", (), kinds)


def main():
    vllm = engines.vllm(engines.wheel("vllm", VLLM, sys.argv[1]))
    encode = msgspec.msgpack.Encoder().encode
    versions = f"# vLLM {VLLM}, " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("msgspec", "cbor2"))
    ways = {"u64": lambda d: int.from_bytes(d, "big") & (2**64 - 1), "bytes": lambda d: d,
            "i64": lambda d: int.from_bytes(d[:8], "big", signed=True)}
    lines = [versions, "# batch, form of events, form of hashes, bytes"]
    for form, classes in (("map", vllm), ("array", arrays(vllm))):
        for way, hashed in ways.items():
            for name, (events, rank) in batches(classes, hashed).items():
                batch = vllm.EventBatch(ts=TIME, events=events, data_parallel_rank=rank)
                lines.append(f"{name} {form} {way} {encode(batch).hex()}")
    (HERE / "golden_batches.txt").write_text("\n".join(lines) + "\n")
    big = vllm.BlockStored(block_hashes=[digest(b) for b in range(64)], parent_block_hash=None, token_ids=[i % 100 for i in range(65536)],
                           block_size=1024, lora_id=None, medium="GPU", lora_name=None)
    big = encode(vllm.EventBatch(ts=TIME, events=[big], data_parallel_rank=0))
    lines = [versions, f"big {len(big)} {hashlib.sha256(big).hexdigest()}"]
    root = vllm.root(vllm.default_seed)
    lines.append(f"root {vllm.default_seed} {root.hex()}")
    lines.append(f"root 1234 {vllm.root('1234').hex()}")
    cases = {"plain": (lambda i: None), "lora": (lambda i: (("lora", "sql", "/adapters/sql"),)),
             "salt": (lambda i: (("cache_salt", "tenant"),) if i == 0 else None),
             "all": (lambda i: (("lora", "sql", "/adapters/sql"), ("mm", extra(i), 0)) + ((("cache_salt", "tenant"),) if i == 0 else ()))}
    for name, keys in cases.items():
        for size in (1, 16, 300):
            parent = root
            for i in range(3):
                parent = vllm.block_hash(parent, tokens(100 * i, size), keys(i))
                lines.append(f"{name} {size} {i} {parent.hex()}")
    (HERE / "golden_hashes.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
