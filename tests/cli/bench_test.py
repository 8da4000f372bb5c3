# SPDX-License-Identifier: Apache-2.0
"""`kvcache bench` on small shapes: on the CPU and on an emulated device that reads no ordinary host memory."""
import json
import os
import pathlib

import command

SHAPE = "--batch 2 --context 40 --layers 2 --heads 4 --kv-heads 2 --head-dim 32 --json".split()


class BenchTest(command.CommandTest):
    def measure(self, what, *options):
        code, out, err = command.run("bench", what, *SHAPE, *options)
        self.assertEqual(code, 0, err)
        found = json.loads(out)
        self.assertEqual((found["bench"], found["batch"], found["context"], found["layers"]), (what, 2, 40, 2))
        seconds = found["us_per_layer"] / 1e6
        self.assertGreater(seconds, 0)
        width = {"bf16": 2 * 32, "int8": 32 + 2}[found["dtype"]]  # of a row, its scale included
        moved = 2 * 40 * 2 * 2 * width  # requests, tokens, heads, keys and values
        self.assertAlmostEqual(found["gb_per_s"] * 1e9 * seconds / moved, 1, delta=0.1)
        return found

    def test_on_the_cpu(self):
        found = self.measure("attention", "--queries", 3)
        pairs = 2 * (38 + 39 + 40)  # queries and what they see
        self.assertAlmostEqual(found["gflops"] * 1e9 * found["us_per_layer"] / 1e6 / (4 * pairs * 4 * 32), 1, delta=1e-3)
        self.assertNotIn("device", found)
        self.assertNotIn("rope", self.measure("store", "--dtype", "int8"))
        found = self.measure("store", "--dtype", "int8", "--rope")
        self.assertIs(found["rope"], True)
        self.assertGreater(found["apart_us_per_layer"], 0)
        self.assertIs(self.measure("step", "--rope")["rope"], True)
        for what in ("swap-out", "swap-in"):
            found = self.measure(what)
            self.assertEqual(found["run_bytes"], 2 * 2 * 16 * 32 * 2)
            self.assertNotIn("kernel_bytes", found)
        self.assertEqual(self.measure("step", "--layout", "blhnc")["layout"], "blhnc")
        for wrong, text in (("step --queries 2", "one query"), ("gather --rope", "store and step"), ("store --rope --head-dim 7", "even --head-dim")):
            code, _, err = command.run("bench", *wrong.split(), "--context", 40, "--layers", 2)
            self.assertEqual(code, 2, err)
            self.assertIn(text, err)

    def test_on_a_device(self):
        folder = pathlib.Path(command.BINARY).resolve().parent.parent / "backends"
        if not (folder / "libkvcache_emulated.so").exists():
            self.skipTest("the emulated backend is not built")
        os.environ["KVC_BACKEND_PATH"] = str(folder)
        for what in ("attention", "step", "store", "gather", "copy", "swap-out", "swap-in"):
            found = self.measure(what, "--device", "emulated:1", "--query-dtype", "bf16")
            self.assertEqual(found["device"], "emulated:1")
            self.assertGreater(found["ratio"], 0)
            self.assertGreater(found["enqueue_us_per_layer"], 0)
            self.assertNotIn("threads", found)
            self.assertEqual("kernel_bytes" in found, what.startswith("swap"))
        for what in ("step", "store"):
            self.assertIs(self.measure(what, "--device", "emulated:1", "--rope")["rope"], True)

    def test_an_unknown_device_is_an_error(self):
        code, out, err = command.run("bench", "store", *SHAPE, "--device", "abacus:0")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("abacus", err)


if __name__ == "__main__":
    command.main()
