# SPDX-License-Identifier: Apache-2.0
"""Random calls against a model that knows prefixes as sets of tuples: what has been committed by anyone is hit, as long as nothing had
to be evicted."""

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import kvcache

BLOCK = 4
tokens = st.lists(st.integers(0, 1), max_size=14)


class Lives(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.m = kvcache.Manager(4096, BLOCK)
        self.published = set()
        self.live = []  # [request, tokens, committed]

    def teardown(self):
        self.m.close()

    def hit(self, prompt):
        blocks = 0
        while (blocks + 1) * BLOCK < len(prompt) and tuple(prompt[: (blocks + 1) * BLOCK]) in self.published:
            blocks += 1
        return blocks * BLOCK

    @rule(prompt=tokens)
    def allocate(self, prompt):
        assert self.m.probe(prompt).num_cached == self.hit(prompt)
        request = self.m.allocate(prompt)
        assert request.num_cached == self.hit(prompt)
        self.live.append([request, list(prompt), request.num_cached])

    @precondition(lambda self: self.live)
    @rule(data=st.data(), more=tokens)
    def append_and_commit(self, data, more):
        life = data.draw(st.sampled_from(self.live))
        life[0].append(more)
        life[1] += more
        life[2] = data.draw(st.integers(life[2], len(life[1])))
        life[0].commit(life[2])
        self.published |= {tuple(life[1][:end]) for end in range(BLOCK, life[2] + 1, BLOCK)}

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def fork(self, data):
        life = data.draw(st.sampled_from(self.live))
        self.live.append([life[0].fork(), life[1][: life[2]], life[2]])

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data):
        self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))[0].close()

    @invariant()
    def state_is_as_modelled(self):
        self.m.check()
        for request, known, committed in self.live:
            info = request.info
            assert (info.num_tokens, info.num_committed) == (len(known), committed)
            assert len(request.block_table()) == -(-len(known) // BLOCK)


Lives.TestCase.settings = hypothesis.settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLives = Lives.TestCase
