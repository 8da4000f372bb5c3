# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding: drafts, their verification, the accepted path moved into place, drafts by n-grams, and how long the next draft should be.
kvcache/speculation.h is the manual.

    drafts = Drafts(tokens, parents)                               # one tree; offsets=... for many requests
    verdict = verify_greedy(drafts, target_tokens)                 # the model's token of each row
    storage.move_tokens(verdict_moves(drafts, verdict, [start], [request.block_table()], 16))
    request.append(verdict.tokens(drafts, 0))                      # accepted tokens, and the one after them
    request.commit(start + int(verdict.num_accepted[0]))

Results of the model come in rows: for each request first the row after its last known token, then a row for each of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from . import _native
from ._arrays import as_bytes, np, take

if TYPE_CHECKING:
    from ._arrays import Sizes

    Array = Any  # an array, or a sequence of integers

__all__ = ["Acceptance", "Draft", "Drafts", "Verdict", "draft_lookup", "verdict_moves", "verdict_states", "verify_greedy", "verify_sampling",
           "verify_typical"]

_DEPTHS = 32  # KVC_MAX_DRAFT_DEPTHS


class Drafts:
    """Drafts of one or of many requests: trees or chains of tokens. The arrays are copied and checked.

    tokens: int32 [nodes]. parents: int32 [nodes], counted within the request's draft, each less than its node; -1 = the last known token; None =
    chains. offsets: [requests + 1] nodes of request r begin at offsets[r]; None = one request."""

    __slots__ = ("offsets", "tokens", "parents")

    def __init__(self, tokens: Array, parents: Optional[Array] = None, offsets: Optional[Array] = None):
        sizes: Sizes = {}
        self.tokens: Any = np.array(take("draft_tokens", tokens, sizes))
        self.parents: Any = None if parents is None else np.array(take("draft_parents", parents, sizes))
        self.offsets: Any = np.array([0, len(self.tokens)] if offsets is None else take("draft_offsets", offsets), np.uint64)
        if len(self.offsets) == 0 or self.offsets[-1] != len(self.tokens):
            raise ValueError(f"offsets ends with {self.offsets[-1] if len(self.offsets) else 'nothing'}; it must end with the number of nodes, {len(self.tokens)}")
        for array in (self.tokens, self.parents, self.offsets):
            if array is not None:
                array.flags.writeable = False
        _native.kvc_drafts_check(*self._c)

    @property
    def _c(self) -> tuple[Any, Any, Any]:
        return self.offsets, self.tokens, self.parents

    @property
    def num_requests(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        """Rows that a verification needs: a row for each request and for each node."""
        return len(self.tokens) + self.num_requests

    def _sizes(self) -> Sizes:
        return {"nodes": len(self.tokens), "requests": self.num_requests, "rows": self.num_rows}


class Verdict(NamedTuple):
    """What a verification says.

    path: int32 [nodes] the accepted nodes of request r from offsets[r] on, then -1.
    num_accepted: uint64 [requests] how many of them.
    next_tokens: int32 [requests] the model's token after the accepted ones."""

    path: Any
    num_accepted: Any
    next_tokens: Any

    def tokens(self, drafts: Drafts, request: int) -> list[int]:
        """Returns the tokens that a request gains: those of its accepted nodes, and the next one."""
        begin = int(drafts.offsets[request])
        nodes = self.path[begin:begin + int(self.num_accepted[request])]
        return [*drafts.tokens[begin + nodes].tolist(), int(self.next_tokens[request])]


def _empty(drafts: Drafts) -> Verdict:
    return Verdict(np.empty(len(drafts.tokens), np.int32), np.empty(drafts.num_requests, np.uint64), np.empty(drafts.num_requests, np.int32))


def verify_greedy(drafts: Drafts, target_tokens: Array) -> Verdict:
    """Accepts what greedy decoding would say. target_tokens: int32 [rows] the most likely token of each row."""
    verdict = _empty(drafts)
    _native.kvc_verify_greedy(*drafts._c, take("target_tokens", target_tokens, drafts._sizes()), *verdict)
    return verdict


def _rows(drafts: Drafts, p: Array, p_ids: Optional[Array], vocab: int, trusted: bool) -> tuple[Sizes, int, tuple[int, int, Any, Any, int]]:
    sizes = drafts._sizes()
    p = take("p", p, sizes)
    ids = None if p_ids is None else take("p_ids", p_ids, sizes).reshape(-1)
    if ids is None and vocab not in (0, p.shape[1]):
        raise ValueError(f"vocab is {vocab} and p has rows of {p.shape[1]}; without p_ids a row has vocab entries")
    if p_ids is not None and not vocab:
        raise ValueError("vocab is 0; give the size of the vocabulary, as p_ids is not None")
    if p.shape[1] == 0:
        raise ValueError("p has rows of 0 entries; give at least one")
    vocab = vocab or p.shape[1]
    return sizes, vocab, (_native.KVC_PROBABILITIES_TRUSTED if trusted else 0, vocab, as_bytes(p), ids, p.shape[1])


def verify_sampling(drafts: Drafts, p: Array, uniforms: Array, *, q: Optional[Array] = None, q_rows: Optional[Array] = None,
                    p_ids: Optional[Array] = None, q_ids: Optional[Array] = None, vocab: int = 0, trusted: bool = False) -> Verdict:
    """Accepts so that tokens have exactly the distribution of the target (rejection sampling, for chains and trees).

    p: float32 [rows, vocab] what the engine would sample from. uniforms: float64 [rows] independent numbers in [0, 1), new for each call. q: float32
    [q rows, vocab] what nodes were drawn from; None = all nodes are certain (n-grams, argmax, top-k trees). q_rows: int64 [nodes] the row of q of
    each node; -1 = certain; None = node i has row i. p_ids, q_ids: int32, of the shape of p or q: rows have these tokens alone, which rise, -1 from
    the row's end on; give vocab then. trusted: rows are taken to sum to 1, and only those that a token is drawn from are read."""
    sizes, vocab, target = _rows(drafts, p, p_ids, vocab, trusted)
    drawn: tuple[Any, Any, int, int] = (None, None, 0, 0)
    if q is not None:
        q = take("q_of_drafts", q, sizes)
        if q_ids is None and q.shape[1] != vocab or q.shape[1] == 0:
            raise ValueError(f"q has rows of {q.shape[1]}; without q_ids a row has vocab entries, {vocab}")
        drawn = as_bytes(q), None if q_ids is None else take("q_ids", q_ids, sizes).reshape(-1), q.shape[1], q.shape[0]
    rows = None if q_rows is None else take("q_rows", q_rows, sizes)
    verdict = _empty(drafts)
    arguments: Any = (*drafts._c, *target, *drawn, rows, as_bytes(take("uniforms", uniforms, sizes)), *verdict)
    _native.kvc_verify_sampling(*arguments)
    return verdict


def verify_typical(drafts: Drafts, p: Array, uniforms: Array, epsilon: float = 0.09, delta: float = 0.3, *, p_ids: Optional[Array] = None,
                   vocab: int = 0, trusted: bool = False) -> Verdict:
    """Accepts what is likely enough (Medusa): nodes with p > min(epsilon, delta * exp(-entropy of p)), the longest path of them. The tokens do not
    have the distribution of the target. Of the uniforms only the first of each request counts, for its next token."""
    sizes, _, target = _rows(drafts, p, p_ids, vocab, trusted)
    verdict = _empty(drafts)
    arguments: Any = (*drafts._c, *target, as_bytes(take("uniforms", uniforms, sizes)), epsilon, delta, *verdict)
    _native.kvc_verify_typical(*arguments)
    return verdict


def _accepted(drafts: Drafts, verdict: Verdict) -> tuple[Any, Any]:
    sizes = drafts._sizes()
    return take("path", verdict.path, sizes), take("num_accepted", verdict.num_accepted, sizes)


def verdict_moves(drafts: Drafts, verdict: Verdict, starts: Array, block_tables: Array, block_size: int, group: int = 0) -> Any:
    """Returns the moves that bring accepted nodes together, for Storage.move_tokens(): int32 [n, 6] of (group, source, destination, offset,
    new_offset, num_tokens). starts: [requests] position of each draft's first node. block_tables: int32 [requests, entries]."""
    sizes = drafts._sizes()
    first, tables = take("draft_starts", starts, sizes), take("draft_tables", block_tables, sizes)
    moves = np.empty((len(drafts.tokens), 6), np.int32)
    count = _native.kvc_verdict_moves(*drafts._c, *_accepted(drafts, verdict), group, block_size, first, tables.reshape(-1), tables.shape[1], as_bytes(moves))
    return moves[:count]


def verdict_states(drafts: Drafts, verdict: Verdict, starts: Array, block_tables: Array, block_size: int, states: Array) -> Any:
    """Returns the copies that bring groups of recurrent state to the end of the accepted tokens, for Storage.copy_blocks() before the commit: int32
    [requests, 2] of (source, destination). starts, block_tables: as in verdict_moves(), of the group. states: int32 [rows] the block of the engine's
    own with the state after each row's token, such as Manager.acquire_blocks() gives; -1 = none."""
    sizes = drafts._sizes()
    first, tables = take("draft_starts", starts, sizes), take("draft_tables", block_tables, sizes)
    copies = np.empty((drafts.num_requests, 2), np.int32)
    _native.kvc_verdict_states(*drafts._c, *_accepted(drafts, verdict), block_size, first, tables.reshape(-1), tables.shape[1],
                               take("states", states, sizes), as_bytes(copies))
    return copies


def draft_lookup(tokens: Array, max_length: int, *, min_ngram: int = 2, max_ngram: int = 4) -> Any:
    """Drafts what followed the most recent occurrence of the longest suffix of min_ngram .. max_ngram tokens: int32 [max_length], or [0] without
    an occurrence. It reads the whole sequence; Draft keeps an index."""
    if max_length < 0:
        raise ValueError(f"max_length is {max_length}; it must be at least 0")
    draft = np.empty(min(max_length, 1 << 17), np.int32)  # 65,536 is the most; the library says so
    return draft[:_native.kvc_draft_lookup(take("draft_tokens", tokens), min_ngram, max_ngram, draft)]


class Draft:
    """An index of the n-grams of many sequences, each in a row. Any thread may use it.

    max_rows: 1 .. 65536. min_ngram, max_ngram: lengths of suffixes to look up, at most 32; 0 = 2 and 4. row_capacity: tokens of each row that memory is
    taken for at once; a longer row grows."""

    def __init__(self, max_rows: int, *, min_ngram: int = 0, max_ngram: int = 0, row_capacity: int = 0):
        config = _native.kvc_draft_config()
        config.max_rows, config.min_ngram, config.max_ngram, config.row_capacity = max_rows, min_ngram, max_ngram, row_capacity
        self._d: Any = _native.kvc_draft_create(config)

    def append(self, row: int, tokens: Array) -> None:
        """Appends tokens to a row: the prompt, and after each step what the request gained."""
        self.append_many([row], [tokens])

    def append_many(self, rows: Array, tokens: Sequence[Array]) -> None:
        """Appends tokens to rows, each row once; all or none."""
        rows, pieces = np.array(take("draft_rows", rows), np.int32), [take("draft_tokens", one) for one in tokens]
        if len(rows) != len(pieces):
            raise ValueError(f"tokens has {len(pieces)} sequences; it needs {len(rows)}, one for each row")
        starts = np.zeros(len(rows) + 1, np.uint64)
        starts[1:] = np.cumsum([len(one) for one in pieces], dtype=np.uint64)
        _native.kvc_draft_append(self._d, rows, starts, np.concatenate(pieces) if pieces else np.empty(0, np.int32))

    def truncate(self, row: int, num_tokens: int = 0) -> None:
        """Keeps the first tokens of a row; 0 = empty, for another request."""
        _native.kvc_draft_truncate(self._d, row, num_tokens)

    def propose(self, rows: Array, max_lengths: Array) -> Drafts:
        """Returns chains for rows, of at most max_lengths tokens each (or one number for all), as draft_lookup() finds them."""
        rows = np.array(take("draft_rows", rows), np.int32)
        if np.ndim(max_lengths) == 0:
            max_lengths = np.full(len(rows), max_lengths, np.int32)
        lengths = np.array(take("max_lengths", max_lengths, {"draft rows": len(rows)}), np.int32)
        ends = np.zeros(len(rows) + 1, np.uint64)
        tokens = np.empty(int(np.clip(lengths, 0, 1 << 16).sum()), np.int32)
        count = _native.kvc_draft_propose(self._d, rows, lengths, ends, tokens)
        return Drafts(tokens[:count], None, ends)


class Acceptance:
    """Counts of verdicts by depth: kvc_acceptance. One for each class of requests that should be judged alike. One thread at a time."""

    __slots__ = ("_words",)

    def __init__(self) -> None:
        self._words: Any = np.zeros(4 + 2 * _DEPTHS, np.uint64)
        self._words[0] = self._words.nbytes

    def add(self, drafts: Drafts, verdict: Verdict) -> None:
        """Adds the verdict of drafts."""
        _native.kvc_acceptance_add(self._words, *drafts._c, *_accepted(drafts, verdict))

    def halve(self) -> None:
        """Halves all counts: older verdicts count less, and drafts come back after best_length() has said 0."""
        _native.kvc_acceptance_halve(self._words)

    def best_length(self, costs: Array) -> tuple[int, float]:
        """Returns the length of drafts with the most expected tokens per cost, and the expected tokens of a step. costs: float64 [n + 1] cost of a
        step with a draft of 0, 1, ... n nodes, in any unit."""
        length, expected = np.empty(1, np.int32), np.empty(1)
        _native.kvc_acceptance_length(self._words, as_bytes(take("costs", costs)), length, as_bytes(expected))
        return int(length[0]), float(expected[0])

    num_drafts = property(lambda self: int(self._words[1]), doc="Drafts with at least one node.")
    num_nodes = property(lambda self: int(self._words[2]), doc="Their nodes.")
    num_accepted = property(lambda self: int(self._words[3]), doc="Accepted nodes.")

    @property
    def tried(self) -> list[int]:
        """Drafts in which each depth was tried: all nodes above it were accepted, and it has a node."""
        return [int(count) for count in self._words[4:4 + _DEPTHS]]

    @property
    def accepted(self) -> list[int]:
        """Drafts in which a node of each depth was accepted."""
        return [int(count) for count in self._words[4 + _DEPTHS:]]
