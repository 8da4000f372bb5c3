# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check with programs that are none: whatever they do, results come, in time, of all that did run; the time is that of patient.py. And
once with an emulated device."""
import fnmatch
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu-check"
PATIENT = pathlib.Path(__file__).with_name("patient.py")
BUILD = pathlib.Path(os.environ["KVC_LIBRARY"]).resolve().parent.parent if "KVC_LIBRARY" in os.environ else None
RIGHT = {"rows": 3, "max_error": 0.001, "limit": 0.005, "right": True}
MEASURED = {"bench": "attention", "us_per_layer": 1.0, "enqueue_us_per_layer": 0.5, "gb_per_s": 2.0, "check": RIGHT}
WRONG = {**MEASURED, "check": {**RIGHT, "max_error": 0.5, "right": False}}
CEILINGS = {"read_gb_per_s": 4.0, "copy_gb_per_s": 4.0, "device_to_host_gb_per_s": 8.0, "host_to_device_gb_per_s": 16.0, "free_bytes": 6 << 30, "check": RIGHT}
KVCACHE = f"""case "$*" in
*--layers\\ 1\\ --device*) ;;
*swap-out*--block-size\\ 16*) echo 'a library says something' >&2; echo '{json.dumps({**MEASURED, "bench": "swap-out"})}' ;;
*copy*) echo 'no JSON' ;;
*swap-in*) echo '{json.dumps({key: value for key, value in MEASURED.items() if key != "check"})}' ;;
*) echo '{json.dumps(MEASURED)}' ;;
esac"""
TESTS = """case "$*" in
*list_tests*Matrix*|*Matrix*list_tests*) printf 'A.\\n  Passes\\n  Telling\\n' ;;
*list_tests*) printf 'A.\\n  Passes\\n  Fails\\n  Crashes\\n  Hangs\\n  Skips\\n  FindsNoDevice\\n  Telling\\n  DISABLED_Never\\n' ;;
*A.Fails) echo why; exit 1 ;;
*A.Crashes) kill -SEGV $$ ;;
*A.Hangs) sleep 600 & echo $! >"$HANGING/$$"; wait ;;
*A.Skips) printf 'x_test.cc:3: Skipped\\nthe CPU has it alone\\n[  SKIPPED ] A.Skips\\n' ;;
*A.FindsNoDevice) printf 'x_test.cc:3: Skipped\\nthere is no device with graphs\\n[  SKIPPED ] A.FindsNoDevice\\n' ;;
*) test -n "$EXPECTED" || exit 0; case ":$LD_LIBRARY_PATH:" in *:$EXPECTED:*) ;; *) exit 3 ;; esac ;;
esac"""
GOOD_TESTS = """case "$*" in
*list_tests*) printf 'A.\\n  Passes\\n  Skips\\n' ;;
*A.Skips) printf 'x_test.cc:3: Skipped\\nthe CPU has it alone\\n[  SKIPPED ] A.Skips\\n' ;;
esac"""
BENCH = f"""case "$*" in
ceilings*) echo '{json.dumps(CEILINGS)}' ;;
*--latent*--heads\\ 16*bf16*) echo '{json.dumps(WRONG)}'; exit 1 ;;
*) echo '{json.dumps(MEASURED)}' ;;
esac"""
SANITIZER = """shift 6; exec "$@" """


def right(text):
    """A program that is never wrong."""
    return text.replace(json.dumps(WRONG) + "'; exit 1", json.dumps(MEASURED) + "'")


class Filters(unittest.TestCase):
    def test_each_pattern_names_a_test(self):
        """A test that was renamed would be left out without a word."""
        sys.path.insert(0, str(ROOT / "scripts"))
        from gpu_check import correctness
        sources = "".join(path.read_text() for folder in ("gpu", "api") for path in (ROOT / "tests" / folder).glob("**/*.cc"))
        tests = [".".join(names) for names in re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", sources, re.M)]
        for patterns in (correctness.SMOKE, correctness.FIRST_SANITIZED, correctness.SANITIZED):
            for pattern in patterns.split(":"):
                self.assertTrue(fnmatch.filter(tests, pattern), pattern)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.build, self.output, self.hanging = self.folder / "check", self.folder / "of the caller", self.folder / "hanging"
        (self.build / "bin").mkdir(parents=True)
        self.hanging.mkdir()
        (self.build / "on_devices").write_text("*\n")
        self.programs({"kvcache": KVCACHE, "test_api": TESTS, "test_gpu_cuda": TESTS, "gpu_bench_cuda": BENCH})
        tools = self.folder / "tools"
        tools.mkdir()
        self.program(tools / "compute-sanitizer", SANITIZER)
        self.environment = dict(os.environ, HANGING=str(self.hanging), EXPECTED="/driver", LD_LIBRARY_PATH="/driver", PATH=f"{tools}:/usr/bin:/bin")

    def program(self, path, text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def programs(self, texts):
        for name, text in texts.items():
            self.program(self.build / "bin" / name, text)

    def start(self, what, seconds, *more, device="cuda:0", build=None, clock=()):
        return subprocess.Popen([sys.executable, *clock, SCRIPT, what, "--device", device, "--build", build or self.build, "--output", self.output,
                                 "--seconds", str(seconds), *more], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def call(self, what, seconds, *more, **options):
        """(exit status, what it prints), by the patient clock"""
        with self.start(what, seconds, *more, clock=(PATIENT,), **options) as process:
            text, _ = process.communicate(timeout=500)
        return process.returncode, text

    def taken(self, text):
        """The seconds that it says it took."""
        return int(re.search(r"^(\d+) s; ", text, re.M)[1])

    def rows(self, what):
        return json.loads((self.output / f"gpu-{what}.json").read_text())["rows"]

    def results(self, what, name):
        return {row[name]: row["result"] for row in self.rows(what)}

    def test_every_test_has_its_result(self):
        code, text = self.call("tests", 60, "--test-seconds", "1")
        self.assertEqual(code, 1, text)
        self.assertEqual(self.taken(text), 1 + 2 + 2, "as long as a test may, twice as long under each sanitizer")
        results = self.results("tests", "test")
        wanted = {"A.Passes": "passed", "A.Fails": "failed", "A.Crashes": "signal 11", "A.Hangs": "time limit", "A.Skips": "skipped",
                  "A.FindsNoDevice": "not run", "A.Telling": "passed", "memcheck: A.Passes": "passed", "racecheck: A.Fails": "failed"}
        self.assertEqual({name: results[name] for name in wanted}, wanted)
        self.assertNotIn("A.DISABLED_Never", results)
        for file in self.hanging.iterdir():
            command = pathlib.Path("/proc", file.read_text().strip(), "cmdline")
            self.wait_for(lambda command=command: not (command.exists() and command.read_text()), "what a test has started is left")  # a zombie has no command
        self.assertIn(f"{len(results)} tests: ", text)
        self.assertIn("skipped, the CPU has it alone: memcheck: A.Skips", text)
        self.assertEqual((self.output / "gpu-tests.txt").read_text().strip(), text[text.index("---- "):text.rindex("\n", 0, -1)].strip())

    def test_the_most_telling_come_first_and_none_twice(self):
        self.call("tests", 60, "--test-seconds", "0.5")
        phases = [row["phase"] for row in self.rows("tests")]
        self.assertEqual(list(dict.fromkeys(phases)), ["smoke", "memcheck", "racecheck", "kernels and engines"])  # the programs have the same tests
        self.assertEqual([row["test"] for row in self.rows("tests")][:2], ["A.Passes", "A.Telling"])
        names = [row["test"] for row in self.rows("tests")]
        self.assertEqual(len(names), len(set(names)))

    def test_what_the_time_does_not_suffice_for_is_not_run(self):
        code, text = self.call("tests", 12)
        self.assertEqual(code, 1, text)
        self.assertLessEqual(self.taken(text), 12 - 5, "without what killing takes")
        self.assertEqual(self.results("tests", "test")["A.Hangs"], "not run")
        self.assertIn("not run, the time was used up while it ran: memcheck: A.Hangs", text)
        code, text = self.call("tests", 1)
        self.assertEqual(code, 1, text)
        self.assertNotIn("passed", {row["result"] for row in self.rows("tests")}, "no time is left at all")

    def test_all_well_ends_with_0(self):
        self.programs({"test_api": GOOD_TESTS, "test_gpu_cuda": GOOD_TESTS, "gpu_bench_cuda": right(BENCH), "kvcache": f"echo '{json.dumps(MEASURED)}'"})
        code, text = self.call("tests", 60)
        self.assertEqual(code, 0, text)
        code, text = self.call("figures", 60)
        self.assertEqual(code, 0, text)
        rows = {row["bench"]: row for row in self.rows("figures")}
        skipped = rows["decode bf16, 64 x 8K"]  # there are 6 GiB
        self.assertEqual(skipped["result"], "skipped")
        self.assertIn("it needs 8 GiB of memory, and 6 are free", skipped["output"])
        self.assertIn("decode bf16, 64 x 8K", text)
        self.assertEqual(rows["decode bf16, 1 x 8K"]["memory_ratio"], 0.5)

    def test_without_a_sanitizer_that_is_not_run(self):
        self.programs({"test_api": GOOD_TESTS, "test_gpu_cuda": GOOD_TESTS})
        (self.folder / "tools" / "compute-sanitizer").write_text("#!/bin/sh\necho '========= Device not supported'\nexit 1\n")
        code, text = self.call("tests", 60)
        self.assertEqual(code, 1, text)
        self.assertEqual(self.results("tests", "test")["racecheck: A.Passes"], "not run")
        self.assertIn("not run, Device not supported: memcheck: A.Passes", text)

    def test_wrong_results_and_other_failures_of_benchmarks(self):
        code, text = self.call("figures", 60)
        self.assertEqual(code, 1, text)
        results = self.results("figures", "bench")
        self.assertEqual(results["MLA bf16, 16 heads, 64 x 8K"], "wrong")
        self.assertRegex(text, r"MLA bf16, 16 heads.* 0\.5  WRONG")
        self.assertEqual(results["copy bf16, 64K"], "failed", "what is no JSON ends nothing")
        self.assertEqual(results["swap-in, pieces of 16 KiB"], "failed", "nothing was compared")
        self.assertEqual(results["swap-out, pieces of 64 KiB"], "ok")
        self.assertEqual(results["decode bf16, 1 x 8K"], "ok")
        swapped = next(row for row in self.rows("figures") if row["bench"] == "swap-out, pieces of 64 KiB")
        self.assertEqual(swapped["memory_ratio"], 2 / 8)

    def test_a_benchmark_that_hangs_leaves_the_rest_not_run(self):
        self.programs({"gpu_bench_cuda": BENCH.replace("*) echo", '*) touch "$HANGING/$$"; sleep 600 ;;\n*) echo', 1).replace("*--latent", "never*", 1)})
        code, text = self.call("figures", 20)
        self.assertEqual(code, 1, text)
        self.assertLessEqual(self.taken(text), 20 - 5)
        results = self.results("figures", "bench")
        self.assertIn("not run", results.values())
        self.assertIn("not run: the time was used up", text)
        code, text = self.call("figures", 5, "--only", "1 x 8K")
        self.assertEqual(set(self.results("figures", "bench").values()), {"not run"}, "no time is left at all")

    def test_without_its_program_nothing_is_skipped(self):
        (self.build / "bin" / "gpu_bench_cuda").unlink()
        code, text = self.call("figures", 60, "--only", "1 x 8K$")
        self.assertEqual(code, 1, text)
        self.assertEqual(self.results("figures", "bench")["decode bf16, 1 x 8K"], "not run")
        (self.build / "bin" / "test_gpu_cuda").unlink()
        self.programs({"test_api": GOOD_TESTS})
        code, text = self.call("tests", 60)
        self.assertEqual(code, 1, text)
        self.assertEqual(self.results("tests", "test")["test_gpu_cuda"], "not run")

    def wait_for(self, condition, otherwise="it never came"):
        deadline = time.monotonic() + 240
        while not condition():
            self.assertLess(time.monotonic(), deadline, otherwise)
            time.sleep(0.05)

    def hangs(self):
        return any(self.hanging.iterdir())

    def test_who_is_terminated_says_what_there_is(self):
        with self.start("tests", 300) as process:
            self.wait_for(self.hangs)
            self.wait_for(lambda: self.results("tests", "test").get("A.Passes") == "passed")
            self.assertEqual(self.results("tests", "test")["A.FindsNoDevice"], "not run", "what is to come is there already")
            process.send_signal(signal.SIGTERM)
            text, _ = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 1, text)
        self.assertIn("it was terminated", text)
        self.assertNotIn("signal 9", text, "what this script ends has not crashed")
        self.assertIn("A.Passes", json.dumps(self.rows("tests")))

    def test_who_is_killed_leaves_what_there_is(self):
        with self.start("tests", 300) as process:
            self.wait_for(self.hangs)
            self.wait_for(lambda: self.results("tests", "test").get("A.Telling") == "passed")
            process.kill()
            process.communicate(timeout=240)
        self.assertEqual(self.results("tests", "test")["A.Telling"], "passed")
        self.assertRegex((self.output / "gpu-tests.txt").read_text(), r"\d+ tests: \d+ passed")
        for file in self.hanging.iterdir():
            os.kill(int(file.read_text()), signal.SIGKILL)

    def test_the_list_keeps_to_its_time(self):
        text = subprocess.run([sys.executable, SCRIPT, "figures", "--list"], capture_output=True, text=True, check=True).stdout
        count, seconds = (int(word) for word in text.splitlines()[-1].replace(",", "").split() if word.isdigit())
        self.assertGreaterEqual(count, 60)
        self.assertLess(seconds, 560 * 0.7)

    @unittest.skipUnless(BUILD and (BUILD / "tests/gpu_bench_emulated").exists() and (BUILD / "backends/libkvcache_emulated.so").exists(),
                         "the benchmarks of graphs and the emulated backend are not built")
    def test_on_an_emulated_device(self):
        build = self.folder / "emulated"
        for folder, files in {"bin": ["bin/kvcache", "tests/test_api", "tests/gpu_bench_emulated"],
                              "lib": ["lib/libkvcache.so.0", "backends/libkvcache_emulated.so"]}.items():
            (build / folder).mkdir(parents=True)
            for file in files:
                (build / folder / pathlib.Path(file).name).symlink_to(BUILD / file)
        (build / "on_devices").write_text("StorageRope.KeysRotate*\n")
        code, text = self.call("tests", 100, device="emulated", build=build)
        self.assertEqual(code, 0, text)
        self.assertIn("StorageRope                             2 passed", text)
        code, text = self.call("figures", 400, "--only", "^(MLA fp8, 16|store int4|gather|copy|swap-.*64 KiB|prefill bf16, 1K|decode bf16, 64 x 8K, 2 q)",
                               device="emulated:1", build=build)
        self.assertEqual(code, 0, text)
        rows = self.rows("figures")
        self.assertEqual({row["result"] for row in rows}, {"ok"}, text)
        self.assertEqual(len(rows), 10)
        self.assertTrue(all(row["measured"]["check"]["right"] for row in rows))


if __name__ == "__main__":
    unittest.main()
