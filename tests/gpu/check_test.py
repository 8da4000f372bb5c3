# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check with programs that are none: whatever they do, results come, in time, of all that did run."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"
MEASURED = {"bench": "attention", "us_per_layer": 1.0, "enqueue_us_per_layer": 0.5, "gb_per_s": 2.0}
CEILINGS = {"read_gb_per_s": 4.0, "copy_gb_per_s": 4.0, "free_bytes": 0}
KVCACHE = f"""case "$*" in
*decode*) echo never ;;
*swap-out*) echo 'a library says something' >&2; echo '{json.dumps(MEASURED)}' ;;
*gather*) echo 'no JSON' ;;
*) echo '{json.dumps(MEASURED)}' ;;
esac"""
TESTS = """case "$*" in
*list_tests*) printf 'A.\n  Passes\n  Fails\n  Crashes\n  Hangs\n  Skips\n  DISABLED_Never\n' ;;
*A.Fails) echo why; exit 1 ;;
*A.Crashes) kill -SEGV $$ ;;
*A.Hangs) sleep 600 & echo $! >"$HANGING"; wait ;;
*A.Skips) echo '[  SKIPPED ] A.Skips' ;;
*) test -n "$EXPECTED" || exit 0; case ":$LD_LIBRARY_PATH:" in *:$EXPECTED:*) ;; *) exit 3 ;; esac ;;
esac"""
BENCH = f"""case "$*" in
ceilings*) echo '{json.dumps(CEILINGS)}' ;;
*) echo '{json.dumps(MEASURED)}' ;;
esac"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build, self.output, self.hanging = self.folder / "check", self.folder / "out" / "report.json", self.folder / "hanging"
        (self.build / "bin").mkdir(parents=True)
        (self.build / "on_devices").write_text("*\n")
        for name, text in {"kvcache": KVCACHE, "test_api": TESTS, "test_gpu_cuda": TESTS, "gpu_bench_cuda": BENCH}.items():
            program = self.build / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        self.environment = dict(os.environ, HANGING=str(self.hanging), EXPECTED="/driver", LD_LIBRARY_PATH="/driver", PATH="/usr/bin:/bin")

    def start(self, seconds):
        return subprocess.Popen([sys.executable, SCRIPT, "--device", "cuda:0", "--build", self.build, "--output", self.output, "--seconds", str(seconds)],
                                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def results(self):
        return {test["test"]: test["result"] for test in json.loads(self.output.read_text())["tests"]}

    def test_every_test_has_its_result(self):
        started = time.monotonic()
        with self.start(8) as process:
            text, _ = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual(process.returncode, 1, text)
        results = self.results()
        wanted = {"A.Passes": "passed", "A.Fails": "failed", "A.Crashes": "signal 11", "A.Hangs": "time limit", "A.Skips": "skipped"}
        self.assertEqual({name: results[name] for name in wanted}, wanted)
        self.assertNotIn("A.DISABLED_Never", results)
        command = pathlib.Path("/proc", self.hanging.read_text().strip(), "cmdline")
        self.assertFalse(command.exists() and command.read_text(), "what a test has started is left")  # a zombie has no command
        rows = {row["bench"]: row["result"] for row in json.loads(self.output.read_text())["benches"]}
        self.assertEqual(rows["gather bf16, 8K"], "failed", "what is no JSON ends nothing")
        self.assertEqual(rows["swap-out bf16, runs of 4 KiB"], "ok")
        self.assertIn("12 tests, 6 not passed", text)

    def test_who_is_terminated_says_what_there_is(self):
        with self.start(300) as process:
            deadline = time.monotonic() + 30
            while not self.hanging.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.5)
            self.assertEqual(self.results().get("A.Fails"), "failed", "results are written as they come")
            process.send_signal(signal.SIGTERM)
            text, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1, text)
        self.assertIn("it was terminated", text)
        self.assertIn("A.Fails", text)


if __name__ == "__main__":
    unittest.main()
