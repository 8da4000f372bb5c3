# SPDX-License-Identifier: Apache-2.0
"""python -m kvcache info | models | estimate | replay | plot. Results go to standard output, progress to standard error."""

from __future__ import annotations

import argparse
import fractions
import json
import os
import re
import sys
import time
from typing import Any, Callable, Optional, Sequence

import kvcache
from kvcache._replay import MAX_BLOCKS, MAX_CONCURRENCY, ReplayResult, replay
from kvcache.trace import read_trace


def _number(low: int, high: int) -> Callable[[str], int]:
    """For an option: reads a whole number of this range."""

    def read(text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,30}", text) and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text:.40} is no whole number from {low} to {high}")

    return read


def _bytes(text: str) -> int:
    """A number of bytes: 24GiB, 512MiB, 80GB or digits."""
    parts = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,6})?) ?([KMGT]?)(i?)B?", text)
    if parts:
        number, power, binary = parts[1], " KMGT".index(parts[2] or " "), parts[3]
        size = int(fractions.Fraction(number) * (1024 if binary else 1000) ** power)
        if 0 < size < 1 << 64 and not (binary and not power):
            return size
    raise argparse.ArgumentTypeError(f"{text:.40} is no amount of memory; give one such as 24GiB, 1.5TB or 65536")


class _Progress:
    """A line on standard error, if that is a terminal: how far a replay is, and how long the rest takes if it goes on like this."""

    def __init__(self, total: int, label: str):
        self.total, self.label, self.visible = total, label, sys.stderr.isatty()
        self.begin = self.last = time.monotonic()

    def __call__(self, done: int) -> None:
        if not self.visible:
            return
        now = time.monotonic()
        if now - self.last < 0.1:
            return
        self.last = now
        left = int((now - self.begin) / max(done, 1) * (self.total - done))
        print(f"\r\033[K{self.label}: {done:,} of {self.total:,} requests, {left // 60}:{left % 60:02} left", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _print(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(values, indent=2))
        return
    width = max(map(len, values))
    for name, value in values.items():
        print(f"{name:<{width}}  {value:,}" if isinstance(value, int) else f"{name:<{width}}  {value}")


def _info(args: argparse.Namespace) -> None:
    _print({"version": kvcache.__version__, "build": kvcache.build_info()}, args.json)


_COLUMNS = (("name", "model"), ("num_layers", "layers"), ("num_kv_heads", "KV heads"), ("head_dim", "head dim"), ("latent_dim", "latent"),
            ("window_tokens", "window"), ("num_window_layers", "in layers"), ("num_state_layers", "states"), ("cross_tokens", "encoder"),
            ("max_context", "context"), ("bytes_per_token", "bytes a token"))


def _models(args: argparse.Namespace) -> None:
    rows = []
    for model in kvcache.models():
        answer = model.estimate()
        rows.append({"name": model.name, "num_layers": model.num_layers, "num_q_heads": model.num_q_heads, "num_kv_heads": model.num_kv_heads,
                     "head_dim": model.head_dim, "v_head_dim": model.v_head_dim, "latent_dim": model.latent_dim, "vocab_size": model.vocab_size,
                     "window_tokens": model.window_tokens, "num_window_layers": answer.num_window_layers,
                     "num_state_layers": answer.num_state_layers, "state_bytes": answer.state_block_bytes,
                     "num_cross_layers": answer.num_cross_layers, "cross_tokens": model.cross_tokens, "max_context": model.max_context,
                     "bytes_per_token": answer.bytes_per_token})
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{_COLUMNS[0][1]:<22}" + "".join(f"{title:>{len(title) + 3}}" for _, title in _COLUMNS[1:]))
    for row in rows:
        print(f"{row['name']:<22}" + "".join(f"{row[key] or '-':>{len(title) + 3}}" for key, title in _COLUMNS[1:]))
    print("\nBytes of one token in all layers in fp16 or bf16; states: layers with a state instead of these; encoder: tokens of cross-attention.")


def _estimate(args: argparse.Namespace) -> None:
    model = kvcache.Model.from_config(args.model) if os.path.exists(args.model) else kvcache.find_model(args.model)
    answer = model.estimate(args.dtype, tokens=args.context, num_sequences=args.batch, budget_bytes=args.budget,
                            block_size=args.block_size)
    _print({"model": model.name, **answer._asdict()}, args.json)


def _run(trace: list[Any], num_blocks: int, args: argparse.Namespace) -> ReplayResult:
    progress = _Progress(len(trace), f"{num_blocks:,} blocks")
    try:
        return replay(trace, num_blocks, block_size=args.block_size, concurrency=args.concurrency, progress=progress)
    finally:
        progress.close()


def _replay(args: argparse.Namespace) -> None:
    _print(_run(read_trace(args.trace, args.requests), args.num_blocks, args).summary(), args.json)


def _plot(args: argparse.Namespace) -> None:
    """Hit rate over capacity; and of the largest capacity, occupancy over time and latency percentiles."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise ValueError(f"plot needs matplotlib ({error}): pip install 'kvcache[plot]'") from None

    trace = read_trace(args.trace, args.requests)
    results = [_run(trace, blocks, args) for blocks in sorted(args.num_blocks)]
    figure, (hits, occupancy, latency) = pyplot.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
    hits.plot([r.num_blocks for r in results], [100 * r.hit_rate for r in results], marker="o")
    for r in results:
        if r.rejected:
            hits.annotate(f"{r.rejected} too long", (r.num_blocks, 100 * r.hit_rate), xytext=(8, 0), textcoords="offset points", va="top", fontsize="small")
    hits.set(title="Prefix hit rate", xlabel="blocks", ylabel="% of prompt tokens", xscale="log", ylim=(0, None))
    hits.set_xticks([r.num_blocks for r in results], [f"{r.num_blocks:,}" for r in results])
    hits.minorticks_off()
    last = results[-1]
    steps, held, cached = zip(*last.occupancy) if last.occupancy else ((), (), ())
    occupancy.stackplot(steps, held, cached, labels=("held by requests", "cached"))
    occupancy.set(title=f"Occupancy of {last.num_blocks} blocks", xlabel="decode step", ylabel="blocks")
    occupancy.legend(loc="lower right")
    percents = [50, 90, 95, 99, 99.9]
    for which, label in (("admit", "create, admit, commit a prompt"), ("step", f"decode step, up to {args.concurrency} requests")):
        latency.plot([str(p) for p in percents], [last.percentile_us(which, p) for p in percents], marker="o", label=label)
    latency.set(title="Time of a call from Python", xlabel="percentile", ylabel="microseconds", yscale="log")
    latency.legend()
    figure.savefig(args.output, dpi=120)
    print(f"kvcache: wrote {args.output}", file=sys.stderr)
    _print({str(r.num_blocks): round(r.hit_rate, 4) for r in results}, args.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kvcache", description=__doc__.split(". ")[0])
    commands = parser.add_subparsers(required=True)

    def command(name: str, function: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help)
        sub.set_defaults(function=function)
        sub.add_argument("--json", action="store_true", help="print JSON")
        return sub

    command("info", _info, "version, build and features of the library")
    command("models", _models, "the models that estimate knows")
    estimate = command("estimate", _estimate, "memory of a model's KV cache, and what fits into a budget")
    estimate.add_argument("model", help="name of a preset, such as llama-3.1-8b, or the path of a Hugging Face config.json or its folder")
    estimate.add_argument("--dtype", default="float16", help="how keys and values are stored [float16]")
    estimate.add_argument("--context", type=_number(1, 1 << 40), default=0, help="tokens of each sequence [the model's context]")
    estimate.add_argument("--batch", type=_number(1, 1 << 40), default=1, help="sequences, sharing nothing [1]")
    estimate.add_argument("--budget", type=_bytes, default=0, help="memory for blocks, such as 24GiB or 80GB; also says what fits")
    estimate.add_argument("--block-size", type=_number(1, 1024), default=16, help="tokens per block [16]")
    for name, function, help, many in (("replay", _replay, "drive the library with a trace, and count", False),
                                       ("plot", _plot, "replay with several capacities, and draw a PNG", True)):
        sub = command(name, function, help)
        sub.add_argument("trace", help="Mooncake JSONL file")
        sub.add_argument("--requests", type=_number(1, 0xFFFFFFFF), default=0, help="replay only the first so many requests [all]")
        sub.add_argument("--num-blocks", type=_number(1, MAX_BLOCKS), nargs="+" if many else None,
                         default=[1000, 10000, 100000] if many else 100000,
                         help="blocks of the pool, one number for each replay [1000 10000 100000]" if many else "blocks of the pool [100000]")
        sub.add_argument("--block-size", type=_number(1, 1024), default=16, help="tokens per block [16]")
        sub.add_argument("--concurrency", type=_number(1, MAX_CONCURRENCY), default=16, help="most requests at a time [16]")
        if many:
            sub.add_argument("-o", "--output", default="kvcache.png", help="file to write [kvcache.png]")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    args = _parser().parse_args(arguments)
    try:
        args.function(args)
    except (kvcache.KvCacheError, ValueError, OverflowError, OSError) as error:
        print(f"kvcache: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
