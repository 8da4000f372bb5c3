# SPDX-License-Identifier: Apache-2.0
"""check.py NAME=COMMAND...: every runner prints SCENARIO.trace for each SCENARIO.txt here, and all print the same for a random
scenario (by --seed or KVC_TEST_SEED, else 1). COMMAND is words separated by '|'."""

import os
import pathlib
import subprocess
import sys
import tempfile

import random_scenario

HERE = pathlib.Path(__file__).resolve().parent
KINDS = 4  # a seed whose groups are of several kinds


def run(command, scenario):
    return subprocess.run([*command.split("|"), str(scenario)], check=True, capture_output=True, text=True).stdout.splitlines()


def first_difference(name, expected, got):
    for number, (one, other) in enumerate(zip(expected, got), 1):
        if one != other:
            return f"{name}, line {number} of the trace:\n  {other}\nexpected:\n  {one}"
    return None if len(expected) == len(got) else f"{name}: {len(got)} lines, expected {len(expected)}"


def main(arguments):
    seed = int(arguments.pop(0).split("=")[1]) if arguments[0].startswith("--seed=") else int(os.environ.get("KVC_TEST_SEED", "1"))
    runners = dict(argument.split("=", 1) for argument in arguments)
    failures, lengths = [], []
    for trace in sorted(HERE.glob("*.trace")):
        expected = trace.read_text(encoding="utf-8").splitlines()
        lengths.append(f"{len(expected)} lines of {trace.name}")
        failures += [first_difference(f"{name}, {trace.stem}", expected, run(command, trace.with_suffix(".txt"))) for name, command in runners.items()]
    with tempfile.TemporaryDirectory() as folder:
        for number, operations in ((KINDS, 100), (seed, 500)):
            path = pathlib.Path(folder) / "random.txt"
            path.write_text("".join(" ".join(map(str, words)) + "\n" for words in random_scenario.scenario(number, operations)), encoding="utf-8")
            traces = {name: run(command, path) for name, command in runners.items()}
            first = next(iter(traces.values()))
            failures += [first_difference(f"{name}, --seed={number}", first, trace) for name, trace in traces.items()]
    failures = [failure for failure in failures if failure]
    succeeded = sum(" = 0" in line for line in first)
    print(*failures, f"{', '.join(runners)}: {', '.join(lengths)}, {len(first)} of seed {seed}, {succeeded} calls succeeded", sep="\n")
    return 1 if failures or succeeded < 600 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
