# SPDX-License-Identifier: Apache-2.0
"""`gpu-check tests`: each test of storages, kernels and engines in a process of its own, the most telling ones first, some under compute-sanitizer."""
import concurrent.futures
import re
import shutil

from gpu_check.run import VISIBLE, counts, outcome

PROBE_SECONDS = 60
SANITIZERS = ("memcheck", "racecheck")

# One or two of every kind of kernel, and a step of an engine.
SMOKE = ("MatrixTest.*:CeilingsTest.CopyIsWhole:RowsTest.EveryLayoutAndType*:RowsTest.KeysThatAStoreRotates*:BlocksTest.CopiesAre*:BlocksTest.APage*:"
         "BoundsTest.*:IndicesTest.Slots*:RowsTest.EveryQuantizedFormat*:SelectTest.PicksWhat*:AttentionShapes.EveryTypeOnTensorCores*:AttentionShapes.LatentRows*:"
         "AttentionShapes.EveryStoredType*:AttentionBatch.APlanIs*:AttentionCascade.OneGroup:AttentionRules.BitMaskAndTree:"
         "AttentionSinkLogits.GoWith*:AttentionStrides.OfQueries:Engine.ADecodeStepReplaysFromAGraph:EngineFork.*")
# Short ones of every kind of kernel, for tools that take a hundred times as long; the first of them so early that they always run.
FIRST_SANITIZED = ("AttentionShapes.LittleSharedMemory:AttentionBatch.APlanIsMadeOnTheDevice:RowsTest.ALongRow*:BlocksTest.ClearedBlocks*:"
                   "IndicesTest.ChangesReach*:Engine.ADecodeStepReplaysFromAGraph")
SANITIZED = ("AttentionBoundsTest.NoLengths*:AttentionSharedPlan.W*:AttentionSharedPlan.OfOtherL*:AttentionShapes.LatentRowsOfCodes:AttentionShapes.TiledKeys:AttentionCascade.ATreeBehindThePrefix:"
             "RowsTest.EveryBlockSizeOfTiledKeys*:BlocksTest.C*:BlocksTest.APage*:IndicesTest.*:RowsTest.EveryQuantizedFormat*:MatrixTest.*:CeilingsTest.*")
SANITIZER_PROBE = "MatrixTest.*"

# What a test says that has found nothing to test: on a machine with a device that is no reason to skip.
NOTHING_TESTED = ("there is no device", "KVC_BACKEND_PATH", "was not built")


def names_in(listing):
    names, suite = [], ""
    for line in listing.splitlines():
        if line.startswith("  ") and not line.startswith("  DISABLED_"):  # which other tests run
            names.append(suite + line.split()[0])
        elif line.split("#")[0].strip().endswith("."):
            suite = line.split("#")[0].strip()
    return names


def reason_of_skip(output):
    """What stands between the place in the source and the end of the test."""
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if line.endswith(": Skipped"):
            return next((text for text in lines[at + 1:] if text.strip()), "")
    return "it does not say why"


class Tests:
    def __init__(self, run, only):
        self.run, self.only, self.phases, self.planned, self.reasons = run, only, [], set(), {}

    def add(self, title, program, test_filter, share, tool=()):
        """Plans the tests of a program that are not planned already, until this share of the time is used."""
        run, path = self.run, self.run.program(program)
        under = f"{title}: " if tool else ""
        code, listing, _ = run.execute([path, f"--gtest_filter={test_filter}", "--gtest_list_tests"], min(PROBE_SECONDS, run.left())) \
            if path else (127, f"there is no {program} in {run.build / 'bin'}", 0)
        names = [name for name in names_in(listing) if under + name not in self.planned and re.search(self.only, under + name)] if code == 0 else []
        if code != 0:
            run.plan({"test": under + program, "phase": title})["output"] = listing[-2000:]
        self.planned.update(under + name for name in names)
        rows = [(run.plan({"test": under + name, "phase": title}), [*tool, path, f"--gtest_filter={name}"]) for name in names]
        self.phases.append((title, rows, share))

    def add_sanitized(self, test_filter, first, share):
        """Under both tools, or a line for each that says why not."""
        run = self.run
        program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        for number, tool in enumerate(SANITIZERS):
            if not program:
                if first:
                    run.plan({"test": f"{tool}: all", "phase": tool})["output"] = "there is no compute-sanitizer"
                continue
            options = (program, "--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no")
            self.add(tool, f"test_gpu_{run.vendor}", test_filter, share - 0.08 * (len(SANITIZERS) - 1 - number), options)

    def plan(self):
        run = self.run
        test_api = (run.build / "on_devices").read_text().strip()
        if run.vendor in VISIBLE:
            self.add("smoke", f"test_gpu_{run.vendor}", SMOKE, 0.15)
        if run.vendor == "cuda":
            self.add_sanitized(FIRST_SANITIZED, True, 0.4)
        if run.vendor in VISIBLE:
            self.add("kernels and engines", f"test_gpu_{run.vendor}", "*", 0.65)
        self.add("the C API", "test_api", test_api, 0.85)
        if run.vendor == "cuda":
            self.add_sanitized(SANITIZED, False, 1)
        run.write()

    def execute(self):
        for title, rows, share in self.phases:
            if title in SANITIZERS and rows and (reason := self.why_not(title, rows[0][1])) is not None:
                for row, _ in rows:
                    self.run.finish(row, output=reason)
                continue
            with concurrent.futures.ThreadPoolExecutor(self.run.jobs) as pool:
                list(pool.map(lambda planned, until=share: self.one(*planned, until), rows))

    def why_not(self, tool, command):
        """Why the tool cannot work here at all, as under some virtual machines, or None."""
        if tool not in self.reasons:
            _, output, _ = self.run.execute([*command[:-1], f"--gtest_filter={SANITIZER_PROBE}"], min(PROBE_SECONDS, self.run.left()))
            self.reasons[tool] = next((line.strip("= ") for line in output.splitlines() if "not supported" in line), None)
        return self.reasons[tool]

    def one(self, row, command, share):
        run, left = self.run, self.run.left(share)
        if left <= 0:
            run.finish(row, output="the time was used up")
            return
        most = run.test_seconds * (2 if row["phase"] in SANITIZERS else 1)
        code, output, seconds = run.execute(command, min(most, left))
        row["seconds"] = round(seconds, 2)
        if code == 0 and "[  SKIPPED ]" in output:
            reason = reason_of_skip(output)
            run.finish(row, result="not run" if any(text in reason for text in NOTHING_TESTED) else "skipped", output=reason)
        elif code == 0:
            run.finish(row, result="passed")
        else:
            run.finish(row, **outcome(code, output[:4000], run.ended or code is None and left < most))


def table(run):
    failed = [row for row in run.rows if row["result"] not in ("passed", "skipped")]
    parts = []
    for row in failed:
        if row["result"] != "not run":
            parts.append(f"\n---- {row['test']}: {row['result']}\n" + "\n".join(row.get("output", "").splitlines()[:25]))
    for result in ("skipped", "not run"):
        reasons = {}
        for row in run.rows:
            if row["result"] == result:
                reasons.setdefault(row.get("output") or "its turn has not come", []).append(row["test"])
        parts += [f"\n{result}, {reason}: {', '.join(names)}" for reason, names in reasons.items()]
    suites = {}
    for row in run.rows:
        suites.setdefault(row["test"].partition(".")[0], []).append(row)
    parts.append(f"\n{'tests':<40}result")
    parts += [f"{suite:<40}{counts(rows)}" for suite, rows in suites.items()]
    parts.append(f"\n{len(run.rows)} tests: {counts(run.rows)}")
    return "\n".join(parts) + "\n"


def main(run, only):
    """Whether all is well."""
    run.table = lambda: table(run)
    tests = Tests(run, only)
    tests.plan()
    tests.execute()
    return bool(run.rows) and all(row["result"] in ("passed", "skipped") for row in run.rows) and not run.ended
