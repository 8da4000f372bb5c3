# SPDX-License-Identifier: Apache-2.0
"""kvcache.speculation: a toy model with and without drafts, the target's distribution, n-grams, acceptance, bad input."""
import numpy as np
import pytest

import kvcache
from kvcache.speculation import (Acceptance, Draft, Drafts, Verdict, draft_lookup, verdict_moves, verdict_states, verify_greedy,
                                 verify_sampling, verify_typical)

BLOCK, LOOKAHEAD, VOCAB = 4, 8, 50


def next_token(text):
    state = 0
    for token in text:
        state = (state * 31 + token + 7) * 0x9E3779B97F4A7C15 % 2**64 >> 56
    return state * 37 % VOCAB


def guess(rng, text):
    """A tree that is mostly what the model says."""
    tokens, parents, paths = [], [], []
    for _ in range(rng.integers(LOOKAHEAD + 1)):
        parent = int(rng.integers(len(paths) + 1)) - 1
        path = (text if parent < 0 else paths[parent])[:]
        path.append(next_token(path) if rng.random() < 0.6 else int(rng.integers(VOCAB)))
        tokens.append(path[-1]), parents.append(parent), paths.append(path)
    return Drafts(np.array(tokens, np.int32), np.array(parents, np.int32)), paths


def test_greedy_text_and_cache_are_as_without_drafts():
    rng = np.random.default_rng(1)
    prompt = [1, 2, 3, 4, 5, 6]
    with kvcache.Manager(64, BLOCK) as manager, kvcache.Storage(64, 1, 1, 4, dtype="float32", block_size=BLOCK) as storage:
        request = manager.allocate(prompt, lookahead=LOOKAHEAD)
        text, acceptance, moved = prompt[:], Acceptance(), 0

        def slot(position):
            return int(request.block_table()[position // BLOCK]) * BLOCK + position % BLOCK

        def write(position, path):  # the text up to a token, as numbers that fit into its key and value
            row = np.full((1, 1, 4), next_token(path) * 1000 + len(path), np.float32)
            storage.store(row, row, [slot(position)])

        for i in range(len(prompt) - 1):
            write(i, prompt[:i + 1])
        request.commit(len(prompt) - 1)
        while len(text) < 80:
            start, (drafts, paths) = len(text), guess(rng, text)
            write(start - 1, text)
            for i, path in enumerate(paths):
                write(start + i, path)
            verdict = verify_greedy(drafts, [next_token(path) for path in [text, *paths]])
            moves = verdict_moves(drafts, verdict, np.array([start]), np.array([request.block_table()]), BLOCK)
            storage.move_tokens(moves)
            moved += len(moves)
            gained = verdict.tokens(drafts, 0)
            request.append(gained)
            request.commit(start + len(gained) - 1)
            text += gained
            acceptance.add(drafts, verdict)
        expected = prompt[:]
        while len(expected) < len(text):
            expected.append(next_token(expected))
        assert text == expected
        keys, _ = storage.gather([slot(i) for i in range(len(text) - 1)])
        assert keys[..., 0].ravel().tolist() == [next_token(text[:i + 1]) * 1000 + i + 1 for i in range(len(text) - 1)]
        assert moved > 5 and acceptance.num_accepted > 10
        assert acceptance.tried[0] >= acceptance.accepted[0] >= acceptance.accepted[1]
        manager.check()


def test_states_of_hybrid_models_are_those_of_the_accepted_tokens():
    """The state after a text is the text itself."""
    rng = np.random.default_rng(3)
    groups = [kvcache.Group(), kvcache.Group(state=True, pool=1, retention_tokens=BLOCK)]
    with kvcache.Manager([64, 64], BLOCK, groups=groups) as manager:
        request = manager.allocate([1, 2, 3], lookahead=LOOKAHEAD)
        own, states, text = manager.acquire_blocks(LOOKAHEAD + 1, 1), {}, [1, 2, 3]

        def block(tokens):
            return int(request.block_table(1)[(tokens - 1) // BLOCK])

        states[block(3)] = text[:]
        request.commit(3)
        text.append(next_token(text))
        request.append(text[-1:])
        while len(text) < 60:
            start, (drafts, paths) = len(text), guess(rng, text)
            assert states[block(start - 1)] == text[:-1]
            for row, path in enumerate([text, *paths]):
                states[int(own[row])] = path[:]
            verdict = verify_greedy(drafts, [next_token(path) for path in [text, *paths]])
            for source, destination in verdict_states(drafts, verdict, [start], [request.block_table(1)], BLOCK, own[:drafts.num_rows]).tolist():
                states[destination] = states[source]
            text += verdict.tokens(drafts, 0)
            request.append(text[start:])
            request.commit(len(text) - 1)
        expected = [1, 2, 3]
        while len(expected) < len(text):
            expected.append(next_token(expected))
        assert text == expected
        manager.check()


@pytest.mark.parametrize("certain", [False, True])
def test_the_distribution_is_the_targets(certain):
    rng = np.random.default_rng(2)
    p, q = rng.dirichlet(np.ones(5), 2).astype(np.float32)
    n = 200_000
    tokens = np.full(n, q.argmax(), np.int32) if certain else rng.choice(5, n, p=q / q.sum(dtype=np.float64)).astype(np.int32)
    drafts = Drafts(tokens, None, np.arange(n + 1))
    verdict = verify_sampling(drafts, np.tile(p, (2 * n, 1)), rng.random(2 * n), q=None if certain else q[None],
                              q_rows=None if certain else np.zeros(n, np.int64))
    first = np.where(verdict.num_accepted == 1, tokens, verdict.next_tokens)
    expected = p.astype(np.float64) / p.sum(dtype=np.float64) * n
    assert ((np.bincount(first, minlength=5) - expected) ** 2 / expected).sum() < 25


def test_rows_by_ids_and_typical_acceptance():
    drafts = Drafts([3, 1], [-1, 0])
    ids = np.array([[1, 3, -1], [1, 2, 4], [0, -1, -1]], np.int32)
    p = np.array([[0.4, 0.6, 9], [0.5, 0.3, 0.2], [1, 9, 9]], np.float32)
    verdict = verify_sampling(drafts, p, [0.5, 0.59, 0.49], p_ids=ids, vocab=6)
    assert verdict.tokens(drafts, 0) == [3, 1, 0]
    assert verify_sampling(drafts, p, [0.5, 0.61, 0.49], p_ids=ids, vocab=6).tokens(drafts, 0) == [1]
    assert verify_typical(drafts, p, [0.5, 0.9, 0.9], p_ids=ids, vocab=6).tokens(drafts, 0) == [3, 1, 0]


def test_ngrams():
    assert draft_lookup([5, 1, 2, 1, 2], 5).tolist() == [1, 2, 1, 2, 1]
    assert draft_lookup([1, 2, 3], 5).tolist() == []
    index = Draft(3, min_ngram=1, max_ngram=3)
    index.append_many([2, 0], [[1, 2, 1], [7]])
    index.append(0, [7])
    drafts = index.propose([0, 1, 2], 3)
    assert drafts.tokens.tolist() == [7, 7, 7, 2, 1, 2] and drafts.offsets.tolist() == [0, 3, 3, 6]
    index.truncate(0)
    assert index.propose([0, 2], [3, 1]).tokens.tolist() == [2]


def test_length_of_drafts():
    acceptance = Acceptance()
    assert acceptance.best_length([1, 1.1]) == (1, pytest.approx(1.7))
    drafts = Drafts([1], None)
    for _ in range(100):
        acceptance.add(drafts, Verdict(np.array([-1], np.int32), np.array([0], np.uint64), np.array([2], np.int32)))
    assert acceptance.best_length([1, 1.1])[0] == 0
    for _ in range(7):
        acceptance.halve()
    assert acceptance.best_length([1, 1.1])[0] == 1


@pytest.mark.parametrize("call, text", [
    (lambda d: Drafts([1, 2], [-1, 1]), "request 0: the parent of node 1 is 1"),
    (lambda d: Drafts([1, -2], None), "the token of node 1 is -2"),
    (lambda d: Drafts([1, 2], None, [0, 1]), "offsets ends with 1"),
    (lambda d: Drafts([1, 2], [0]), "parents"),
    (lambda d: verify_greedy(d, [1, 2]), "target_tokens"),
    (lambda d: verify_sampling(d, np.full((3, 4), 0.3, np.float32), [0.5] * 3), "sums to 1.2"),
    (lambda d: verify_sampling(d, np.full((3, 4), np.nan, np.float32), [0.5] * 3), "is nan"),
    (lambda d: verify_sampling(d, np.full((2, 4), 0.25, np.float32), [0.5] * 3), "p"),
    (lambda d: verify_sampling(d, np.full((3, 4), 0.25, np.float32), [0.5, 0.5, 1.0]), r"uniforms\[2\] is 1"),
    (lambda d: verify_sampling(d, np.full((3, 4), 0.25, np.float32), [0.5] * 3, q=np.ones((1, 4), np.float32)), "q has 1 rows"),
    (lambda d: verify_typical(d, np.full((3, 4), 0.25, np.float32), [0.5] * 3, 2.0), "epsilon is 2"),
    (lambda d: verdict_moves(d, Verdict(np.array([1, -1], np.int32), np.array([1], np.uint64), None), [0], np.array([[0]], np.int32), 4), "no child of node -1"),
    (lambda d: verdict_states(d, Verdict(np.array([-1, -1], np.int32), np.array([0], np.uint64), None), [3], [[0]], 4, [5, 6]), "states"),
    (lambda d: verdict_states(d, Verdict(np.array([-1, -1], np.int32), np.array([0], np.uint64), None), [3], [[0]], 4, [-1, 5, 6]), r"states\[0\] is -1"),
    (lambda d: Draft(0), "max_rows is 0"),
    (lambda d: Draft(1).append(1, [1]), r"rows\[0\] is 1"),
    (lambda d: draft_lookup([1], 70000), "max_length is 70000"),
    (lambda d: Acceptance().best_length([1, 0]), r"costs\[1\] is 0"),
])
def test_bad_input_is_named(call, text):
    with pytest.raises((kvcache.InvalidArgumentError, ValueError), match=text):
        call(Drafts([1, 2], None))
