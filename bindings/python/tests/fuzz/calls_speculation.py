# SPDX-License-Identifier: Apache-2.0
"""Calls of kvcache.speculation: trees of two requests over four tokens."""

import numpy as np

from kvcache.speculation import (Acceptance, Draft, Drafts, Verdict, draft_lookup, verdict_moves, verdict_states, verify_greedy, verify_sampling,
                                 verify_typical)
from world import BLOCK, call, need

VOCAB = 4


def drafts(w, hostile=False):
    sizes = [w.rng.randrange(5) for _ in range(2)]
    parents = [w.rng.randrange(-1, i) for size in sizes for i in range(size)]
    arrays = w.ids(len(parents)), np.array(parents, np.int32), np.array([0, sizes[0], sum(sizes)])
    tokens, parents, offsets = map(w.array, arrays) if hostile else arrays
    return Drafts(tokens, w.rng.choice((parents, parents, parents, None)), offsets)


def verdict(w, d, hostile=False):
    made = verify_greedy(d, w.ids(d.num_rows))
    return Verdict(w.array(made.path), w.array(made.num_accepted), w.rng.choice((made.next_tokens, None))) if hostile else made


def need_path(d, v):
    """Accepted nodes are a path from the root of each request."""
    for r in range(d.num_requests):
        begin, at = int(d.offsets[r]), -1
        for node in v.path[begin: begin + int(v.num_accepted[r])].tolist():
            need((node - 1 if d.parents is None else d.parents[begin + node]) == at, "a path that is none")
            at = node
        need(len(v.tokens(d, r)) == v.num_accepted[r] + 1, "tokens of a verdict")


def one_hot(w, rows):
    p = np.zeros((rows, VOCAB), np.float32)
    p[np.arange(rows), w.ids(rows)] = 1
    return p


@call("Drafts")
@call("Drafts.num_requests")
@call("Drafts.num_rows")
def make_drafts(w):
    d = drafts(w, True)
    need(d.num_rows == len(d.tokens) + d.num_requests, "rows")


@call("verify_greedy")
@call("Verdict.tokens")
def greedy(w):
    d = drafts(w)
    need_path(d, verify_greedy(d, w.array(w.ids(d.num_rows))))


@call("verify_sampling")
def sampling(w):
    d = drafts(w)
    nodes, p, more = len(d.tokens), one_hot(w, d.num_rows), {}
    if w.rng.random() < 0.3:
        more.update(q=w.array(np.full((2, VOCAB), 0.25, np.float32)), q_rows=w.array(np.array([w.rng.randrange(-1, 2) for _ in range(nodes)], np.int64)))
    if w.rng.random() < 0.3:
        more.update(p_ids=w.array(np.tile(np.arange(VOCAB, dtype=np.int32), (d.num_rows, 1))), vocab=w.number(VOCAB))
    uniforms = np.array([w.rng.random() for _ in range(d.num_rows)])
    need_path(d, verify_sampling(d, w.array(p), w.array(uniforms), trusted=w.rng.choice((False, False, True, None, "x")), **more))


@call("verify_typical")
def typical(w):
    d = drafts(w)
    uniforms = np.array([w.rng.random() for _ in range(d.num_rows)])
    need_path(d, verify_typical(d, w.array(one_hot(w, d.num_rows)), w.array(uniforms), w.h.real(0.3), w.h.real(0.5)))


@call("verdict_moves")
def moves(w):
    d = drafts(w)
    starts, tables = np.array([w.rng.randrange(9) for _ in range(2)], np.uint64), w.ids(8, 30).reshape(2, 4)
    made = verdict_moves(d, verdict(w, d, True), w.array(starts), w.array(tables), w.number(BLOCK), w.number(0))
    need(len(made) <= len(d.tokens), "more moves than nodes")


@call("verdict_states")
def states(w):
    d = drafts(w)
    starts, tables, own = np.array([1 + w.rng.randrange(9) for _ in range(2)], np.uint64), w.ids(8, 30).reshape(2, 4), w.ids(d.num_rows, 30)
    made = verdict_states(d, verdict(w, d, True), w.array(starts), w.array(tables), w.number(BLOCK), w.array(own))
    need(made.shape == (2, 2), "a copy for each request")


@call("draft_lookup")
def lookup(w):
    made = draft_lookup(w.array(w.ids(w.rng.randrange(1, 20), 2)), w.number(3), min_ngram=w.number(1), max_ngram=w.number(3))
    need(len(made) <= 65536, "a long draft")


@call("Draft")
@call("Draft.append")
@call("Draft.append_many")
@call("Draft.truncate")
@call("Draft.propose")
def draft(w):
    rows = w.number(3)
    index = Draft(rows if isinstance(rows, int) and rows < 100 else 3, min_ngram=w.number(1), max_ngram=w.number(3))
    index.append(w.number(0), w.array(w.ids(12, 2)))
    index.append_many(w.array(np.array([2, 0], np.int32)), [w.array(w.ids(3)), w.array(w.ids(4))])
    index.truncate(w.number(2), w.number(2))
    made = index.propose(w.array(np.array([0, 1, 2], np.int32)), w.rng.choice((w.number(3), w.array(np.array([5, 0, 2], np.int32)))))
    need(len(made.tokens) <= 65536 * made.num_requests, "long drafts")


@call("Acceptance")
@call("Acceptance.add")
@call("Acceptance.halve")
@call("Acceptance.best_length")
@call("Acceptance.num_drafts")
@call("Acceptance.num_nodes")
@call("Acceptance.num_accepted")
@call("Acceptance.tried")
@call("Acceptance.accepted")
def acceptance(w):
    counts, d = Acceptance(), drafts(w)
    counts.add(d, verdict(w, d, True))
    need(counts.num_nodes == len(d.tokens) and counts.num_drafts <= 2, "counts")
    need(counts.num_accepted == sum(counts.accepted) and counts.tried[0] >= counts.accepted[0], "counts of depths")
    counts.halve()
    length, tokens = counts.best_length(w.array(np.array([1, 1.1, 1.2])))
    need(length >= 0 and tokens >= 1, "a length")
