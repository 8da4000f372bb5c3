#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice? Builds a copy of the sources with one defect at a time (defects.py) and runs the conformance
cases, the tests of the manager, of models, of tiers, of speculation and of the scheduler, and the comparison with the reference model on it. Prints who noticed; fails if nobody did.

    seed_defects.py FOLDER [WORDS]     FOLDER: for the copy and its build, kept for the next run
                                       WORDS: only defects whose name has them
"""
import filecmp
import os
import re
import shutil
import subprocess
import sys

from defects import DEFECTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = ["test_conformance", "test_manager", "test_models", "test_sizing", "test_fills", "test_cross", "test_partial", "test_resize", "test_tier", "test_speculation", "test_scheduler", "test_c_api_step_misuse_test", "test_c_api_step_changes_test",
           "test_property_reader_threads", "test_property_property"]
TESTS = [[target] for target in TARGETS[:-1]] + [[TARGETS[-1], "--shrink", "0"]]


def copy_changed(source, target):
    """What is equal keeps its time and is not built again; what differs gets a new one."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copyfile(source, target)


def drop_gone(source, target):
    """A kept copy has no file that the sources have no longer: the build would compile it."""
    for folder, _, names in os.walk(target):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.exists(os.path.join(source, os.path.relpath(path, target))):
                os.remove(path)


def copy_sources(copy):
    for part in set(os.listdir(ROOT)) - {"build", ".git"}:
        source, target = os.path.join(ROOT, part), os.path.join(copy, part)
        if os.path.isdir(source):
            drop_gone(source, target)
            shutil.copytree(source, target, copy_function=copy_changed, dirs_exist_ok=True)
        else:
            copy_changed(source, target)


def build(copy, tree):
    """None, or what the compiler said."""
    done = subprocess.run(["cmake", "--build", tree, "-j", str(os.cpu_count()), "--target", *TARGETS],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout[-4000:]


def who_notices(tree):
    """The first test that fails, or None."""
    for test in TESTS:
        try:
            done = subprocess.run([os.path.join(tree, "tests", test[0]), *test[1:]], capture_output=True, text=True,
                                  timeout=60, check=False, errors="replace")
        except subprocess.TimeoutExpired:
            return f"{test[0]}: no end"
        if done.returncode == 0:
            continue
        failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
        if failed:
            return failed.group(1)
        said = re.search(r"FAILED in the episode.*\n(.*)", done.stdout)
        return f"{test[0]}: {said.group(1) if said else f'ended with {done.returncode}'}"
    return None


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
    copy, tree = os.path.join(folder, "sources"), os.path.join(folder, "build")
    os.makedirs(copy, exist_ok=True)
    copy_sources(copy)
    cache = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    subprocess.run(["cmake", "-S", copy, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DKVC_GPU=none", *cache], check=True, stdout=subprocess.DEVNULL)
    if (said := build(copy, tree)) is not None:
        sys.exit(said)
    if (noticed := who_notices(tree)) is not None:
        sys.exit(f"without a defect {noticed} fails")

    unnoticed, tried = [], 0
    for name, file, right, wrong in DEFECTS:
        if not all(word in name for word in words):
            continue
        tried += 1
        path = os.path.join(copy, file)
        with open(path, encoding="utf-8") as source:
            text = source.read()
        if text.count(right) != 1:
            sys.exit(f"{file}: the text of the defect '{name}' stands {text.count(right)} times, not once")
        with open(path, "w", encoding="utf-8") as source:
            source.write(text.replace(right, wrong))
        said = build(copy, tree)
        noticed = f"does not compile:\n{said}" if said is not None else who_notices(tree)
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
        print(f"{name:56} {noticed or 'NOBODY NOTICES'}", flush=True)
        if said is not None or noticed is None:
            unnoticed.append(name)
    if unnoticed:
        sys.exit(f"{len(unnoticed)} of {tried} defects were not noticed: {'; '.join(unnoticed)}")
    print(f"{tried} defects, all noticed")


if __name__ == "__main__":
    main()
