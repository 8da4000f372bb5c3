#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A deep check that is told to end is cut short, also one that a shell has started in the background, where SIGINT is ignored."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
# scripts/deep with a part of our own, and its results in another folder.
DEEP = """
import importlib.machinery, importlib.util, os, sys
scripts, folder = sys.argv[1:]
sys.path.insert(0, scripts)
loader = importlib.machinery.SourceFileLoader("deep", os.path.join(scripts, "deep"))
deep = importlib.util.module_from_spec(importlib.util.spec_from_loader("deep", loader))
loader.exec_module(deep)
deep.FOLDER, deep.RESULTS, deep.tree = folder, os.path.join(folder, "results.json"), lambda: "a tree"
deep.PARTS = {"long": ("a long one", {}, f"touch {folder}/started; exec sleep 100")}
sys.argv = ["deep", "long"]
deep.main()
"""


class CutShort(unittest.TestCase):
    def test_in_the_background_too(self):
        with tempfile.TemporaryDirectory() as folder:
            command = "trap '' INT; exec \"$@\""
            deep = subprocess.Popen(["sh", "-c", command, "sh", sys.executable, "-c", DEEP, SCRIPTS, folder])
            while not os.path.exists(os.path.join(folder, "started")):
                self.assertIsNone(deep.poll())
                time.sleep(0.01)
            deep.send_signal(signal.SIGTERM)
            self.assertEqual(deep.wait(), 1)
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["long"]["result"], "cut short")


if __name__ == "__main__":
    unittest.main()
