#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulations of small traces against times that are computed by hand, orders of the policies, and what is refused."""
import json
import os
import re
import tempfile
from html.parser import HTMLParser

import command

STEP = ("--step-model", "fixed_us=1000,token_us=10,context_us=1")
NO_CONTEXT = ("--step-model", "fixed_us=1000,token_us=10,context_us=0")


def request(at, prompt, outputs, text, **others):
    return dict({"timestamp": at, "input_length": prompt, "output_length": outputs, "hash_ids": [text * 1000 + i for i in range(-(-prompt // 512))]}, **others)


def trace(*requests):
    return "".join(json.dumps(one) + "\n" for one in requests).encode()


# A step takes 1000 us, 10 us a token, 1 us a token of context:
#   0.000 ms  first prompt: 32 tokens, context 32    1352 us
#   1.352     decode, context 33                     1043
#   2.395     decode, context 34                     1044   ends at 3.439
#  10.000     second prompt: 48 tokens               1528
#  11.528     decode, context 49                     1059   ends at 12.587
#  20.000     third: 32 of 48 tokens are cached      1208   ends at 21.208
#  21.208     fourth, came at 21: 16 tokens          1176
#  22.384     its decode, context 17, and the fifth, came at 22: 16 tokens   1203   both end at 23.587
FIVE = trace(request(0, 32, 3, 1), request(10, 48, 2, 2), request(20, 48, 1, 2), request(21, 16, 2, 3), request(22, 16, 1, 4))


class Simulate(command.CommandTest):
    def simulate(self, text, *arguments):
        code, out, err = command.run("simulate", "-", "--json", *arguments, stdin=text)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def assert_times(self, times, **wanted):
        for key, value in wanted.items():
            self.assertAlmostEqual(times[key], value, 9, f"{key} of {times}")

    def test_times_are_those_of_the_step_model(self):
        report = self.simulate(FIVE, *STEP, "--ttft-ms", 1.4, "--tpot-ms", 1.05)
        self.assert_times(report["ttft_ms"], p50=1.384, p90=1.587, p99=1.587, p100=1.587, mean=(1.352 + 1.528 + 1.208 + 1.384 + 1.587) / 5)
        self.assert_times(report["tpot_ms"], p50=1.059, p90=1.203, p99=1.203, p100=1.203, mean=(1.0435 + 1.059 + 1.203) / 3)
        self.assert_times(report, makespan_seconds=0.023587, busy=(1352 + 1043 + 1044 + 1528 + 1059 + 1208 + 1176 + 1203) / 23587, goodput=2 / 5,
                          goodput_per_second=2 / 0.023587, requests_per_second=5 / 0.023587, output_tokens_per_second=9 / 0.023587,
                          hit_rate=32 / 160, mean_batch=9 / 8, rate=4 / 0.022)
        counts = {key: report[key] for key in ("requests", "finished", "rejected", "failed", "starved", "plans", "prompt_tokens", "cached_tokens", "output_tokens",
                                               "planned_tokens", "preemptions", "recomputed_tokens", "scheduler", "admission")}
        self.assertEqual(counts, {"requests": 5, "finished": 5, "rejected": 0, "failed": 0, "starved": 0, "plans": 8, "prompt_tokens": 160, "cached_tokens": 32,
                                  "output_tokens": 9, "planned_tokens": 160 - 32 + 4, "preemptions": 0, "recomputed_tokens": 0,
                                  "scheduler": "fcfs", "admission": "chunk"})
        self.assertGreater(report["host_us_per_step"], 0)
        self.assertEqual(set(report["host_us"]), {"p50", "p99"})

    def test_without_bounds_all_that_finish_are_good(self):
        self.assertEqual(self.simulate(FIVE, *STEP)["goodput"], 1)
        self.assertEqual(self.simulate(FIVE, *STEP, "--ttft-ms", 1.3)["goodput"], 0.2)
        self.assertEqual(self.simulate(FIVE, *STEP, "--tpot-ms", 1.05)["goodput"], 0.6)  # one token has no further ones

    def test_equal_commands_print_the_same_but_for_host_times(self):
        def once():
            code, out, err = command.run("simulate", "--generate", "--requests", 300, "--num-blocks", 20000, "--rate", 2, "--async", "--json")
            self.assertEqual(code, 0, err)
            report = json.loads(out)
            self.assertEqual(report["finished"] + report["rejected"], 300)
            return {key: value for key, value in report.items() if not key.startswith("host_us")}

        self.assertEqual(once(), once())

    def test_an_asynchronous_engine_hides_its_own_work(self):
        one = trace(request(0, 32, 3, 1))
        waits = self.simulate(one, *STEP, "--host-us", 100)
        self.assert_times(waits["ttft_ms"], p50=1.452)
        self.assert_times(waits, makespan_seconds=0.003739)
        hides = self.simulate(one, *STEP, "--host-us", 100, "--async")
        self.assert_times(hides["ttft_ms"], p50=1.452)
        self.assert_times(hides, makespan_seconds=0.003539)
        self.assertEqual(hides["output_tokens"], 3)

    def test_orders_of_the_policies(self):
        """One request at a time: the first tokens of three prompts of 16, 512 and 16 tokens."""
        def waits(*arguments, **third):
            text = trace(request(0, 16, 1, 1), request(0, 512, 1, 2), request(0, 16, 1, 3, **third))
            report = self.simulate(text, *NO_CONTEXT, "--max-running", 1, *arguments)
            return round(report["ttft_ms"]["mean"] * 3, 6), report["ttft_ms"]["p100"]  # their sum and the largest

        self.assertEqual(waits(), (16.88, 8.44))
        self.assertEqual(waits("--scheduler", "priority", priority=-1), (11.92, 8.44))
        self.assertEqual(waits("--scheduler", "priority", priority=1), (16.88, 8.44))
        self.assertEqual(waits("--scheduler", "shortest"), (11.92, 8.44))
        self.assertEqual(waits("--scheduler", "adaptive", "--max-tokens", 16), (42.92, 39.44))  # 544 waiting tokens are more than 8 steps
        self.assertEqual(waits("--max-tokens", 16, tenant=1), (78.88, 39.44))
        self.assertEqual(waits("--scheduler", "fair", "--max-tokens", 16, tenant=1), (42.92, 39.44))

    def test_cached_prefixes_come_first_if_asked(self):
        text = trace(request(0, 512, 1, 1), request(1, 512, 1, 2), request(1, 512, 1, 1))
        order = [self.simulate(text, *NO_CONTEXT, "--max-running", 1, *more)["ttft_ms"]["mean"]
                 for more in ((), ("--cache-aware",), ("--depth-first",))]
        # 6.12; then 12.24 and 13.40, or 7.28 and 13.40: the repeated prompt computes its last block of 16 tokens
        self.assertAlmostEqual(order[0] * 3, 6.12 + 11.24 + 12.40, 6)
        self.assertAlmostEqual(order[1] * 3, 6.12 + 6.28 + 12.40, 6)
        self.assertAlmostEqual(order[2] * 3, 6.12 + 6.28 + 12.40, 6)

    def test_a_small_pool_preempts_unless_the_worst_must_fit(self):
        text = trace(*(request(0, 160, 200, i) for i in range(8)))
        few = ("--num-blocks", 64, *STEP)
        chunk = self.simulate(text, *few)
        self.assertEqual(chunk["finished"], 8)
        self.assertGreater(chunk["preemptions"], 0)
        self.assertGreater(chunk["recomputed_tokens"], 0)
        worst = self.simulate(text, *few, "--admission", "worst")
        self.assertEqual((worst["finished"], worst["preemptions"], worst["recomputed_tokens"]), (8, 0, 0))
        self.assertLess(worst["mean_batch"], chunk["mean_batch"])

    def test_requests_longer_than_the_pool_are_rejected(self):
        report = self.simulate(trace(request(0, 160, 200, 1), request(0, 600, 1, 2)), "--num-blocks", 30)
        self.assertEqual((report["finished"], report["rejected"], report["goodput"]), (1, 1, 0.5))

    def test_chunks_of_prompts(self):
        one = trace(request(0, 512, 1, 1))
        self.assertEqual(self.simulate(one, "--max-chunk", 100)["plans"], 6)
        self.assertEqual(self.simulate(one, "--max-tokens", 256)["plans"], 2)

    def test_pools_of_a_model(self):
        report = self.simulate(FIVE, "--model", "llama-3.1-8b", "--memory", "1GiB", *STEP)
        self.assertAlmostEqual(report["makespan_seconds"], 0.023587, 9)
        self.assertEqual(self.simulate(trace(request(0, 9000, 1, 1)), "--model", "llama-3.1-8b", "--memory", "1GiB")["rejected"], 1)
        self.assertEqual(self.simulate(FIVE, "--model", "gemma-3-12b", "--memory", "4GiB")["finished"], 5)

    def test_rates_move_the_arrivals(self):
        text = trace(*(request(1000 + 7000 * i, 32, 1, i) for i in range(5)))
        self.assert_times(self.simulate(text, *STEP), makespan_seconds=28.001352, rate=1 / 7)
        self.assert_times(self.simulate(text, *STEP, "--rate", 2), makespan_seconds=2.001352, rate=2)
        reports = self.simulate(text, *STEP, "--rates", "2,4")["rates"]
        self.assertEqual([report["rate"] for report in reports], [2, 4])
        self.assertEqual([round(report["makespan_seconds"], 9) for report in reports], [2.001352, 1.001352])

    def test_measured_times_are_interpolated(self):
        table = [{"tokens": t, "context": c, "us": 1000 + 10 * t + c} for t in (1, 32, 64) for c in (16, 64)]
        with tempfile.TemporaryDirectory() as folder:
            as_json, as_csv = os.path.join(folder, "steps.json"), os.path.join(folder, "steps.csv")
            with open(as_json, "w", encoding="utf-8") as file:
                json.dump(table, file)
            with open(as_csv, "w", encoding="utf-8") as file:
                file.write("tokens,context,us\n" + "".join(f"{row['tokens']},{row['context']},{row['us']}\n" for row in table))
            for path in (as_json, as_csv):
                report = self.simulate(FIVE, "--step-model", path)
                self.assert_times(report["ttft_ms"], p50=1.384, p100=1.587)
                self.assert_times(report, makespan_seconds=0.023587)

    def test_the_page_is_whole_and_refers_to_nothing(self):
        class Tags(HTMLParser):
            def __init__(self):
                super().__init__()
                self.open, self.count = [], {}

            def handle_starttag(self, tag, attrs):
                self.count[tag] = self.count.get(tag, 0) + 1
                if tag != "meta":
                    self.open.append(tag)

            def handle_startendtag(self, tag, attrs):
                self.count[tag] = self.count.get(tag, 0) + 1

            def handle_endtag(self, tag):
                assert self.open.pop() == tag, tag

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            for arguments, curves in (((), 2), (("--rates", "1,2,4"), 7)):
                self.simulate(FIVE, *STEP, "--html", path, *arguments)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                tags = Tags()
                tags.feed(text)
                self.assertEqual(tags.open, [])
                self.assertEqual(tags.count["polyline"], curves)
                self.assertNotIn("script", tags.count)
                self.assertNotRegex(text, r"https?://|src=|href=|nan|inf")
                for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(re.findall(r' points="([^"]*)"', text))):
                    self.assertTrue(0 <= float(x) <= 720 and 0 <= float(y) <= 300, (x, y))

    def test_tables_for_people(self):
        _, out, _ = command.run("simulate", "-", *STEP, "--ttft-ms", 1.4, stdin=FIVE)
        for words in ("goodput", "60.00 %", "first token within 1.4 ms", "makespan", "0.024 s", "1.38 ms", "hit rate 0.2000"):
            self.assertIn(words, out)
        _, out, _ = command.run("simulate", "-", *STEP, "--rates", "1,2", stdin=FIVE)
        self.assertEqual(len(out.splitlines()), 3)

    def test_wrong_usage_is_refused(self):
        def refused(*arguments, words, text=FIVE):
            self.assert_refused(command.run("simulate", "-", *arguments, stdin=text), *words)

        refused("--scheduler", "random", words=["--scheduler is random", "fcfs, priority, shortest, fair, adaptive"])
        refused("--admission", "all", words=["--admission is all", "chunk, prompt, peak, worst"])
        refused("--rate", "0", words=["--rate has 0", "from 1e-06 to 1e+06"])
        refused("--rate", "nan", words=["--rate has nan"])
        refused("--rate", "1,2", words=["--rate is 1,2", "--rates"])
        refused("--rates", "1,0", words=["--rates has 0", "from 1e-06"])
        refused("--rates", "1,,2", words=["one comma"])
        refused("--rate", "1", "--rates", "1", words=["leave one out"])
        refused("--rate", "1", text=trace(request(5, 16, 1, 1), request(5, 16, 1, 1)), words=["the same time", "timestamps that differ"])
        refused("--max-tokens", "100", words=["--max-tokens is 100", "--max-running 256", "raise --max-tokens"])
        refused("--max-running", "0", words=["--max-running is 0", "from 1 to 65536"])
        refused("--model", "llama-3.1-8b", words=["--model is given without --memory"])
        refused("--memory", "1GiB", words=["--memory is given without --model"])
        refused("--model", "llama-3.1-8b", "--memory", "1KiB", words=["--memory is 1KiB", "less than one block", "give more"])
        refused("--model", "llama-3.1-8b", "--num-blocks", "5", words=["leave one out"])
        refused("--ttft-ms", "-1", words=["--ttft-ms is -1", "0 to"])
        refused("--host-us", "nan", words=["--host-us is nan"])
        refused("--html", "/nonexistent/page.html", words=["/nonexistent/page.html", "give a writable file"])
        for spec, words in (("fixed_us=x", ["fixed_us has x", "from 0 to"]), ("fixed_us=-1", ["fixed_us has -1"]), ("fixed_us=", ["fixed_us has"]),
                            ("speed=1", ["--step-model has speed=1", "give fixed_us=X"]), ("fixed_us=1,token_us", ["--step-model has token_us"]),
                            ("none.csv", ["--step-model is none.csv", "give a readable file"])):
            refused("--step-model", spec, words=words)
        untimed = trace(request(0, 16, 1, 1), {"input_length": 16, "output_length": 1, "hash_ids": [1]})
        refused(text=untimed, words=["line 2 of the trace has no timestamp", "give the arrival of each request"])
        refused(text=trace(request(0, 16, 1, 1, priority=0.5)), words=[":1: priority is 0.5", "give a whole number from -2147483648"])
        refused(text=trace(request(0, 16, 1, 1, tenant=65536)), words=[":1: tenant is 65536", "0 to 65535"])
        refused(text=trace(request(0, 16, 1, 1), request(2**60, 16, 1, 1)), words=["146 years"])

    def test_bad_tables_of_measured_times_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, words in (("a.csv", "", ["no measured times"]), ("a.csv", "tokens,context,us\n1,2\n", ["a.csv:2", "is not tokens,context,us"]),
                                      ("a.csv", "1,2,-3\n", ["a.csv:1", "us is -3"]), ("a.csv", "1,2,3\n1,2,3\n", ["give one for each of the 1 pairs"]),
                                      ("a.csv", "1,1,3\n2,2,3\n1,2,3\n", ["3 times of 2 numbers of tokens and 2 contexts"]),
                                      ("a.csv", "1,1,3\n1,1,3\n2,2,3\n1,2,3\n", ["two times for 1 tokens and a context of 1"]),
                                      ("a.json", "{}", ["not a JSON array"]), ("a.json", "[1", ["not a JSON array"]),
                                      ("a.json", '[{"tokens": 1, "context": 2}]', ["entry 0", 'no number "us"'])):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assert_refused(command.run("simulate", "-", "--step-model", path, stdin=FIVE), *words)


if __name__ == "__main__":
    command.main()
