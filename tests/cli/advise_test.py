#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kvcache advise`: trials are replays in equal memory, the best is the argmin of the printed cost, nothing measured decides."""
import json
import unittest

import command

DEFAULT = ("--tokens", 200_000)
MEASURED = "manager_ns_per_request"


def advise(*arguments, stdin=b""):
    code, out, err = command.run("advise", "--json", *arguments, stdin=stdin)
    if code != 0:
        raise AssertionError(f"advise {arguments} ended with {code}: {err}")
    return json.loads(out)


def counts(trial):
    return {key: value for key, value in trial.items() if key != MEASURED}


def cost(trial, rates):
    tokens = trial["computed_tokens"] + rates["rejected_factor"] * trial["rejected_tokens"]
    return (rates["ns_per_token"] * tokens + rates["ns_per_block"] * trial["table_blocks"] +
            rates["ns_per_chunk"] * trial["chunks_computed"]) / trial["prompt_tokens"]


class AdviseTest(command.CommandTest):
    @classmethod
    def setUpClass(cls):
        cls.trace = command.generate("--requests", 60, "--seed", 3)
        cls.requests = command.parse(cls.trace)

    def advise(self, *arguments):
        return advise("-", *arguments, stdin=self.trace)

    def test_every_combination_is_tried_in_equal_memory(self):
        report = self.advise(*DEFAULT, "--block-sizes", "16,48,100", "--policies", "lru,frequency:0.5", "--chunks", "100,4096")
        self.assertEqual([(t["block_size"], t["chunk"], t["policy"], t["policy_weight"]) for t in report["trials"]],
                         [(b, c, p, w) for b in (16, 48, 100) for c in (100, 4096) for p, w in (("lru", 0), ("frequency", 0.5))])
        self.assertEqual((report["requests"], report["budget_tokens"], report["left_out"]), (60, 200_000, 0))
        for trial in report["trials"]:
            self.assertEqual(trial["num_blocks"], [200_000 // trial["block_size"]])

    def test_the_best_is_the_argmin_of_the_stated_cost(self):
        for rates in ((), ("--ns-per-token", 0, "--ns-per-chunk", 1e9), ("--ns-per-block", 1e9)):
            report = self.advise(*DEFAULT, *rates)
            for trial in report["trials"]:
                self.assertAlmostEqual(trial["cost"], cost(trial, report["cost"]), delta=1e-9 * trial["cost"])
            least = min(trial["cost"] for trial in report["trials"])
            first = next(trial for trial in report["trials"] if trial["cost"] == least)
            self.assertEqual(report["best"], first, rates)
        self.assertEqual(report["best"]["block_size"], 128)  # blocks cost the most

    def test_equal_commands_print_equal_trials_on_any_number_of_threads(self):
        one, two = (self.advise(*DEFAULT, "--jobs", jobs) for jobs in (1, 3))
        self.assertEqual(list(map(counts, one["trials"])), list(map(counts, two["trials"])))
        self.assertEqual(counts(one["best"]), counts(two["best"]))

    def test_a_trial_is_a_replay(self):
        """One request at a time in a pool that holds all: the chunks do not matter, and hits follow from the trace."""
        options = ("--tokens", 6_400_000, "--concurrency", 1, "--policies", "lru", "--block-sizes", 16)
        trials = self.advise(*options, "--chunks", "1,37,16777216")["trials"]
        prompt = sum(request["input_length"] for request in self.requests)
        for trial in trials:
            self.assertEqual(trial["prompt_tokens"], prompt)
            self.assertEqual(trial["computed_tokens"], prompt - 16 * command.possible_block_hits(self.requests))
            self.assertAlmostEqual(trial["hit_rate"], 1 - trial["computed_tokens"] / prompt)
            self.assertEqual(trial["table_blocks"], sum(-(-(r["input_length"] + max(1, r["output_length"])) // 16) for r in self.requests))
            self.assertEqual((trial["rejected"], trial["refusals"], trial["preemptions"], trial["evictions"]), (0, 0, 0, 0))
        self.assertEqual(trials[0]["chunks_computed"], trials[0]["computed_tokens"])
        self.assertEqual(trials[2]["chunks_computed"], 60)

    def test_a_full_pool_preempts_and_still_computes_every_token(self):
        prompt = sum(request["input_length"] for request in self.requests)
        for trial in self.advise("--tokens", 40_000, "--chunks", 512)["trials"]:
            self.assertGreater(trial["preemptions"], 0)
            self.assertGreaterEqual(trial["refusals"], trial["preemptions"])
            self.assertEqual(trial["prompt_tokens"], prompt)
            self.assertGreaterEqual(trial["computed_tokens"], (1 - trial["hit_rate"]) * prompt - trial["rejected_tokens"] - 1)
            self.assertTrue(0 < trial["waste"] < 0.5)

    def test_a_rejected_prompt_counts_as_many(self):
        report = self.advise("--tokens", 2_000)
        for trial in report["trials"]:
            self.assertGreater(trial["rejected"], 0)
            self.assertGreater(trial["cost"], 100 * report["cost"]["ns_per_token"] * trial["rejected_tokens"] / trial["prompt_tokens"] - 1)

    def test_a_model_with_a_window_divides_the_budget(self):
        report = self.advise("--model", "gemma-3-27b", "--budget", "24GiB", "--block-sizes", "16,64", "--splits", "0.5,1,2,1000")
        estimate = {}
        for block_size in (16, 64):
            longest = max(r["input_length"] + max(1, r["output_length"]) for r in self.requests)
            for chunk in (512, 2048):
                code, out, err = command.run("estimate", "gemma-3-27b", "--budget", "24GiB", "--block-size", block_size,
                                             "--chunk", chunk, "--context", longest, "--json")
                self.assertEqual(code, 0, err)
                estimate[block_size, chunk] = json.loads(out)
        self.assertEqual(report["budget_bytes"], 24 << 30)
        self.assertGreater(report["left_out"], 0)
        self.assertEqual(len(report["trials"]) + report["left_out"], 2 * 2 * 4 * 2)
        for trial in report["trials"]:
            known = estimate[trial["block_size"], trial["chunk"]]
            full, window = trial["num_blocks"]
            sizes = [group["bytes_per_block"] for group in known["groups"]]
            self.assertLessEqual(full * sizes[0] + window * sizes[1], 24 << 30)
            self.assertGreater((full + 1) * sizes[0] + window * sizes[1], 24 << 30)
            self.assertAlmostEqual(window, known["window_pool_blocks"] * trial["split"], delta=0.5)
            if trial["split"] == 1:
                self.assertEqual((full, window), (known["pool_blocks"], known["window_pool_blocks"]))

    def test_a_model_without_a_window_has_one_pool(self):
        trials = self.advise("--model", "llama-3.1-8b", "--dtype", "int8", "--budget", "20GiB", "--block-sizes", 16, "--chunks", 512)["trials"]
        self.assertEqual([len(trial["num_blocks"]) for trial in trials], [1, 1])

    def test_the_table_states_the_cost_and_the_best(self):
        code, out, err = command.run("advise", "-", *DEFAULT, stdin=self.trace)
        self.assertEqual((code, err), (0, ""))
        for word in ("hit rate", "cost = (ns_per_token * (computed_tokens", "in nanoseconds per prompt token", "no part of the cost", "Best: blocks of "):
            self.assertIn(word, out)
        self.assertEqual(out.count(" *\n"), 1)

    def test_wrong_options_are_refused(self):
        for arguments, words in (((), ("advise: no trace",)),
                                 (("--generate", "--policies", "random"), ("--policies has random", "lru, frequency or fragmentation")),
                                 (("--generate", "--policies", "frequency:1001"), ("weight of frequency has 1001", "1000")),
                                 (("--generate", "--policies", "lru:1"), ("weight of lru has 1",)),
                                 (("--generate", "--block-sizes", "16,,32"), ("--block-sizes", "one comma")),
                                 (("--generate", "--block-sizes", "16,1025"), ("--block-sizes has 1025", "from 1 to 1024")),
                                 (("--generate", "--chunks", "0"), ("--chunks has 0",)),
                                 (("--generate", "--splits", "nan"), ("--splits has nan",)),
                                 (("--generate", "--tokens", "15"), ("the budget is 15 tokens", "raise it")),
                                 (("--generate", "--tokens", 1 << 40, "--block-sizes", 1), ("a manager has at most",)),
                                 (("--generate", "--tokens", 100, "--num-blocks", 3), ("leave one out",)),
                                 (("--generate", "--budget", "1GiB"), ("--model",)),
                                 (("--generate", "--model", "llama-7b"), ("--budget",)),
                                 (("--generate", "--model", "lama-7b", "--budget", "1GiB"), ("no model", "llama-7b")),
                                 (("--generate", "--model", "gemma-3-27b", "--budget", "1KiB"), ("the budget is 1,024 bytes", "raise it")),
                                 (("--generate", "--ns-per-token", -1), ("--ns-per-token is -1",))):
            self.assert_refused(command.run("advise", *arguments), *words)
        self.assert_refused(command.run("advise", "-", stdin=b"\n"), "no requests")
        self.assert_refused(command.run("advise", "/nonexistent/trace.jsonl"), "trace.jsonl")


if __name__ == "__main__":
    command.main()
