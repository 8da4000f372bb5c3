#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kvcache advise --mode`: the modes decide differently on one trace, and the log has the numbers of the reason."""
import json
import math
import unittest

import command


class AdviseModeTest(command.CommandTest):
    @classmethod
    def setUpClass(cls):
        # A ramp, a quiet hour, and bursts: requests of 512 tokens in each minute.
        needs = [2 * minute for minute in range(1, 20)] + [38] * 20 + [200 if minute % 5 == 0 else 5 for minute in range(25)]
        line = '{{"timestamp": {}, "input_length": 500, "output_length": 12, "hash_ids": [{}]}}\n'
        cls.trace = "".join(line.format(60_000 * minute, minute) * count for minute, count in enumerate(needs)).encode()
        cls.needs = [32 * count for count in needs]  # blocks of 16 tokens

    def decisions(self, mode, *arguments):
        code, out, err = command.run("advise", "-", "--mode", mode, "--json", *arguments, stdin=self.trace)
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)

    def test_the_modes_differ_and_the_log_says_why(self):
        reports = {mode: self.decisions(mode) for mode in ("reactive", "predictive", "hybrid")}
        sizes = {mode: [d["to_blocks"] for d in report["log"]] for mode, report in reports.items()}
        self.assertEqual(len({tuple(blocks) for blocks in sizes.values()}), 3)
        for mode, report in reports.items():
            self.assertEqual([d["needed"] for d in report["log"]], self.needs)
            before = 1
            for d in report["log"]:
                self.assertEqual(d["from_blocks"], before)
                by = {"last": d["needed"], "forecast": d["forecast"], "level": d["level"]}
                self.assertEqual(d["wanted"], by[d["basis"]])
                wanted = max(1, math.ceil(d["wanted"]))
                if d["reason"] == "hysteresis":
                    self.assertEqual(d["action"], "keep")
                    self.assertLessEqual(abs(wanted - before), 0.1 * before)
                else:
                    self.assertEqual(d["to_blocks"], wanted)
                before = d["to_blocks"]
            short = sum(d["needed"] > d["from_blocks"] for d in report["log"][1:])
            self.assertEqual(report["short_intervals"], short)
        self.assertEqual({d["basis"] for d in reports["reactive"]["log"]}, {"last"})
        self.assertEqual({d["basis"] for d in reports["predictive"]["log"]}, {"forecast"})
        self.assertEqual({d["basis"] for d in reports["hybrid"]["log"]}, {"last", "forecast", "level"})
        self.assertLess(reports["predictive"]["log"][:19][-1]["needed"], reports["predictive"]["log"][18]["to_blocks"])  # foreseen

    def test_the_table_and_the_interval(self):
        self.assertEqual(len(self.decisions("reactive", "--interval", 120)["log"]), 32)
        code, out, err = command.run("advise", "-", "--mode", "hybrid", stdin=self.trace)
        self.assertEqual((code, err), (0, ""))
        for word in ("forecast", "hysteresis", "shrink", "short intervals"):
            self.assertIn(word, out)

    def test_wrong_options_are_refused(self):
        self.assert_refused(command.run("advise", "--generate", "--mode", "lazy"), "--mode")
        self.assert_refused(command.run("advise", "--generate", "--interval", 5), "--mode")
        late = b'{"timestamp": 100000000000000, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n'
        self.assert_refused(command.run("advise", "-", "--mode", "hybrid", stdin=late), "--interval")


if __name__ == "__main__":
    command.main()
