# SPDX-License-Identifier: Apache-2.0
"""Request traces in Mooncake's JSONL format: input_length, output_length, and hash_ids, one per 512 prompt tokens. Equal ids mean equal text
with an equal prefix. A trace has no tokens: every replay of this project derives them from the ids by the same rule."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Iterable

from ._arrays import np

TOKENS_PER_HASH_ID = 512
VOCAB_SIZE = 128000


@dataclass(frozen=True)
class TraceRequest:
    """One request: its lengths in tokens, and the hash_ids of its prompt. An engine produces at least one token."""

    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]

    @property
    def num_outputs(self) -> int:
        """Tokens that an engine produces: output_length, at least 1."""
        return max(1, self.output_length)


def _whole(line: dict[str, Any], key: str, where: str, low: int, high: int) -> int:
    value = line.get(key)
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{where}: {key} is {value!r:.40}; give a whole number from {low} to {high}")
    return value


def read_trace(path: str | os.PathLike[str], max_requests: int = 0) -> list[TraceRequest]:
    """Reads up to max_requests requests (0 = all). Raises ValueError with file and line."""
    if max_requests < 0:
        raise ValueError(f"max_requests is {max_requests}; it must be at least 0")
    requests: list[TraceRequest] = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if max_requests and len(requests) == max_requests:
                break
            if not text.strip():
                continue
            where = f"{path}:{number}"
            try:
                line = json.loads(text)
            except ValueError as error:
                raise ValueError(f"{where}: not JSON ({error}); repair or remove the line") from None
            if not isinstance(line, dict):
                raise ValueError(f"{where}: not a JSON object; repair or remove the line")
            length = _whole(line, "input_length", where, 1, 1 << 24)
            outputs = _whole(line, "output_length", where, 0, 1 << 20)
            ids = line.get("hash_ids")
            needed = -(-length // TOKENS_PER_HASH_ID)
            if not isinstance(ids, list) or len(ids) < needed or any(type(i) is not int or not 0 <= i < 1 << 55 for i in ids[:needed]):
                raise ValueError(f"{where}: hash_ids must be {needed} whole numbers below 2^55, one per 512 prompt tokens")
            requests.append(TraceRequest(length, outputs, tuple(ids[:needed])))
    if not requests:
        raise ValueError(f"{path}: no requests; give a trace with one JSON object per line")
    return requests


def _splitmix64(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def _tokens(seeds: np.ndarray) -> np.ndarray:
    return (_splitmix64(seeds) % np.uint64(VOCAB_SIZE)).astype(np.int32)


def prompt_tokens(request: TraceRequest) -> np.ndarray:
    """int32 [input_length]."""
    bases = np.array(request.hash_ids, np.uint64)[:, None] * np.uint64(TOKENS_PER_HASH_ID)
    return _tokens((bases + np.arange(TOKENS_PER_HASH_ID, dtype=np.uint64)).reshape(-1)[: request.input_length])


def output_tokens(index: int, request: TraceRequest) -> np.ndarray:
    """int32 [num_outputs] of request number `index` of the trace."""
    return _tokens(np.uint64((1 << 40) + (index << 20)) + np.arange(request.num_outputs, dtype=np.uint64))


def longest(requests: Iterable[TraceRequest]) -> int:
    """Tokens of the longest request, outputs included."""
    return max(request.input_length + request.num_outputs for request in requests)
