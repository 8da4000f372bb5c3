# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: the table of src/metrics/families.def, and the text of scrape.c."""
import ast
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Labels that a part brings (src/api/metrics_api.cc), by the struct that it holds.
PART_LABELS = {"kvc_pool_info": ("pool",), "kvc_tier_counts": ("kind",), "kvc_offload_tier_stats": ("tier_index",), "MemoryUse": ("kind",),
               "CallLatency": ("call",), "JobLatency": ("kind",)}


class Family:
    def __init__(self, kind, name, unit, help_text, is_vllm):
        self.type, self.name, self.unit, self.help, self.is_vllm = kind[1:].lower(), name, unit, help_text, is_vllm
        self.values = []  # (part, {label: value})

    def labels(self):
        """{label: values in their order; empty = other ones}"""
        found = {}
        for part, own in self.values:
            for label in PART_LABELS.get(part, ()):
                found.setdefault(label, [])
            for label, value in own.items():
                found.setdefault(label, []).append(value)
        return found

    def sample_names(self):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(self.type, ("",))
        return [self.name + suffix for suffix in suffixes]


def families():
    found = []
    text = (ROOT / "src/metrics/families.def").read_text(encoding="utf-8")
    for line in text.splitlines():
        row = re.fullmatch(r"KVC_(VLLM_FAMILY|FAMILY)\((\w+), (.*)\)", line)
        if row:
            found.append(Family(row[2], *ast.literal_eval(f"({row[3]})"), row[1] == "VLLM_FAMILY"))
            continue
        row = re.fullmatch(r'KVC_VALUE\((\w+), \w+, "(.*)"\)', line)
        if row:
            found[-1].values.append((row[1], dict(re.findall(r'(\w+)=\\"(\w+)\\"', row[2]))))
        elif line.startswith("KVC_"):
            sys.exit(f"families.def: no rule for {line!r}")
    return found


def scrape():
    return subprocess.run([os.environ["KVC_SCRAPE"]], check=True, stdout=subprocess.PIPE).stdout.decode("utf-8")


def samples(text):
    """[(name, {label: escaped value}, number)] of a text"""
    found = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        row = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)', line)
        assert row, f"no sample: {line!r}"
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', row[2] or "")
        assert ",".join(f'{name}="{value}"' for name, value in labels) == (row[2] or ""), line
        found.append((row[1], dict(labels), row[3]))
    return found
