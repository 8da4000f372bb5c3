#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every query of deploy/grafana.json names metrics and labels that a rendered text has; promtool, if it is there, reads the queries."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from families import ROOT, families, samples, scrape  # noqa: E402

BOARD = json.loads((ROOT / "deploy/grafana.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"], target["legendFormat"]) for panel in PANELS for target in panel["targets"]]
WORDS = {"sum", "by", "rate", "le", "max", "min", "histogram_quantile"}  # of PromQL, besides labels


class Grafana(unittest.TestCase):
    def setUp(self):
        self.labels = {}  # {name of a sample: {label: values}}
        for name, labels, _ in samples(scrape()):
            for label, value in labels.items():
                self.labels.setdefault(name, {}).setdefault(label, set()).add(value)

    def check_query(self, query):
        selectors = re.findall(r"([a-z_:]+)\{([^}]*)\}", query)
        self.assertTrue(selectors, query)
        for name, matchers in selectors:
            self.assertIn(name, self.labels, query)
            read = re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers)
            self.assertEqual(",".join(f'{label}{how}"{value}"' for label, how, value in read), matchers)
            for label, how, value in read:
                self.assertIn(label, self.labels[name], query)
                for one in value.split("|") if how == "=~" else [value]:
                    self.assertTrue(one == "$model" or one in self.labels[name][label], f"{label} is never {one}: {query}")
            for labels in re.findall(r"by \(([^)]*)\)", query):
                for label in labels.split(", "):
                    self.assertIn(label, self.labels[name], query)
        rest = re.sub(r"\{[^}]*\}|\[\$__rate_interval\]|by \([^)]*\)", "", query)
        self.assertEqual(set(re.findall(r"[a-z_]{2,}", rest)) - WORDS - {name for name, _ in selectors}, set(), query)

    def test_every_query_names_what_exists(self):
        self.assertGreater(len(QUERIES), 30)
        for _, query, _ in QUERIES:
            self.check_query(query)

    def test_a_name_or_label_that_does_not_exist_is_found(self):
        for bad in ('sum(kvcache_blocs{model=~"$model"})', 'sum by (colour) (kvcache_blocks{model=~"$model"})', 'sum(kvcache_blocks{model=~"$model",state="lost"})',
                    'sum(kvcache_preemptions{model=~"$model"})', "sum(kvcache_blocks)"):
            with self.assertRaises(AssertionError, msg=bad):
                self.check_query(bad)

    def test_legends_name_labels_of_their_query(self):
        for _, query, legend in QUERIES:
            for label in re.findall(r"\{\{(\w+)\}\}", legend):
                self.assertRegex(query, rf"by \((le, )?{label}\)")

    def test_counters_are_rates_and_gauges_are_not(self):
        counters = {name for family in families() if family.type != "gauge" for name in family.sample_names()}
        for _, query, _ in QUERIES:
            for before, name in re.findall(r"(rate\()?\b(kvcache_\w+)\{", query):
                self.assertEqual(bool(before), name in counters, query)

    def test_panels_do_not_overlap_and_have_titles(self):
        taken = set()
        ids = [panel["id"] for panel in BOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for panel in BOARD["panels"]:
            self.assertTrue(panel["title"])
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            taken |= cells

    @unittest.skipIf(shutil.which("promtool") is None, "no promtool (Debian package prometheus)")
    def test_prometheus_reads_the_queries(self):
        rules = [{"record": f"board:query_{i}", "expr": query.replace("$__rate_interval", "1m").replace("$model", ".*")} for i, (_, query, _) in enumerate(QUERIES)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
            json.dump({"groups": [{"name": "board", "rules": rules}]}, file)  # JSON is YAML
            file.flush()
            checked = subprocess.run(["promtool", "check", "rules", file.name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout)


if __name__ == "__main__":
    unittest.main()
