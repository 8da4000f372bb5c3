# SPDX-License-Identifier: Apache-2.0
"""Benchmarks with a runtime's graphs, on an emulated device: they run, and what they print can be computed from each other."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["KVC_LIBRARY"]).resolve().parent.parent
PROGRAM = BUILD / "tests" / "gpu_bench_emulated"
SHAPE = "--batch 2 --context 40 --layers 2 --heads 4 --kv-heads 2 --head-dim 32 --replays 2".split()
SANITIZED = bool(os.environ.get("KVC_SANITIZE"))
COUNTS = "counts, by calls that the other tests make too; under a sanitizer they take half a minute"


def run(*arguments):
    environment = dict(os.environ, KVC_BACKEND_PATH=str(BUILD / "backends"))
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False)


class GpuBench(unittest.TestCase):
    def found(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_ceilings(self):
        found = self.found("ceilings", "--bytes", "70000", "--steps", "2")
        self.assertEqual(found["bytes"], 70000 // 16 * 16)
        for name in ("read_gb_per_s", "copy_gb_per_s", "mma_tflops", "free_bytes"):
            self.assertGreater(found[name], 0, name)

    def test_the_link_and_what_was_copied(self):
        found = self.found("ceilings", "--bytes", "3000000", "--steps", "1")
        for name in ("device_to_host_gb_per_s", "host_to_device_gb_per_s"):
            self.assertGreater(found[name], 0, name)
        self.assertEqual(found["link_bytes"], found["bytes"])
        # Behind the megabyte that comes from the host, so all of the memory was written before it was read and copied.
        self.assertEqual({**found["check"], "rows": 0}, {"rows": 0, "max_error": 0, "limit": 0, "right": True})

    def test_a_graph_holds_the_layers_of_a_model(self):
        for what in ("attention", "step", "store"):
            found = self.found("graph", what, *SHAPE, "--layout", "blhnc")
            self.assertEqual((found["bench"], found["layers"], found["calls_of_graph"]), (f"graph {what}", 2, 32))
            layer_bytes = 2 * 40 * 2 * 2 * 2 * 32  # requests, tokens, keys and values, heads, bf16
            self.assertAlmostEqual(found["gb_per_s"] * 1e3 * found["us_per_layer"] / layer_bytes, 1, places=6)
            self.assertGreater(found["us_per_layer_again"], 0)
            self.assertEqual("gflops" in found, what != "store")

    def test_results_of_replays_are_compared(self):
        for what, *options in (("attention",), ("attention", "--queries", "4"), ("attention", "--v-head-dim", "16"), ("step",), ("step", "--rope", "--dtype", "int8"),
                               ("store", "--dtype", "fp8"), ("store", "--rope"), ("gather", "--dtype", "int4"), ("copy",)):
            found = self.found("graph", what, *SHAPE, "--check", "--query-dtype", "bf16", *options)
            self.assertIs(found["check"]["right"], True, (what, options))
            self.assertGreater(found["check"]["rows"], 0)
            self.assertEqual("traffic_gb_per_s" in found, what in ("store", "gather", "copy"))

    @unittest.skipIf(SANITIZED, COUNTS)
    def test_launches_of_a_call(self):
        for what in ("store", "gather"):  # tables and positions are on the device: nothing is sent before
            for options in ((), ("--rope",) if what == "store" else ("--dtype", "int8")):
                self.assertEqual(self.found("graph", what, *SHAPE, *options)["nodes_per_call"], 1, (what, options))
        shared, own = (self.found("graph", "attention", *SHAPE, *options)["nodes_per_call"] for options in ((), ("--own-plans",)))
        self.assertEqual(own - shared, 31 / 32)
        self.assertEqual(self.found("graph", "step", *SHAPE)["nodes_per_call"], shared + 1)

    def test_latent_rows(self):
        found = self.found("graph", "step", *"--batch 2 --context 40 --layers 2 --heads 4 --kv-heads 1 --latent --head-dim 48 --v-head-dim 32".split(),
                           *"--query-dtype bf16 --replays 2 --check".split())
        self.assertIs(found["check"]["right"], True)
        self.assertAlmostEqual(found["gb_per_s"] * 1e3 * found["us_per_layer"] / (2 * 40 * 48 * 2), 1, places=6)

    @unittest.skipIf(SANITIZED, COUNTS)
    def test_each_layer_may_make_its_own_plan(self):
        for options, own in (((), False), (("--own-plans",), True)):
            found = self.found("graph", "attention", *SHAPE, *options)
            self.assertIs(found["own_plans"], own)
            self.assertGreater(found["us_per_layer"], 0)

    @unittest.skipIf(SANITIZED, COUNTS)
    def test_more_layers_than_a_model_are_all_in_it(self):
        found = self.found("graph", "store", *"--context 16 --layers 33 --kv-heads 1 --head-dim 16 --replays 1".split())
        self.assertEqual((found["layers"], found["calls_of_graph"]), (33, 33))

    def test_wrong_usage(self):
        self.assertEqual(run("graph", "attention", "--batch", "0").returncode, 2)
        self.assertEqual(run("graph", "step", *SHAPE, "--queries", "2").returncode, 2)


if __name__ == "__main__":
    if not PROGRAM.exists():
        print(f"skipped: {PROGRAM} is not built")
        sys.exit(77)
    unittest.main()
