# SPDX-License-Identifier: Apache-2.0
"""A continuous batch with a token budget for each step: prompts are computed in chunks, beside the decode steps of other requests. The pool
is too small for the whole batch. When a request finds no block, the youngest one is preempted; it waits, and is admitted again when there is
room. Extensions are slots only; the ids of new tokens come with the commit. The "KV memory" is an array with one number per slot: what an
attention kernel would read through the tables is compared with what was written to the slots."""

import dataclasses
import sys
from typing import List, Optional

import numpy as np

import kvcache

BLOCKS, BLOCK, BATCH, BUDGET, CHUNK, PROMPT, END, REQUESTS = 20, 16, 4, 48, 32, 90, 130, 10
kv = np.full(BLOCKS * BLOCK, -1, np.int32)


@dataclasses.dataclass(eq=False)
class Sequence:
    """A request of a user."""
    tokens: np.ndarray       # all that it will ever have
    id: int = 0              # 0 until it is admitted for the first time
    row: Optional[int] = None  # of the block tables while it runs
    length: int = PROMPT     # tokens that exist: the prompt and what the model said
    computed: int = 0        # tokens whose keys and values are written
    told: int = PROMPT       # tokens whose ids the library knows

    def compute(self, table: np.ndarray, slots: np.ndarray) -> int:
        """The kernels: keys and values to their slots, then attention over the table. Returns wrong reads."""
        kv[slots] = self.tokens[self.computed: self.computed + len(slots)]
        self.computed += len(slots)
        wrong = np.count_nonzero(kv[slots_of(table, 0, self.computed)] != self.tokens[: self.computed])
        if self.computed == self.length:  # the last known token gives the next one
            self.length += 1
        return wrong


def slots_of(table: np.ndarray, begin: int, end: int) -> np.ndarray:
    positions = np.arange(begin, end)
    return table[positions // BLOCK] * BLOCK + positions % BLOCK


def main() -> int:
    prefix = np.arange(32)  # all prompts share it
    everyone = [Sequence(np.concatenate([prefix, 1000 * q + np.arange(32, END)]).astype(np.int32)) for q in range(REQUESTS)]
    manager = kvcache.Manager(num_blocks=BLOCKS, block_size=BLOCK, watermark_blocks=2)
    step = kvcache.Step(manager, max_requests=BATCH, max_tokens=BATCH * BUDGET, row_stride=END // BLOCK + 1, max_admissions=1,
                        max_prompt_tokens=PROMPT, max_frees=BATCH, max_rows=BATCH)
    step.use(extend_tokens=False, commit_offsets=True, rows=True)
    victim: Optional[Sequence] = None
    done = computed = wrong = 0
    while done < REQUESTS:
        step.retired_step = step.step_id  # synchronous: the last step's kernels have finished
        running: List[Sequence] = [s for s in everyone if s.row is not None]
        waiting = [s for s in everyone if s.row is None and s.length < END]
        budget, frees, preempts = BUDGET, [], []
        brought = 0
        for i, s in enumerate(running):
            step.requests[i], step.rows[i], step.committed[i] = s.id, s.row, s.computed
            news = s.tokens[s.told: s.computed]
            step.commit_tokens[brought: brought + len(news)] = news
            s.told, brought = s.told + len(news), brought + len(news)
            step.commit_offsets[i + 1] = brought
            n = min(s.length - s.computed, budget)
            if s.length == END or s is victim:  # committed, then freed or preempted, by the same step
                (frees if s.length == END else preempts).append(s.id)
                done += s.length == END
                s.row, n = None, 0
            step.extend_offsets[i + 1] = int(step.extend_offsets[i]) + n
            budget -= n
        step.frees[: len(frees)], step.preempts[: len(preempts)] = frees, preempts
        rows = sorted(set(range(BATCH)) - {s.row for s in running})
        admitting = waiting[:1] if victim is None and rows and budget >= CHUNK else []
        for s in admitting:
            step.admit_requests[0], step.rows[len(running)] = s.id, rows[0]
            step.admit_offsets[1] = 0 if s.id else PROMPT
            if not s.id:
                step.admit_tokens[:PROMPT] = s.tokens[:PROMPT]
        step.num_frees, step.num_preempts, step.num_requests, step.num_admissions = len(frees), len(preempts), len(running), len(admitting)
        step.run([kvcache.RequestOptions(slots=CHUNK)] * len(admitting))

        status = step.status[len(frees) + len(preempts):]
        victim = None
        for i, s in enumerate(running):
            if status[i] == kvcache.Status.NO_SPACE:  # it is committed, and tries to extend again in the next step
                victim = [s for s in running if s.row is not None][-1]
            elif status[i] != kvcache.Status.OK:
                raise RuntimeError(kvcache.Status(status[i]))
            elif s.row is not None:
                slots = step.slots[0, int(step.extend_offsets[i]): int(step.extend_offsets[i + 1])]
                computed += len(slots)
                wrong += s.compute(step.block_tables[0, s.row], slots)
        for s in admitting:
            if status[len(running)] == kvcache.Status.NO_SPACE:
                continue  # it waits on
            s.id, s.row, s.computed = int(step.admitted[0]), rows[0], int(step.cached[0])
            table = step.block_tables[0, s.row]
            slots = slots_of(table, s.computed, min(s.computed + CHUNK, s.told))
            computed += len(slots)
            wrong += s.compute(table, slots)
    stats = manager.stats
    manager.check()
    print(f"{done} requests done in {step.step_id} steps: {computed} tokens computed, {stats.preemptions} preemptions, {wrong} wrong reads")
    return int(wrong != 0 or stats.preemptions == 0 or stats.blocks_live != 0)


if __name__ == "__main__":
    sys.exit(main())
