# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of `gpu-check figures`, the most telling ones first. A row: name, kind, program ("graph": in one graph of 32 calls or more, on
layers that no cache holds; "calls": one call after the other), options, and the seconds that it is estimated to take on an H200, 2.5 of them for
the process, its device and its storage."""
import dataclasses
import re

HEADS = "--query-dtype bf16 --heads 32 --kv-heads 8 --head-dim 128"
MLA = "--query-dtype bf16 --latent --kv-heads 1 --head-dim 576 --v-head-dim 512 --block-size 64"
SHAPES = {  # requests, tokens of each, layers
    "64 x 8K": "--batch 64 --context 8192 --layers 4", "16 x 2K": "--batch 16 --context 2048 --layers 32",
    "1 x 8K": "--batch 1 --context 8192 --layers 32", "256 x 1K": "--batch 256 --context 1024 --layers 8",
}
MANY = SHAPES["64 x 8K"]
KINDS = {"decode": "decode, GQA 32 on 8 of 128, page 16 unless said", "MLA": "MLA decode, 576 elements of which 512 are values, page 64",
         "prefill": "prefill, causal", "rows": "rows and blocks", "swap": "blocks to the host and back", "more": "more of decode"}


@dataclasses.dataclass
class Row:
    name: str
    kind: str
    program: str
    options: str
    seconds: float

    def gib(self):
        """Of keys and values, in 16 bits, at least: 0 where the program chooses its layers."""
        def option(name, otherwise):
            found = re.search(rf"{name} (\d+)", self.options)
            return int(found.group(1)) if found else otherwise
        elements = option("--kv-heads", 8) * (option("--head-dim", 128) if "--latent" in self.options else 2 * option("--head-dim", 128))
        narrow = {"fp8": 2, "int8": 2, "int4": 4}.get(next(iter(re.findall(r"--dtype (\w+)", self.options.replace("--query-dtype", ""))), ""), 1)
        return option("--batch", 1) * option("--context", 4096) * option("--layers", 0) * elements * 2 / narrow / 2**30


def decode(dtype, shape, seconds):
    narrow = "" if dtype == "bf16" else f" --dtype {dtype}"
    return Row(f"decode {dtype}, {shape}", "decode", "graph", f"attention {HEADS} {SHAPES[shape]}{narrow}", seconds)


def of_many(name, options, seconds, kind="decode", heads=HEADS):
    return Row(name, kind, "graph", f"attention {heads} {MANY} {options}".strip(), seconds)


def latent(dtype, heads, seconds, more=""):
    return Row(f"MLA {dtype}, {heads} heads, 64 x 8K", "MLA", "graph", f"attention {MLA} --heads {heads} {MANY} --dtype {dtype}{more}", seconds)


def prefill(name, options, seconds):
    return Row(f"prefill {name}", "prefill", "calls", f"attention {HEADS} {options}", seconds)


def heads(query, stored, dim):
    return f"--query-dtype bf16 --heads {query} --kv-heads {stored} --head-dim {dim}"


def swap(way, kib, seconds=4):  # a token has 4 KiB in a layer: a piece is what a block has there
    return Row(f"{way}, pieces of {kib} KiB", "swap", "calls", f"{way} --context 16384 --block-size {kib // 4} --layers 8", seconds)


def rows(what, dtype, more="", name="", seconds=4):  # so many that no cache holds what is read and written
    return Row(f"{what} {dtype}, 32K{name}", "rows", "graph", f"{what} --context 32768 --layers 8 --dtype {dtype}{more}", seconds)


ROWS = [
    decode("bf16", "64 x 8K", 6),
    prefill("bf16, 8K", "--context 8192 --queries 8192", 5),
    latent("bf16", 16, 5),
    rows("store", "bf16"),
    swap("swap-out", 16), swap("swap-in", 16),
    decode("fp8", "64 x 8K", 5), decode("int8", "64 x 8K", 5), decode("int4", "64 x 8K", 5),
    decode("bf16", "1 x 8K", 4), decode("bf16", "16 x 2K", 4), decode("bf16", "256 x 1K", 5),
    of_many("decode bf16, 64 x 8K, page 128", "--block-size 128", 5),
    latent("bf16", 128, 7), latent("bf16", 64, 6),
    prefill("bf16, 1K", "--context 1024 --queries 1024", 4), prefill("bf16, 32K", "--context 32768 --queries 32768 --layers 1", 8),
    of_many("decode bf16, 64 x 8K, 64 heads on 8", "", 6, heads=heads(64, 8, 128)),
    of_many("decode bf16, 64 x 8K, 32 heads on 4", "", 5, heads=heads(32, 4, 128)),
    of_many("decode bf16, 64 x 8K, 4 queries", "--queries 4", 6),
    rows("gather", "bf16"),
    Row("copy bf16, 64K", "rows", "calls", "copy --context 65536", 4),
    rows("store", "fp8"),
    rows("store", "int4"),
    swap("swap-out", 4), swap("swap-in", 4), swap("swap-out", 64), swap("swap-in", 64),
    *(decode(dtype, shape, 4) for shape in ("16 x 2K", "1 x 8K", "256 x 1K") for dtype in ("fp8", "int8", "int4")),
    of_many("decode bf16, 64 x 8K, dim 64", "", 5, heads=heads(32, 8, 64)),
    of_many("decode bf16, 64 x 8K, dim 256", "", 7, heads=heads(32, 8, 256)),
    of_many("decode int8, 64 x 8K, dim 256", "--dtype int8", 6, heads=heads(32, 8, 256)),
    of_many("decode bf16, 64 x 8K, page 64", "--block-size 64", 5),
    of_many("decode bf16, 64 x 8K, 2 queries", "--queries 2", 5), of_many("decode bf16, 64 x 8K, 8 queries", "--queries 8", 6),
    latent("fp8", 16, 5), latent("fp8", 64, 6), latent("fp8", 128, 7),
    prefill("bf16, 512 on 32K", "--context 32768 --queries 512", 4), prefill("int8, 8K", "--context 8192 --queries 8192 --dtype int8", 5),
    Row("store, decode bf16, 64 x 8K", "more", "graph", f"step {HEADS} {MANY}", 6),
    Row("store, decode bf16, 16 x 2K", "more", "graph", f"step {HEADS} {SHAPES['16 x 2K']}", 4),
    Row("store bf16, 64 tokens", "rows", "graph", "store --context 64 --layers 32", 3),
    rows("store", "bf16", " --rope", ", keys rotated"),
    rows("store", "int8"),
    rows("gather", "int4"),
    swap("swap-out", 256), swap("swap-in", 256), swap("swap-out", 2048), swap("swap-in", 2048),
    Row("decode bf16, 1 x 128K", "more", "graph", f"attention {HEADS} --context 131072 --layers 4", 5),
    Row("decode bf16, 32 x 4K, 8 heads on 1", "more", "graph", f"attention {heads(8, 1, 128)} --batch 32 --context 4096 --layers 32", 4),
    Row("decode bf16, 16 x 2K, a plan per layer", "more", "graph", f"attention {HEADS} {SHAPES['16 x 2K']} --own-plans", 4),
    Row("decode bf16, 1 x 8K, by calls", "more", "calls", f"attention {HEADS} --context 8192", 4),
    # The price of blocks that hold all layers: 2 MiB from one to the next.
    Row("decode bf16, 8 x 8K, layers first", "more", "graph", f"attention {HEADS} --batch 8 --context 8192 --layers 32", 5),
    Row("decode bf16, 8 x 8K, blocks first", "more", "graph", f"attention {HEADS} --batch 8 --context 8192 --layers 32 --layout blhnc", 5),
]
