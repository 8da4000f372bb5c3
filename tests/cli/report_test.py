#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of scripts/replay-report: well-formed, self-contained, and every figure in it is one of the replays."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import command

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "replay-report"


class Report(unittest.TestCase):
    def page(self, runs):
        """The text of the page that is made of these reports."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, f"{i}.json") for i in range(len(runs))]
            for path, run in zip(paths, runs):
                path.write_text(json.dumps(run), encoding="utf-8")
            page = pathlib.Path(folder, "report.html")
            subprocess.run([sys.executable, SCRIPT, page, *paths], check=True)
            return page.read_text(encoding="utf-8")

    def test_the_figures_are_those_of_the_replays(self):
        runs = [command.replay("--generate", "--requests", 100, "--num-blocks", blocks, "--verify") for blocks in (200_000, 20_000)]
        text = self.page(runs)
        tree = xml.etree.ElementTree.fromstring(text)  # fails unless it is well-formed
        cells = [[cell.text for cell in row] for row in tree.iter("tr")]
        for run, row in zip(reversed(runs), cells[1:], strict=True):
            self.assertEqual(row, [f"{run['num_blocks']:,}", f"{run['num_blocks'] * 16:,}", f"{100 * run['hit_rate']:.2f} %", f"{run['evictions']:,}",
                                   f"{run['preemptions']:,}", f"{run['peak_live_blocks']:,}", "0"])
        titles = [title.text for title in tree.iter("title")]
        for run in runs:
            self.assertIn(f"{run['num_blocks']:,} blocks: {100 * run['hit_rate']:.2f} %", titles)
        small = runs[1]  # the one that evicts
        self.assertGreater(small["evictions"], 0)
        for name, calls in (("create and admit a prompt", "prompt_us"), ("one decode step of at most 16 requests", "step_us")):
            for key, value in small[calls].items():
                self.assertIn(f"{name}, {key}: {value:.3f} microseconds", titles)
        held, cached = (polygon.get("points").split() for polygon in tree.iter("polygon"))
        samples = len(small["occupancy"]["step"])
        self.assertEqual((len(held), len(cached)), (2 * samples, 2 * samples))
        # The plot is 224 high: a pool that is full reaches its top, at 24.
        heights = [(248 - float(point.split(",")[1])) / 224 * small["num_blocks"] for point in cached[:samples]]
        for height, h, c in zip(heights, small["occupancy"]["held"], small["occupancy"]["cached"]):
            self.assertAlmostEqual(height, h + c, delta=20_000 / 224)

    def test_it_refers_to_nothing_outside(self):
        text = self.page([command.replay("--generate", "--requests", 30)])
        self.assertIsNone(re.search(r"https?:|//|\bsrc=|\bhref=|url\(|@import|<script|<link|<iframe", text))
        self.assertIn("prefers-color-scheme: dark", text)

    def test_a_replay_in_which_nothing_ran_has_a_page(self):
        run = command.replay("--generate", "--requests", 3, "--num-blocks", 2)
        self.assertEqual(run["rejected"], 3)
        self.assertIn("not checked", self.page([run]))


if __name__ == "__main__":
    command.main()
