# SPDX-License-Identifier: Apache-2.0
"""`kvcache bench` on small shapes: on the CPU and on an emulated device that reads no ordinary host memory."""
import json
import os
import pathlib
import re
import unittest

import command

BACKENDS = pathlib.Path(command.BINARY).resolve().parent.parent / "backends"

SANITIZED = bool(os.environ.get("KVC_SANITIZE"))  # then each measurement on an emulated device takes seconds

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

    def right(self, found):
        """What was measured says that it was compared, and right."""
        self.assertIs(found["check"]["right"], True)
        self.assertGreater(found["check"]["rows"], 0)
        self.assertLessEqual(found["check"]["max_error"], found["check"]["limit"])
        return found

    def test_on_the_cpu(self):
        found = self.measure("attention", "--queries", 3)
        pairs = 2 * (38 + 39 + 40)  # queries and what they see
        self.assertAlmostEqual(found["gflops"] * 1e9 * found["us_per_layer"] / 1e6 / (4 * pairs * 4 * 32), 1, delta=1e-3)
        self.assertNotIn("device", found)
        self.assertIs(self.measure("step", "--rope")["rope"], True)
        found = self.measure("step", "--layout", "blhnc", "--no-check")
        self.assertEqual(found["layout"], "blhnc")
        self.assertNotIn("check", found)
        for what in ("attention", "step", "store", "gather", "copy", "swap-out", "swap-in"):
            found = self.right(self.measure(what))  # also without --check
            self.assertRegex(found["hardware"], r"\w.*, [\d,]+ hardware threads?$")
            self.assertIs(found["above_1"], found["ratio"] > 1)
            self.assertEqual("contiguous_ratio" in found, what in ("attention", "step", "store", "gather"))
            if what.startswith("swap"):
                self.assertEqual(found["run_bytes"], 2 * 2 * 16 * 32 * 2)
                self.assertNotIn("kernel_bytes", found)
            self.assertNotIn("rope", found)
            if what == "copy":
                self.assertAlmostEqual(found["traffic_gb_per_s"] / found["gb_per_s"], 2, places=6)
            if "contiguous_ratio" in found:  # of the same work without pages
                self.assertGreater(found["contiguous_us_per_layer"], 0)
                self.assertAlmostEqual(found["contiguous_ratio"], found["contiguous_us_per_layer"] / found["us_per_layer"], places=6)
        found = self.right(self.measure("store", "--dtype", "int8", "--check", "--rope"))  # floats are read, codes and scales written
        self.assertIs(found["rope"], True)
        self.assertGreater(found["apart_us_per_layer"], 0)
        self.assertAlmostEqual(found["traffic_gb_per_s"] / found["gb_per_s"], (4 * 32 + 36) / 36, places=6)
        code, out, err = command.run("bench", *"attention --heads 2 --kv-heads 2 --head-dim 3 --context 40 --layers 2 --json".split())
        self.assertEqual(code, 0, err)
        self.assertNotIn("check", json.loads(out))  # its rows are no multiple of 16 bytes

    def test_wrong_options(self):
        for wrong, text in (("attention --heads 7", "--heads is 7; it must be a multiple of --kv-heads, 8: give 8"),
                            ("attention --queries 50", "--queries is 50; at most --context, 40"),
                            ("step --queries 2", "--queries is 2; a step has one query of each request: leave it out, or measure attention"),
                            ("gather --rope", "--rope is for store and step, which write keys, and not for gather; leave it out"),
                            ("store --rope --head-dim 7", "--head-dim is 7; --rope needs an even one: give 8"),
                            ("attention --latent", "--kv-heads is 8; a latent row is of all heads: give --kv-heads 1"),
                            ("store --latent --kv-heads 1 --rope", "--rope excludes --latent: only a part of a latent row rotates; leave one out"),
                            ("store --latent --kv-heads 1 --v-head-dim 200",
                             "--v-head-dim is 200; values are a part of the latent row: at most --head-dim, 128"),
                            ("copy --batch 65536 --context 4194304",
                             "--batch is 65536, which takes 17179869184 blocks; a storage has at most 2147483647: give a smaller --batch or --context"),
                            ("copy --device cpu", "--device is cpu, but names a GPU, such as cuda:0; leave it out for the CPU"),
                            ("attention --check --heads 2 --kv-heads 2 --head-dim 3",
                             "--check needs tokens whose rows are a multiple of 16 bytes, and these have 24: give another --head-dim, or leave --check out")):
            context = () if "--context" in wrong else ("--context", 40)
            self.assertEqual(command.run("bench", *wrong.split(), *context, "--layers", 2), (2, "", f"kvcache: {text}\n"), wrong)

    def setUp(self):
        super().setUp()
        os.environ["KVC_BACKEND_PATH"] = str(BACKENDS)

    @unittest.skipUnless((BACKENDS / "libkvcache_emulated.so").exists(), "the emulated backend is not built")
    def test_on_a_device(self):
        all_of_it = ("attention", "step", "store", "gather", "copy", "swap-out", "swap-in")
        for what in all_of_it if not SANITIZED else ("attention", "swap-out"):
            found = self.measure(what, "--device", "emulated:1", "--query-dtype", "bf16")
            self.assertEqual(found["device"], "emulated:1")
            self.assertGreater(found["ratio"], 0)
            self.assertGreater(found["enqueue_us_per_layer"], 0)
            self.assertNotIn("threads", found)
            self.assertNotIn("contiguous_ratio", found)
            self.assertNotIn("check", found)
            self.assertTrue(found["hardware"])
            self.assertEqual("kernel_bytes" in found, what.startswith("swap"))
            self.assertEqual("own_plans" in found, what in ("attention", "step"))
        self.assertIs(self.measure("attention", "--device", "emulated:1", "--own-plans")["own_plans"], True)
        for what in ("step", "store"):
            self.assertIs(self.measure(what, "--device", "emulated:1", "--rope")["rope"], True)

        for what in all_of_it:
            several = (), ("--dtype", "int8"), ("--queries", 3) if what == "attention" else ("--layout", "blhnc")
            for options in several if not SANITIZED else several[:1]:
                self.right(self.measure(what, "--device", "emulated:1", "--query-dtype", "bf16", "--check", *options))

    def test_latent_rows(self):
        for device in ((), ("--device", "emulated:1")) if (BACKENDS / "libkvcache_emulated.so").exists() else ((),):
            for what in ("attention", "step", "store", "gather", "swap-in"):
                code, out, err = command.run("bench", what, *"--latent --kv-heads 1 --head-dim 48 --v-head-dim 32 --heads 4 --batch 2".split(),
                                             *"--context 40 --layers 2 --check --json".split(), *device)
                self.assertEqual(code, 0, err)
                found = self.right(json.loads(out))
                self.assertEqual((found["latent"], found["v_head_dim"]), (True, 32))
                self.assertAlmostEqual(found["gb_per_s"] * 1e3 * found["us_per_layer"] / (2 * 40 * 48 * 2), 1, places=6)  # one row for both
                if what == "attention":
                    self.assertAlmostEqual(found["gflops"] * 1e3 * found["us_per_layer"] / (2 * 2 * 40 * 4 * (48 + 32)), 1, places=6)

    def pruned(self, how, *options):
        code, out, err = command.run("bench", "attention", "--prune", how, *"--batch 2 --context 1000 --layers 2 --heads 4 --kv-heads 2".split(),
                                     *"--head-dim 64 --json".split(), *options)
        self.assertEqual(code, 0, err)
        found = self.right(json.loads(out))
        self.assertEqual((found["bench"], found["context"], found["prune"]["blocks"]), ("attention", 1000, 63))
        pruned = found["prune"]
        self.assertEqual(found["check"]["rows"], 2 * 4 * found["queries"])
        self.assertAlmostEqual(pruned["kept_ratio"], pruned["kept_blocks"] / 63)
        self.assertTrue(0 <= pruned["least_mass"] <= pruned["mass"] <= 1 + 1e-12, pruned)
        self.assertTrue(0 <= pruned["block_recall"] <= 1 and 0 <= pruned["error"] <= pruned["max_error"], pruned)
        for key in ("choice_us_per_layer", "sparse_us_per_layer", "dense_us_per_layer", "speedup"):
            self.assertGreater(pruned[key], 0)
        return pruned

    def test_pruned_attention_says_what_it_keeps(self):
        few, some = self.pruned("topk:4"), self.pruned("ratio:0.5")
        self.assertEqual((few["mode"], few["value"], few["kept_blocks"]), ("topk", 4, 4))
        self.assertEqual((some["mode"], some["value"], some["kept_blocks"]), ("ratio", 0.5, 32))  # of 63
        self.assertLess(few["mass"], some["mass"])
        self.assertGreater(few["error"], some["error"])
        close = self.pruned("threshold:6")
        self.assertEqual((close["mode"], close["value"]), ("threshold", 6))
        self.assertGreater(close["mass"], 0.9)  # attention is peaked: a part of the blocks has nearly all of it
        self.assertLess(close["kept_blocks"], 63)
        self.assertLess(close["error"], few["error"])
        for everything in ("topk:63", "topk:4000", "ratio:1", "threshold:inf"):
            dense = self.pruned(everything)
            self.assertEqual((dense["kept_blocks"], dense["block_recall"]), (63, 1))
            self.assertAlmostEqual(dense["mass"], 1, places=9)
            self.assertLess(dense["max_error"], 1e-4)
        self.assertEqual(dense["value"], "infinity")
        self.assertGreater(self.pruned("threshold:6", "--queries", 3, "--dtype", "int8", "--v-head-dim", 32)["mass"], 0.8)
        code, out, err = command.run("bench", *"attention --prune topk:4 --context 200 --layers 1 --head-dim 32".split())
        self.assertEqual(code, 0, err)
        self.assertIn("4.00 of 13 blocks per KV head", out)
        self.assertIn("of the probability is kept", out)

    def test_a_wrong_prune_is_refused_with_its_value_and_the_limit(self):
        for how, text in (("8", "topk:N, ratio:R or threshold:T"), ("lsh:8", "topk:N, ratio:R"), ("topk:0", "whole number from 1"),
                          ("topk:1.5", "whole number"), ("topk:", "whole number"), ("topk:8x", "whole number"), ("ratio:0", "above 0, at most 1"),
                          ("ratio:1.01", "at most 1"), ("ratio:nan", "at most 1"), ("threshold:0", "above 0, or inf"), ("threshold:-1", "above 0"),
                          ("threshold:nan", "above 0")):
            self.assert_refused(command.run("bench", "attention", "--prune", how), f"--prune is {how}; give", text)
        for options in ("step", "gather", "attention --device emulated", "attention --latent --kv-heads 1", "attention --query-dtype bf16"):
            self.assert_refused(command.run("bench", *options.split(), "--prune", "topk:8"), "--prune is for attention on the CPU")
        self.assert_refused(command.run("bench", *"attention --prune topk:8 --queries 5000".split()), "--queries")

    def test_a_ratio_above_1_is_flagged(self):
        code, out, err = command.run("bench", *"gather --context 40 --layers 1 --kv-heads 8".split())  # 80 KB: some caches hold it
        self.assertEqual(code, 0, err)
        ratio = float(re.search(r": (\d+\.\d+) of it\n", out)[1])
        if ratio != 1:  # rounded
            self.assertEqual("ABOVE 1" in out, ratio > 1)

    def test_an_unknown_device_is_an_error(self):
        code, out, err = command.run("bench", "store", *SHAPE, "--device", "abacus:0")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("abacus", err)


if __name__ == "__main__":
    command.main()
