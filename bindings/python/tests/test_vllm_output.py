# SPDX-License-Identifier: Apache-2.0
"""Plans as vLLM's SchedulerOutput. golden_vllm_output.json has the outputs of a fixed run, for both of vLLM's model runners, field by field: vLLM is not
needed to compare them; KVC_TEST_WRITE=1 writes them anew. With vLLM 0.33 its dataclasses take them, and its own scheduler gives the same plans."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest

import kvcache
from kvcache.integrations.vllm_output import PlanOutputs, vllm_output

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden_vllm_output.json"
SHARED = list(range(100, 110))


class Run:
    """Every request gets the token 7, then 8, and so on. outputs: those of all steps."""

    def __init__(self, v2, blocks=15, **options):
        self.manager = kvcache.Manager(blocks, 4, null_block=True, partial_reuse=True)
        self.scheduler = kvcache.Scheduler(self.manager, max_running=6, max_tokens=14, **options)
        self.built = PlanOutputs(self.scheduler, 4, v2=v2)
        self.ids, self.plans, self.outputs = {}, [], []

    def add(self, name, prompt, new, inputs=()):
        id = self.scheduler.add(prompt, new, inputs=[one[:2] for one in inputs])
        self.built.add(id, name, prompt, inputs=inputs)
        self.ids[name] = id

    def plan(self):
        plan = self.scheduler.plan()
        self.outputs.append(self.built.take(plan))
        if plan.num_items:
            self.plans.append(plan)
        return plan.num_items

    def finish(self, accepted=0):
        plan = self.plans.pop(0)
        offsets, tokens = [0], []
        for samples, drafts in zip(plan.samples.tolist(), plan.num_drafts.tolist()):
            tokens += range(7, 8 + min(drafts, accepted)) if samples else ()
            offsets.append(len(tokens))
        self.built.finish(plan, tokens, offsets)

    def drain(self):
        while self.plan():
            self.finish()
        self.manager.check()

    def close(self):
        self.scheduler.close()
        self.manager.close()


def test_a_plan_that_fails_is_planned_again():
    run = Run(False, max_encoder_tokens=8)
    run.add("a", SHARED[:9], 3, inputs=[(2, 4, "picture")])
    run.plan()
    assert run.outputs[-1]["scheduled_encoder_inputs"] == {"a": [0]}
    run.built.finish(run.plans.pop(), failed=True)
    run.plan()
    assert run.outputs[-1]["scheduled_encoder_inputs"] == {"a": [0]}
    run.finish()
    run.plan()
    assert run.outputs[-1]["scheduled_cached_reqs"]["num_output_tokens"] == [1]
    assert "picture" in [key for output in run.outputs for key in output["free_encoder_mm_hashes"]] and not run.built._holders
    run.finish()
    run.drain()
    run.close()


def test_what_cannot_be_taken_is_refused_whole():
    run = Run(False)
    run.add("a", SHARED[:5], 3)
    run.add("b", SHARED[:6], 3)
    plan = run.scheduler.plan()
    run.built.abort(run.ids["b"])
    with pytest.raises(ValueError, match="call add\\(\\) before plan\\(\\), and take\\(\\) a plan before you abort its requests"):
        run.built.take(plan)
    run.close()
    manager = kvcache.Manager(16, 4)
    with kvcache.Scheduler(manager, max_running=2, max_tokens=8) as scheduler:
        with pytest.raises(ValueError, match="block_size is 8; the manager has 4"):
            PlanOutputs(scheduler, 8)
        with pytest.raises(ValueError, match="make it with null_block=True"):
            PlanOutputs(scheduler, 4)


class Changed:
    """A plan with other changes and tables."""

    def __init__(self, plan, **arrays):
        self.plan, self.arrays = plan, arrays

    def __getattr__(self, name):
        return self.arrays[name] if name in self.arrays else getattr(self.plan, name)


@pytest.mark.parametrize("whole", [False, True])
def test_a_block_in_the_place_of_another_is_refused_whole(whole):
    run = Run(False)
    for name in "ab":
        run.add(name, [ord(name)] * 6, 9)
    run.plan(), run.finish()
    plan = run.scheduler.plan()
    tables, row = plan.block_tables.copy(), int(plan.rows[1])
    old = int(tables[0, row, 1])
    tables[0, row, 1] = 13
    changes = np.array([[0, row, 1, 13]][: not whole], np.int32).reshape(-1, 4)
    for other in (Changed(plan, block_tables=tables, changes=changes, whole_tables=int(whole)), Changed(plan, block_tables=tables)):  # told once
        with pytest.raises(ValueError, match=f"block 13 at entry 1 of group 0 of request 'b', whose workers have block {old}.*abort the request"):
            run.built.take(other)
    out = run.built.take(plan)  # nothing was taken
    assert out["scheduled_cached_reqs"]["req_ids"] == ["a", "b"] and out["scheduled_cached_reqs"]["num_computed_tokens"] == [6, 6]
    run.plans.append(plan)
    run.finish()
    run.drain()
    run.close()


def test_what_a_window_leaves_stays_known():
    """As with vLLM's own scheduler: workers do not read it."""
    manager = kvcache.Manager(64, 4, groups=[kvcache.Group(), kvcache.Group(window_tokens=8)], null_block=True)
    with manager, kvcache.Scheduler(manager, max_running=2, max_tokens=32) as scheduler:
        built, prompt, left, known = PlanOutputs(scheduler, 4), list(range(10)), 0, [[], []]
        id = scheduler.add(prompt, 30)
        built.add(id, "a", prompt)
        while (plan := scheduler.plan()).num_items:
            left += sum(block < 0 for *_, block in plan.changes.tolist())
            out = built.take(plan)
            for new in out["scheduled_new_reqs"]:
                known = [list(blocks) for blocks in new["block_ids"]]
            for new in out["scheduled_cached_reqs"]["new_block_ids"]:
                known = [a + b for a, b in zip(known, new or ([], []))]
            row, end = int(plan.rows[0]), len(known[0])
            for group, table in enumerate(plan.block_tables[:, row, :end].tolist()):
                assert all(block in (-1, worker) for block, worker in zip(table, known[group]))
            built.finish(plan, [7])
        assert left > 0 and len(known[1]) == 10


def everything(v2):
    """Chunks, hits with a copy, encoder inputs, drafts, a preemption and its resumption, an abort."""
    run = Run(v2, max_drafts=2, max_encoder_tokens=8)
    run.add("a", SHARED + [1, 2, 3], 12)
    run.add("b", list(range(20)), 6, inputs=[(2, 5, "cat"), (9, 4, "dog")])
    run.plan(), run.finish()
    run.plan(), run.finish()
    run.built.set_drafts(run.ids["a"], [7, 8])
    run.plan(), run.finish(accepted=1)
    run.add("c", SHARED + [4], 14)
    run.add("d", [5] * 9, 30)
    while "d" not in run.outputs[-1]["num_scheduled_tokens"]:
        run.plan(), run.finish()
    run.plan()
    run.built.abort(run.ids["d"])  # with a plan in flight
    run.finish()
    run.drain()
    run.close()
    return run.outputs


def ahead(v2):
    """Two plans in flight."""
    run = Run(v2, blocks=40, max_plans=2)
    run.add("a", [1, 2, 3], 5)
    run.add("b", [4] * 9, 4)
    run.plan()
    while run.plans:
        run.plan()
        run.finish()
    run.drain()
    run.close()
    return run.outputs


def plain(value):
    """As JSON has it."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, set):
        return sorted(value)
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


RUNS = {f"{run.__name__}{'_v2' if v2 else ''}": (run, v2) for run in (everything, ahead) for v2 in (False, True)}


@pytest.mark.parametrize("name", RUNS)
def test_golden(name):
    run, v2 = RUNS[name]
    outputs = plain(run(v2))
    if os.environ.get("KVC_TEST_WRITE"):
        golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"SPDX-License-Identifier": "Apache-2.0"}
        golden[name] = outputs
        lines = [f"{json.dumps(key)}: " + (json.dumps(value) if isinstance(value, str) else "[\n  " + ",\n  ".join(map(json.dumps, value)) + "]")
                 for key, value in golden.items()]
        GOLDEN.write_text("{" + ",\n".join(lines) + "}\n")
    golden = json.loads(GOLDEN.read_text())[name]
    for step, (got, expected) in enumerate(zip(outputs, golden)):
        assert got == expected, f"step {step}"
    assert len(outputs) == len(golden)


def test_the_golden_runs_have_every_case():
    for name, (run, v2) in RUNS.items():
        outputs = run(v2)
        some = {key for out in outputs for key, value in out.items() if value}
        resumed = any(out["scheduled_cached_reqs"]["resumed_req_ids"] for out in outputs)
        assert {"scheduled_new_reqs", "num_scheduled_tokens", "finished_req_ids"} <= some
        if run is everything:
            assert {"scheduled_spec_decode_tokens", "scheduled_encoder_inputs", "free_encoder_mm_hashes", "preempted_req_ids",
                    "kv_cache_block_copies"} <= some, name
            assert resumed != v2, "the second runner takes them as new"
            new = [new for out in outputs for new in out["scheduled_new_reqs"]]
            assert any(one["num_computed_tokens"] for one in new), "a hit"
            assert len(new) > len({one["req_id"] for one in new}) or not v2
        else:
            assert any(number > 1 for out in outputs for number in out["scheduled_cached_reqs"]["num_output_tokens"])
        assert sum(len(out["finished_req_ids"]) for out in outputs) == len({new["req_id"] for out in outputs for new in out["scheduled_new_reqs"]})


@pytest.fixture
def vllm():
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    return pytest.importorskip("vllm.v1.core.sched.output", reason="vLLM is not installed", exc_type=ImportError)


@pytest.mark.parametrize("name", RUNS)
def test_vllms_dataclasses_take_every_output(vllm, name):
    run, v2 = RUNS[name]
    for fields in run(v2):
        assert set(fields) == {field.name for field in dataclasses.fields(vllm.SchedulerOutput)}
        assert set(fields["scheduled_cached_reqs"]) == {field.name for field in dataclasses.fields(vllm.CachedRequestData)}
        for new in fields["scheduled_new_reqs"]:
            assert set(new) == {field.name for field in dataclasses.fields(vllm.NewRequestData)}
        out = vllm_output(fields)
        assert isinstance(out, vllm.SchedulerOutput) and out.total_num_scheduled_tokens == sum(out.num_scheduled_tokens.values())
        assert out.scheduled_cached_reqs.num_reqs + len(out.scheduled_new_reqs) == len(out.num_scheduled_tokens)
        defaults = vllm.SchedulerOutput.make_empty()
        if not out.num_scheduled_tokens and not out.finished_req_ids and not out.preempted_req_ids and not out.free_encoder_mm_hashes:
            assert dataclasses.replace(out, preempted_req_ids=defaults.preempted_req_ids) == defaults


@pytest.mark.parametrize("kind", ["plain", "plain_v2"])
def test_vllms_own_scheduler_gives_the_same_outputs(vllm, tmp_path, kind):
    """With room for all, and prompts that share nothing at a time: arrival order, chunks, tables, ends."""
    test_planned = pytest.importorskip("test_vllm_planned", reason="vLLM's scheduler lacks a dependency", exc_type=ImportError)
    import vllm.v1.core.sched.scheduler as scheduling

    engine = test_planned.Engine(tmp_path, scheduling.Scheduler, kind, blocks=2000, tokens=64, running=8)
    block = test_planned.BLOCK
    with kvcache.Manager(2000, block, null_block=True) as manager, kvcache.Scheduler(manager, max_running=8, max_tokens=64) as scheduler:
        built, steps = PlanOutputs(scheduler, block, v2=kind == "plain_v2"), 0
        for number in range(120):
            if number % 3 == 0 and number < 90:
                prompt, new = [1 + number] * (1 + number * 37 % 150), 1 + number * 11 % 30
                engine.add(str(number), prompt, new)
                built.add(scheduler.add(prompt, new), str(number), prompt)
            theirs, plan = engine.step(), scheduler.plan()
            ours = built.take(plan)
            steps += bool(plan.num_items)
            for field in dataclasses.fields(vllm.SchedulerOutput):
                if field.name in ("scheduled_new_reqs", "scheduled_cached_reqs", "ec_manager_metadata", "scheduled_encoder_input_stats"):
                    continue
                assert (ours[field.name] or None) == (getattr(theirs, field.name) or None), f"step {number}: {field.name}"
            mine = vllm_output(ours)
            for a, b in zip(mine.scheduled_new_reqs, theirs.scheduled_new_reqs, strict=True):
                assert list(map(len, a.block_ids)) == list(map(len, b.block_ids)), "other blocks, as many"
                known = b.prefill_token_ids and b.prefill_token_ids[: len(a.prefill_token_ids)]  # a list that grows
                assert dataclasses.replace(a, block_ids=b.block_ids, sampling_params=b.sampling_params) == dataclasses.replace(b, prefill_token_ids=known)
            a, b = mine.scheduled_cached_reqs, theirs.scheduled_cached_reqs
            assert [one and list(map(len, one)) for one in a.new_block_ids] == [one and list(map(len, one)) for one in b.new_block_ids]
            assert dataclasses.replace(a, new_block_ids=b.new_block_ids) == b, f"step {number}"
            if plan.num_items:
                built.finish(plan, [engine.tokens[built._requests[id].name][-1] for id, one in zip(plan.requests.tolist(), plan.samples) if one])
        assert steps > 80 and not engine.scheduler.has_unfinished_requests()
