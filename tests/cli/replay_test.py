#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays of small traces: hits against a count made from the trace alone, pools that are too small, every report."""
import collections
import json
import re
import unittest

import command

KEYS = ("requests", "rejected", "rejected_tokens", "preemptions", "prompt_tokens", "cached_tokens", "output_tokens", "block_queries",
        "block_hits", "hit_rate", "evictions", "peak_live_blocks", "failed_allocations", "wrong_hits",
        "manager_seconds", "ns_per_prompt_block", "ns_per_decode_step")
TIMES = ("manager_seconds", "prompt_seconds", "decode_seconds", "release_seconds", "ns_per_prompt_block",
         "ns_per_decode_step", "ns_per_step_call", "prompt_us", "step_us")


def counts(report):
    return {key: value for key, value in report.items() if key not in TIMES}


def optimal_hit_rate(requests, num_blocks, block_size):
    """Belady's algorithm as its definition says it: of all blocks that are asked for again, those that are needed soonest stay."""
    accesses = []
    for request in requests:
        length = request["input_length"]
        if -(-(length + max(1, request["output_length"])) // block_size) > num_blocks:
            continue
        ids = request["hash_ids"]
        accesses += [(tuple(ids[:-(-end // 512)]), end) for end in range(block_size, length, block_size)]
    coming = collections.defaultdict(collections.deque)
    for time, block in enumerate(accesses):
        coming[block].append(time)
    cached, hits = set(), 0
    for block in accesses:
        hits += block in cached
        cached.discard(block)
        coming[block].popleft()
        if not coming[block]:
            continue
        if len(cached) == num_blocks:
            worst = max(cached, key=lambda other: coming[other][0])
            if coming[worst][0] < coming[block][0]:
                continue
            cached.discard(worst)
        cached.add(block)
    return hits * block_size / sum(request["input_length"] for request in requests)


class Replay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = command.generate("--requests", 300, "--seed", 5)
        cls.requests = command.parse(cls.trace)

    def replay(self, *arguments):
        return command.replay("-", *arguments, stdin=self.trace)

    def test_every_key_is_reported(self):
        report = self.replay()
        for key in KEYS:
            self.assertIn(key, report)
        self.assertAlmostEqual(report["hit_rate"], report["cached_tokens"] / report["prompt_tokens"])
        self.assertEqual(report["rejected_tokens"], 0)
        self.assertGreater(report["manager_seconds"], 0)

    def test_samples_are_consistent(self):
        report = self.replay("--num-blocks", 20_000)
        for calls in ("prompt_us", "step_us"):
            self.assertEqual(list(report[calls]), ["p50", "p90", "p99", "p99.9", "p100"])
            self.assertEqual(list(report[calls].values()), sorted(report[calls].values()))
            self.assertGreater(report[calls]["p50"], 0)
        steps, held, cached = (report["occupancy"][key] for key in ("step", "held", "cached"))
        self.assertEqual(len(steps), len(held))
        self.assertEqual(len(steps), len(cached))
        self.assertTrue(100 < len(steps) < 512)
        self.assertEqual(steps, [i * steps[1] for i in range(len(steps))])
        self.assertGreater(max(held), 0)
        self.assertLessEqual(max(held), report["peak_live_blocks"])
        self.assertEqual(max(h + c for h, c in zip(held, cached)), 20_000)
        self.assertEqual(self.replay("--num-blocks", 2)["step_us"]["p100"], 0)

    def test_without_eviction_one_by_one_every_possible_block_hits(self):
        report = self.replay("--verify", "--num-blocks", 400_000, "--concurrency", 1)
        self.assertEqual(report["evictions"], 0)
        self.assertEqual(report["wrong_hits"], 0)
        self.assertEqual(report["block_hits"], command.possible_block_hits(self.requests))
        self.assertEqual(report["block_queries"], sum((r["input_length"] - 1) // 16 for r in self.requests))
        self.assertEqual(report["peak_live_blocks"],
                         max(-(-(r["input_length"] + max(1, r["output_length"])) // 16) for r in self.requests))

    def test_content_is_right_under_eviction_in_every_mode(self):
        for mode in ([], ["--commit-late"], ["--tables"], ["--block-size", 1], ["--block-size", 48],
                     ["--concurrency", 64]):
            tokens = 16 * 30_000
            block_size = mode[1] if "--block-size" in mode else 16
            report = self.replay("--verify", "--num-blocks", tokens // block_size, *mode)
            self.assertEqual(report["wrong_hits"], 0, mode)
            self.assertEqual(report["wrong_writes"], 0, mode)
            self.assertGreater(report["evictions"], 0, mode)
            self.assertGreater(report["block_hits"], 0, mode)
            self.assertEqual(report["output_tokens"], sum(max(1, r["output_length"]) for r in self.requests), mode)

    def test_policies_change_hits_and_nothing_else(self):
        options = ["--verify", "--num-blocks", 30_000, "--concurrency", 1]
        lru = self.replay(*options)
        frequency = self.replay(*options, "--policy", "frequency")
        self.assertEqual((lru["policy"], lru["policy_weight"]), ("lru", 0))
        self.assertEqual((frequency["policy"], frequency["policy_weight"]), ("frequency", 1))
        self.assertEqual(frequency["wrong_hits"] + frequency["wrong_writes"], 0)
        self.assertNotEqual(frequency["block_hits"], lru["block_hits"])
        for key in ("prompt_tokens", "output_tokens", "block_queries", "rejected", "preemptions"):
            self.assertEqual(frequency[key], lru[key], key)
        same = counts(self.replay(*options, "--policy", "frequency", "--policy-weight", 1))
        self.assertEqual(same, counts(frequency))
        for weight in (0, 0.5, 1):  # one group has no fragments
            report = counts(self.replay(*options, "--policy", "fragmentation", "--policy-weight", weight))
            self.assertEqual({**report, "policy": "lru", "policy_weight": 0}, counts(lru))

    def test_ended_sessions_change_hits_and_nothing_else(self):
        options = ["--num-blocks", 30_000, "--concurrency", 1]
        plain = self.replay(*options)
        self.assertNotIn("hit_rate_without_hints", plain)
        hinted = self.replay("--verify", *options, "--hints", "oracle:0.9")
        self.assertEqual((hinted["hints"], hinted["hit_rate_without_hints"]), ("oracle:0.9", plain["hit_rate"]))
        self.assertEqual(hinted["wrong_hits"] + hinted["wrong_writes"], 0)
        self.assertGreater(hinted["hit_rate"], plain["hit_rate"])
        for key in ("prompt_tokens", "output_tokens", "block_queries", "rejected", "preemptions"):
            self.assertEqual(hinted[key], plain[key], key)
        always = self.replay(*options, "--hints", "oracle:1")
        never = self.replay(*options, "--hints", "oracle:0")
        self.assertGreater(always["hit_rate"], never["hit_rate"])
        self.assertEqual(always["ended_sessions"] + never["ended_sessions"], len(self.requests) - plain["rejected"])

    def test_samples_of_a_prompt_are_one_prefill(self):
        few = self.requests[:60]
        report = self.replay("--samples", 8, "--num-blocks", 60_000, "--requests", len(few))
        self.assertEqual((report["requests"], report["samples"], report["rejected"]), (len(few), 8, 0))
        self.assertEqual(report["prefills"], report["requests"])
        self.assertGreater(report["prefills_without_fills"], 4 * report["requests"])
        self.assertEqual(report["prompt_tokens"], 8 * sum(r["input_length"] for r in few))
        self.assertLess(report["computed_tokens"], report["computed_tokens_without_fills"] / 4)
        self.assertGreater(report["filling_hits"], 0)
        one = self.replay("--samples", 1, "--num-blocks", 60_000, "--requests", len(few))
        self.assertEqual(one["prefills"], one["requests"])
        tight = self.replay("--samples", 3, "--num-blocks", 1_500, "--concurrency", 24, "--requests", 10)
        self.assertGreaterEqual(tight["prefills"], tight["requests"] - tight["rejected"])
        self.assertGreater(tight["preemptions"], 0)

    def test_no_policy_exceeds_the_optimum(self):
        self.assertNotIn("optimal_hit_rate", self.replay())
        for block_size, num_blocks in ((64, 400), (48, 600), (512, 100), (1000, 50)):
            optimum = optimal_hit_rate(self.requests[:60], num_blocks, block_size)
            self.assertGreater(optimum, 0)
            for policy in ("lru", "frequency"):
                report = self.replay("--optimal", "--requests", 60, "--block-size", block_size, "--num-blocks", num_blocks, "--policy", policy)
                self.assertAlmostEqual(report["optimal_hit_rate"], optimum)
                self.assertLessEqual(report["hit_rate"], optimum)
        without_eviction = self.replay("--optimal", "--num-blocks", 400_000, "--concurrency", 1)
        self.assertAlmostEqual(without_eviction["optimal_hit_rate"], without_eviction["hit_rate"])

    def test_running_out_of_positions_is_reported(self):
        few = self.replay("--model", "mistral-7b-v0.1", "--num-blocks", 1500, "--concurrency", 64)
        self.assertGreater(few["groups"][0]["unpublished_tokens"], 0)
        self.assertNotIn("groups", self.replay("--model", "mistral-7b-v0.1", "--num-blocks", 400_000, "--concurrency", 1))

    def test_models_with_windows_hit_what_full_attention_hits(self):
        def hit_rate(model, *arguments):
            return self.replay("--model", model, "--num-blocks", 100_000, *arguments)["hit_rate"]
        full = hit_rate("llama-3.1-8b")
        for model in ("gpt-oss-20b", "gemma-3-27b", "gemma-2-9b", "llama-4-scout", "mistral-7b-v0.1"):
            self.assertGreaterEqual(hit_rate(model), 0.95 * full, model)
            self.assertEqual(hit_rate(model), hit_rate(model, "--retention", 16))
        self.assertLess(hit_rate("gpt-oss-20b", "--retention", 0), 0.1 * full)

    def test_models_have_the_groups_of_their_layers(self):
        pools = {}
        for model in ("gemma-3-27b", "gpt-oss-20b", "llama-4-scout", "llama-3.1-8b", "jamba-1.5-mini", "qwen3-next-80b-a3b", "whisper-large-v3"):
            report = self.replay("--model", model, "--num-blocks", 20000)
            self.assertEqual(report["model"], model)
            self.assertEqual(report["rejected"], 0)
            self.assertGreater(report["hit_rate"], 0)
            pools[model] = len(report["pool_blocks"])
            groups = report.get("groups", [])
            self.assertEqual(len(groups) > 1, model != "llama-3.1-8b", model)
            lost = [sum(group[key] for key in group if key.startswith("lost_")) for group in groups]
            if groups:
                self.assertEqual(groups[0]["kind"], "full")
                self.assertGreaterEqual(sum(lost), report["lost_reuse_tokens"])
                self.assertLessEqual(max(lost), report["lost_reuse_tokens"])
        self.assertEqual(pools, {"gemma-3-27b": 2, "gpt-oss-20b": 1, "llama-4-scout": 2, "llama-3.1-8b": 1, "jamba-1.5-mini": 2, "qwen3-next-80b-a3b": 2,
                                 "whisper-large-v3": 1})
        self.assertGreater(report["encoder_hits"], 0)
        self.assertLess(report["encoder_hits"], report["encoders"])

    def test_a_curve_says_what_other_sizes_hit(self):
        def block_hit_rate(report):
            return report["block_hits"] / report["block_queries"]

        self.assertNotIn("curve", self.replay())
        options = ("--block-size", 512, "--concurrency", 1)
        curve = self.replay(*options, "--num-blocks", 800, "--curve", 1)["curve"]
        self.assertEqual(curve["sample_rate"], 1)
        self.assertEqual(sorted(curve["hit_rates"]), curve["hit_rates"])
        self.assertEqual((curve["num_blocks"][0], curve["num_blocks"][8], curve["num_blocks"][14]), (50, 800, 6400))
        for num_blocks, hit_rate in list(zip(curve["num_blocks"], curve["hit_rates"]))[6:13:2]:
            report = self.replay(*options, "--num-blocks", num_blocks)
            self.assertEqual(report["rejected"], 0)
            self.assertAlmostEqual(hit_rate, block_hit_rate(report), delta=0.005)  # a block more or less
        with_curve = counts(self.replay(*options, "--num-blocks", 800, "--curve", 0.1))
        with_curve.pop("curve")
        self.assertEqual(with_curve, counts(self.replay(*options, "--num-blocks", 800)))

    def test_preemption_loses_and_doubles_no_token(self):
        num_blocks = 3000
        fitting = [r for r in self.requests
                   if -(-(r["input_length"] + max(1, r["output_length"])) // 16) <= num_blocks]
        report = self.replay("--verify", "--num-blocks", num_blocks, "--tables")
        self.assertEqual(report["wrong_hits"], 0)
        self.assertGreater(report["preemptions"], 0)
        self.assertGreater(report["failed_allocations"], 0)
        self.assertEqual(report["rejected"], len(self.requests) - len(fitting))
        self.assertGreater(report["rejected"], 0)
        self.assertEqual(report["prompt_tokens"], sum(r["input_length"] for r in fitting))
        of_all = sum(r["input_length"] for r in self.requests)
        self.assertEqual(report["prompt_tokens"] + report["rejected_tokens"], of_all)
        self.assertAlmostEqual(report["hit_rate"], report["cached_tokens"] / of_all)
        self.assertEqual(report["output_tokens"], sum(max(1, r["output_length"]) for r in fitting))
        self.assertLessEqual(report["peak_live_blocks"], num_blocks)

    def test_neither_verification_nor_tables_change_a_count(self):
        plain = counts(self.replay("--num-blocks", 6000))
        for mode in (["--verify"], ["--tables"]):
            other = counts(self.replay("--num-blocks", 6000, *mode))
            for key in plain.keys() - {"verified", "tables"}:
                self.assertEqual(plain[key], other[key], key)

    def test_generate_option_replays_what_generate_writes(self):
        options = ("--requests", 60, "--seed", 9)
        trace = command.generate(*options)
        self.assertEqual(counts(command.replay("--generate", *options)), counts(command.replay("-", stdin=trace)))

    def test_requests_option_takes_the_first_ones(self):
        self.assertEqual(self.replay("--requests", 7)["prompt_tokens"],
                         sum(r["input_length"] for r in self.requests[:7]))

    def test_a_pool_too_small_for_all_rejects_all(self):
        report = self.replay("--num-blocks", 2)
        self.assertEqual(report["rejected"], 300)
        self.assertEqual(report["hit_rate"], 0)

    def test_the_hit_rate_does_not_fall_when_a_larger_pool_takes_longer_prompts(self):
        short = {"input_length": 600, "output_length": 1, "hash_ids": [1, 2]}
        long = {"input_length": 6000, "output_length": 1, "hash_ids": list(range(10, 22))}
        trace = "\n".join(json.dumps(request) for request in (short, short, short, short, long)).encode()
        reports = [command.replay("-", "--num-blocks", blocks, "--concurrency", 1, stdin=trace) for blocks in (100, 1000)]
        self.assertEqual([report["rejected"] for report in reports], [1, 0])
        self.assertEqual([report["hit_rate"] for report in reports], [3 * 592 / 8400] * 2)

    def test_table_names_what_matters(self):
        code, out, err = command.run("replay", "--generate", "--requests", 20, "--verify")
        self.assertEqual((code, err), (0, ""))
        for word in ("hit rate", "rejected", "preemptions", "evicted", "Time inside the library", "wrong hits"):
            self.assertIn(word, out)

    def test_the_hit_rate_follows_from_the_rows_of_the_table(self):
        code, out, err = command.run("replay", "-", "--num-blocks", 3000, stdin=self.trace)
        self.assertEqual((code, err), (0, ""))
        rows = {name: int(value.replace(",", "")) for name, value in re.findall(r"^  (\S.*?)  +([\d,]+)(?:   .*)?$", out, re.M)}
        self.assertGreater(rows["rejected prompts"], 0)
        self.assertEqual(rows["prompt"] + rows["rejected prompts"], sum(r["input_length"] for r in self.requests))
        self.assertIn(f"hit rate {rows['cached'] / (rows['prompt'] + rows['rejected prompts']):.4f}", out)


if __name__ == "__main__":
    command.main()
