#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of tiers, each beside its bound and its raw side, in one run: docs/TIERS.md, "Figures".

    tests/bench/tier/figures.py FOLDER [--command build/release/bin/kvcache] [--package build/release/python] [--seconds 20] [--large]

FOLDER: on the disk to measure; it gets a folder of its own for the files, which is removed. --large: a slab of 10 GiB, too. Exit code 1: a figure
is below its bound, or a page was wrong. Run it on an idle machine: other work hits both sides, but not alike."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
# What is asked: URL, pages, bytes of a page, least put and get ratio of the raw side.
TIERS = (("memory:?bytes=1GiB", 128, "2MiB", 0.90, 0.90), ("memory:?bytes=1GiB", 4096, "64KiB", 0.80, 0.80),
         ("slab:{}/a?bytes=600MiB&direct=1", 256, "2MiB", 0.80, 0.90), ("slab:{}/b?bytes=600MiB&direct=1", 8192, "64KiB", 0.65, 0.85),
         ("dir:{}/c?bytes=1GiB", 128, "2MiB", 0.70, 0.70))
EXISTS = "memory:?bytes=256MiB", 1 << 20, 64  # keys a second, in batches
REPLAY = "replay", "--generate", "--requests", "200", "--seed", "3", "--num-blocks", "3000", "--json"


class Figures:
    def __init__(self, command):
        self.command, self.failed = command, 0

    def run(self, *arguments, **environment):
        done = subprocess.run([self.command, *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment})
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr or done.stdout}")
        return json.loads(done.stdout)

    def say(self, name, value, bound, least=True):
        good = value >= bound if least else value <= bound
        self.failed += not good
        print(f"{name:66} {value:12.3f}   {'>=' if least else '<='} {bound:g}{'' if good else '   BELOW' if least else '   ABOVE'}", flush=True)

    def tiers(self, folder, seconds):
        for url, pages, size, put, get in TIERS:
            found = self.run("bench", "tier", url.format(folder), "--page-bytes", size, "--pages", pages, "--seconds", seconds, "--json")
            kind = f"{url.split(':')[0]}{' direct' if 'direct' in url else ''} {size}"
            self.say(f"{kind} put, of {found['raw']}", found["put_ratio"], put)
            self.say(f"{kind} get", found["get_ratio"], get)
            self.say(f"{kind} wrong pages", found["wrong_pages"] + found["not_done"], 0, least=False)
            if size == "2MiB" and not url.startswith("dir"):
                self.say(f"{kind} exists of one page beside 64 loads, us", found["exists_us_beside_loads"], 20, least=False)
        url, keys, size = EXISTS
        self.say("exists in a batch, million keys/s", self.run("bench", "tier", url, "--page-bytes", size, "--pages", keys, "--seconds", 5, "--json")["exists_per_s"] / 1e6, 5)

    def manager(self, rounds=15):
        """Seconds of the manager's calls of a replay with a tier, of those without, in turns. Beside it what bounds that (no_offload.c): the same
        manager with its events, whose caller does nothing between two calls, or reads a MiB of other memory."""
        tiers = *REPLAY, "--tiers", "memory:?bytes=4GiB"
        names = "manager's time with write-through, of that without", "  with events, and no work of an offload", "  with events, and other work between the calls"
        ratios = [[], [], []]
        with tempfile.TemporaryDirectory() as folder:
            stub = os.path.join(folder, "no_offload.so")
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", f"-I{ROOT}/include", os.path.join(HERE, "no_offload.c"), "-o", stub], check=True)
            environments = {}, {"LD_PRELOAD": stub}, {"LD_PRELOAD": stub, "OTHER_BYTES": str(1 << 20)}
            for _ in range(rounds):
                without = self.run(*REPLAY)["manager_seconds"]
                for found, environment in zip(ratios, environments):
                    found.append(self.run(*tiers, **environment)["manager_seconds"] / without)
        self.say(names[0], statistics.median(ratios[0]), 1.10, least=False)
        for name, found in zip(names[1:], ratios[1:]):
            print(f"{name:66} {statistics.median(found):12.3f}", flush=True)

    def opening(self, folder, package):
        """Of a slab of 10 GiB whose slots are all used."""
        sys.path.insert(0, package)
        import kvcache
        import numpy as np
        url, batch = f"slab:{folder}/large?bytes=10GiB&direct=1", 256
        pages = np.zeros((batch, 65536), np.uint8)
        with kvcache.Tier(url, 65536, b"f" * 32) as tier:
            slots = tier.stats().capacity_pages
            for first in range(0, slots, batch):
                count = min(batch, slots - first)
                tier.put(np.random.default_rng(first).integers(0, 256, (count, 32), np.uint8), pages[:count])
        begun = time.monotonic()
        with kvcache.Tier(url, 65536, b"f" * 32) as tier:
            seconds = time.monotonic() - begun
            self.say(f"a slab of 10 GiB with {tier.stats().recovered} pages of 64 KiB opens, s", seconds, 0.5, least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--command", default="build/release/bin/kvcache")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--package", default="build/release/python", help="where the Python package is, for --large")
    options = parser.parse_args()
    figures = Figures(options.command)
    folder = tempfile.mkdtemp(prefix="kvcache-figures-", dir=options.folder)
    try:
        print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors")
        figures.tiers(folder, options.seconds)
        figures.manager()
        if options.large:
            figures.opening(folder, options.package)
    finally:
        shutil.rmtree(folder)
    return figures.failed != 0


if __name__ == "__main__":
    sys.exit(main())
