#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names_test.py [--write]: docs/METRICS.md and the text have the names, types, units, labels and meanings of src/metrics/families.def, no more and
no less. --write brings the tables of the page up to date."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from families import ROOT, families, samples, scrape  # noqa: E402

PAGE = ROOT / "docs/METRICS.md"


def table(is_vllm):
    lines = ["| name | type | unit | labels | meaning |", "|---|---|---|---|---|"]
    for family in families():
        if family.is_vllm != is_vllm:
            continue
        labels = "; ".join(f"`{name}`" + (" = " + ", ".join(values) if values else "") for name, values in family.labels().items())
        lines.append(f"| `{family.sample_names()[0] if family.type == 'counter' else family.name}` | {family.type} | {family.unit or '-'} | {labels or '-'} | {family.help} |")
    return "\n".join(lines) + "\n"


def with_tables(page):
    for mark, is_vllm in (("metrics", False), ("vllm", True)):
        page, count = re.subn(rf"(<!-- {mark} -->\n)(?s:.*?)(<!-- end -->)", lambda m, t=table(is_vllm): m[1] + t + m[2], page)
        assert count == 1, f"METRICS.md has {count} marks of {mark}"
    return page


class Names(unittest.TestCase):
    maxDiff = None

    def test_the_page_has_the_table(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, with_tables(page), "run tests/metrics/names_test.py --write")

    def test_names_follow_the_rules_of_openmetrics(self):
        names = [family.name for family in families()]
        self.assertEqual(len(names), len(set(names)))
        for family in families():
            self.assertRegex(family.name, r"^(vllm:|kvcache_)[a-z0-9_]+$")
            self.assertFalse(family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info", "_created")), family.name)
            if family.unit:
                self.assertTrue(family.name.endswith("_" + family.unit), family.name)
            self.assertNotRegex(family.help, r'[\\"\n]')
            self.assertTrue(family.help.endswith("."), family.help)
            self.assertTrue(family.values, family.name)
            self.assertEqual(len({len(own) for _, own in family.values}), 1, family.name)

    def test_labels_of_the_table_are_reserved(self):
        source = (ROOT / "src/metrics/families.cc").read_text(encoding="utf-8")
        reserved = set(re.findall(r'"(\w+)"', re.search(r"kOwnLabels\[\] = \{(.*?)\};", source, re.S)[1]))
        used = {label for family in families() for label in family.labels()}
        self.assertEqual(reserved, used | {"le", "quantile"})

    def test_the_text_has_every_family_and_every_sample(self):
        text = scrape()
        self.assertTrue(text.endswith("\n# EOF\n"))
        lines = text.splitlines()
        at, found = 0, samples(text)
        for family in families():
            head = [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.type}"] + ([f"# UNIT {family.name} {family.unit}"] if family.unit else [])
            at = lines.index(head[0], at)  # in the order of the table
            self.assertEqual(lines[at:at + len(head)], head)
            self.assertEqual(lines.count(head[0]), 1)
            for name in family.sample_names():
                for _, own in family.values:
                    self.assertTrue(any(row[0] == name and own.items() <= row[1].items() for row in found), f"{name} {own}")
        known = {name for family in families() for name in family.sample_names()}
        self.assertEqual({row[0] for row in found} - known, set())
        series = [(name, tuple(sorted(labels.items()))) for name, labels, _ in found]
        self.assertEqual(len(series), len(set(series)))

    def test_samples_have_the_labels_of_the_table_and_of_their_source(self):
        own = {name: set(family.labels()) for family in families() for name in family.sample_names()}
        for name, labels, _ in samples(scrape()):
            expected = own[name] | {"model"} | ({"rank"} if "rank" in labels else set()) | ({"le"} if name.endswith("_bucket") else set())
            self.assertEqual(set(labels), expected, name)

    def test_numbers_are_those_of_the_work(self):
        found = samples(scrape())

        def total(name, **labels):
            rows = [float(number) for of, own, number in found if of == name and labels.items() <= own.items()]
            self.assertTrue(rows, name)
            return sum(rows)

        self.assertEqual(total("kvcache_blocks"), 16 + 64)
        self.assertEqual(total("kvcache_admissions_total", order="first", rank="0"), 8)
        self.assertEqual(total("kvcache_prompt_tokens_total", rank="0"), 8 * 33)
        self.assertEqual(total("kvcache_scheduler_changed_requests_total", change="added"), 3)
        self.assertEqual(total("kvcache_scheduler_changed_requests_total", change="ended"), 3)
        self.assertGreater(total("kvcache_offload_loaded_tokens_total"), 0)
        self.assertGreater(total("kvcache_load_duration_seconds_count"), 0)
        self.assertGreater(total("kvcache_tier_job_duration_seconds_count", kind="put"), 0)
        self.assertEqual(total("kvcache_call_duration_seconds_count", call="admit"), 8)
        self.assertEqual(total("kvcache_call_duration_seconds_count", call="store"), 1)
        self.assertEqual(total("kvcache_memory_bytes", kind="slab"), 16 * 2 * 2 * 8 * 4 * 4)
        self.assertEqual(total("vllm:prefix_cache_queries_total"), total("kvcache_prompt_tokens_total"))
        self.assertEqual(total("vllm:kv_cache_usage_perc"), 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        unittest.main()
