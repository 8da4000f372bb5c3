#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The text is OpenMetrics for the strict parser of prometheus_client, and for Prometheus itself (promtool). Skips what is not installed."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from families import families, samples, scrape  # noqa: E402

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None


class OpenMetrics(unittest.TestCase):
    @unittest.skipIf(text_string_to_metric_families is None, "no Python package prometheus_client")
    def test_prometheus_client_reads_what_was_written(self):
        text = scrape()
        read = {family.name: family for family in text_string_to_metric_families(text)}
        self.assertEqual(set(read), {family.name for family in families()})
        for family in families():
            self.assertEqual((read[family.name].type, read[family.name].unit, read[family.name].documentation), (family.type, family.unit, family.help))
        self.assertEqual(sum(len(family.samples) for family in read.values()), len(samples(text)))
        models = {sample.labels["model"] for family in read.values() for sample in family.samples}
        self.assertEqual(models, {'llama "3" \\ 8B\nnew', "caf\u00e9"})

    @unittest.skipIf(text_string_to_metric_families is None, "no Python package prometheus_client")
    def test_the_parser_is_strict(self):
        for bad in (scrape().replace("# EOF\n", ""), "# TYPE a counter\na 1\n# EOF\n"):
            with self.assertRaises(ValueError):
                list(text_string_to_metric_families(bad))

    @unittest.skipIf(shutil.which("promtool") is None, "no promtool (Debian package prometheus)")
    def test_prometheus_stores_it(self):
        lines = [line if line.startswith("#") else line + " 1700000000" for line in scrape().splitlines()]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "metrics.txt")
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write("\n".join(lines) + "\n")
            made = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", path, os.path.join(folder, "data")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stdout)
            os.makedirs(os.path.join(folder, "data", "wal"), exist_ok=True)  # dump wants one
            dump = subprocess.run(["promtool", "tsdb", "dump", os.path.join(folder, "data")], stdout=subprocess.PIPE, text=True, check=True)
            self.assertEqual(len(dump.stdout.splitlines()), len(samples(scrape())))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    if result.wasSuccessful() and len(result.skipped) == 3:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
