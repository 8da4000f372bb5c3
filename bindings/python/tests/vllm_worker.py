# SPDX-License-Identifier: Apache-2.0
"""A worker of vLLM without a model: it keeps block tables as vLLM's model runner does, writes each token to its slot, and samples what follows from
the tokens that it reads from its slots. A wrong block, position or token gives another answer than `expected`."""

from vllm.v1.outputs import DraftTokenIds
from vllm_engine import BLOCK, model_output

VOCAB = 997


def sample(tokens):
    """The token after these."""
    return hash(tuple(tokens)) % VOCAB


def expected(prompt, count, stops=()):
    """What a request gets, whoever runs beside it."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(sample(tokens))
        if tokens[-1] in stops:
            break
    return tokens[len(prompt):]


class Held:
    """A request as the worker knows it."""

    def __init__(self, tokens, blocks):
        self.tokens, self.blocks = tokens, blocks


class Worker:
    """kinds: of the groups, as vllm_engine.layout() takes them. right_drafts: of 10 drafts so many are what the model says."""

    def __init__(self, kinds=(0,), v2=False, num_drafts=0, rng=None, right_drafts=7):
        self.kinds, self.v2, self.num_drafts, self.rng, self.right_drafts = kinds, v2, num_drafts, rng, right_drafts
        self.requests, self.memory, self.written = {}, [{} for _ in kinds], 0
        self.drafts = None

    def run(self, out):
        """Computes a step. Returns what a model runner returns."""
        for name in out.finished_req_ids | (out.preempted_req_ids or set() if self.v2 else set()):
            self.requests.pop(name, None)
        starts = {}
        for new in out.scheduled_new_reqs:
            assert new.req_id not in self.requests, f"{new.req_id} is new and known"
            tokens = new.prefill_token_ids if self.v2 else new.prompt_token_ids
            self.requests[new.req_id] = Held(list(tokens), [list(ids) for ids in new.block_ids])
            starts[new.req_id] = new.num_computed_tokens
        cached = out.scheduled_cached_reqs
        for i, name in enumerate(cached.req_ids):
            held, added = self.requests[name], cached.new_block_ids[i]
            starts[name] = cached.num_computed_tokens[i]
            if name in cached.resumed_req_ids:
                held.blocks = [list(ids) for ids in added]
            elif added is not None:
                for table, ids in zip(held.blocks, added):
                    table.extend(ids)
            if name in cached.resumed_req_ids:  # what was sampled and then dropped is forgotten
                held.tokens = list(cached.all_token_ids[name])
            elif name in cached.all_token_ids:
                assert held.tokens[: len(cached.all_token_ids[name])] == cached.all_token_ids[name]
        assert set(starts) == set(out.num_scheduled_tokens)
        assert out.total_num_scheduled_tokens == sum(out.num_scheduled_tokens.values())
        sampled = [self._compute(name, starts[name], count, out.scheduled_spec_decode_tokens.get(name, [])) for name, count in out.num_scheduled_tokens.items()]
        if self.num_drafts:
            names = [name for name, tokens in zip(out.num_scheduled_tokens, sampled) if tokens]
            self.drafts = DraftTokenIds(names, [self._draft(self.requests[name].tokens) for name in names])
        return model_output(out, sampled)

    def _compute(self, name, start, count, drafts):
        held = self.requests[name]
        known = len(held.tokens)
        tokens = held.tokens + drafts
        end = start + count
        assert start < end <= len(tokens), f"{name}: tokens {start} to {end} of {len(tokens)}"
        assert not drafts or end == len(tokens)
        for group, table in enumerate(held.blocks):
            for position in range(start, end):
                block = table[position // BLOCK]
                assert block > 0, f"{name} writes token {position} to the null block"
                self.memory[group][block, position % BLOCK] = tokens[position]
        self.written += count
        if end < known:
            return []
        context = self._read(held, known, end)
        got = []
        for draft in [*drafts, None]:
            got.append(sample(context + got))
            if draft != got[-1]:
                break
        held.tokens = held.tokens + got
        return got

    def _read(self, held, known, end):
        """The known tokens as they are in the slots, from those groups that still have them."""
        context = [None] * known
        for group, (kind, table) in enumerate(zip(self.kinds, held.blocks)):
            last = known - 1
            first = last // kind[1] * kind[1] if isinstance(kind, tuple) else max(0, last - kind + 1) if kind else 0
            for position in range(first, known):
                token = self.memory[group][table[position // BLOCK], position % BLOCK]
                assert context[position] in (None, token), f"groups differ in token {position}"
                context[position] = token
        if None in context:  # a model of windows alone
            unread = context.count(None)
            context[:unread] = held.tokens[:unread]
        return context

    def _draft(self, tokens):
        drafts = []
        for _ in range(self.rng.randint(0, self.num_drafts)):
            drafts.append(sample(tokens + drafts) if self.rng.randrange(10) < self.right_drafts else self.rng.randrange(VOCAB))
        return drafts
