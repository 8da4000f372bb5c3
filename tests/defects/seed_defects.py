#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the tests notice? Builds a copy of the sources with one defect at a time (defects.py) and runs the conformance cases, the tests of
layers, and the comparison with the reference model on it. Prints who noticed; fails if nobody did. First comes the test that noticed the
last time (noticed.json beside this file, which each run renews), then the tests of the file's name and folder: mostly one file to
compile and one program to link.

    seed_defects.py FOLDER [--new] [--resume] [WORDS]
                                       FOLDER: for a copy and its build for each processor, kept for the next run
                                       --new: only defects that nobody has noticed so far; WORDS: only those whose name has them
                                       --resume: leaves out what earlier runs in FOLDER noticed with the same sources
    seed_defects.py --texts            checks alone that the text of each defect stands in its file once
"""
import concurrent.futures
import contextlib
import filecmp
import glob
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time

from defects import DEFECTS

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NOTICED = os.path.join(HERE, "noticed.json")
MODEL = "test_property_property"
# In this order; those that wait for disks, processes and clocks come last: they find little that the others do not.
TARGETS = ["test_conformance", "test_manager", "test_models", "test_sizing", "test_fills", "test_cross", "test_partial", "test_resize",
           "test_c_api_step_misuse_test", "test_c_api_step_changes_test", "test_property_reader_threads", "test_property_record", MODEL,
           "test_speculation", "test_scheduler", "test_offload", "test_tier"]
KILLS = "20"  # of a process, in the tests that kill some: they are made for thousands


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


def parts_of_sources():
    return sorted(set(os.listdir(ROOT)) - {"build", ".git"})


def fingerprint():
    """Of all that is built here: of the sources without documents and without what this program writes."""
    digest = hashlib.sha256()
    for part in parts_of_sources():
        path = os.path.join(ROOT, part)
        files = [path] if os.path.isfile(path) else sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        for file in files:
            if part != "docs" and not file.endswith((".md", ".pyc")) and file != NOTICED:
                with open(file, "rb") as content:
                    digest.update(f"{os.path.relpath(file, ROOT)} {hashlib.sha256(content.read()).hexdigest()}\n".encode())
    return digest.hexdigest()


def copy_sources(copy):
    for part in parts_of_sources():
        source, target = os.path.join(ROOT, part), os.path.join(copy, part)
        if os.path.isdir(source):
            drop_gone(source, target)
            shutil.copytree(source, target, copy_function=copy_changed, dirs_exist_ok=True)
        else:
            copy_changed(source, target)


def build(tree, targets):
    """None, or what the compiler said."""
    done = subprocess.run(["cmake", "--build", tree, "-j", str(os.cpu_count()), "--target", *targets],
                          capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stdout[-4000:]


LIMITS = {}  # by program: seconds, many times what it takes without a defect, for hanging alone


def notices(tree, target, case=None):
    """What of this program fails, or None; `case`: one GoogleTest case alone."""
    options = ["--shrink", "0"] if target == MODEL else [f"--gtest_filter={case}"] if case else []
    environment = {**os.environ, "KVC_PLUGIN_PATH": f"{tree}/plugins:{tree}/lib", "KVC_BACKEND_PATH": f"{tree}/backends", "KVC_TEST_KILLS": KILLS}
    with subprocess.Popen([os.path.join(tree, "tests", target), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=environment, start_new_session=True) as test:
        try:
            output, _ = test.communicate(timeout=LIMITS.get(target, 600))
        except subprocess.TimeoutExpired:
            output = None
        finally:  # it may have left processes of its own
            with contextlib.suppress(ProcessLookupError):
                os.killpg(test.pid, signal.SIGKILL)
    if output is None:
        return f"{target}: no end"
    if test.returncode == 0:
        return None
    failed = re.search(r"\[  FAILED  \] (\S+)", output)
    if failed:
        return f"{target}: {failed.group(1).rstrip(',')}"
    said = re.search(r"FAILED in the episode.*\n(.*)", output)
    return f"{target}: {said.group(1) if said else f'ended with {test.returncode}'}"


def sound(tree, target):
    """What of this program fails without a defect, or None."""
    begin = time.monotonic()
    found = notices(tree, target)
    LIMITS[target] = 60 + 10 * (time.monotonic() - begin)
    return found


def in_turn(file, last):
    """The programs to try for a defect of a file: the one that noticed the last time, the tests of what its name and its folder say, then all
    others."""
    words = [*re.split(r"[_.]", os.path.basename(file)), file.split("/")[1]]
    own = [f"test_{word}" for word in words if word != "api" and glob.glob(os.path.join(ROOT, "tests", word, "*_test.cc"))]
    return list(dict.fromkeys(([last.partition(": ")[0]] if last else []) + own + TARGETS))


def try_defect(tree, file, last):
    """(who notices or None, what the compiler said or None). `last`: who noticed the last time, or None. Each program is built when it
    is its turn: mostly the first one is enough."""
    what = last.partition(": ")[2] if last else ""
    if re.fullmatch(r"\w+(/\w+)?\.\w+(/\w+)?", what):
        target = last.partition(": ")[0]
        said = build(tree, [target])
        if said is not None:
            return None, said
        if found := notices(tree, target, what):
            return found, None
    for target in in_turn(file, last):
        said = build(tree, [target])
        if said is not None:
            return None, said
        if found := notices(tree, target):
            return found, None
    return None, None


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def check_texts():
    wrong = [f"{file}: the text of the defect '{name}' stands {count} times, not once"
             for name, file, right, _ in DEFECTS if (count := read(os.path.join(ROOT, file)).count(right)) != 1]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(DEFECTS)} defects, each text stands once")


class Tried:
    """Which defects the runs in a folder have tried and noticed, while the sources stay as they are."""

    def __init__(self, folder, resume):
        self.path, self.sources = os.path.join(folder, "tried.json"), fingerprint()
        before = json.loads(read(self.path)) if os.path.exists(self.path) else {}
        self.names = before["names"] if before.get("sources") == self.sources else []
        self.left_out = set(self.names) if resume else set()

    def add(self, name):
        self.names = sorted({*self.names, name})
        write(self.path + ".new", json.dumps({"sources": self.sources, "names": self.names}, indent=1) + "\n")
        os.replace(self.path + ".new", self.path)


def prepare(tree, targets):
    """A copy of the sources with everything built. The second one comes from the compiler's cache."""
    copy, build_folder = os.path.join(tree, "sources"), os.path.join(tree, "build")
    os.makedirs(copy, exist_ok=True)
    copy_sources(copy)
    subprocess.run(["cmake", "-S", copy, "-B", build_folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
                    "-DKVC_GPU=none", "-DKVC_EXAMPLES=OFF"], check=True, stdout=subprocess.DEVNULL)
    if (said := build(build_folder, targets)) is not None:
        sys.exit(said)


def main():
    if sys.argv[1:] == ["--texts"]:
        return check_texts()
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    check_texts()
    folder, options = os.path.abspath(sys.argv[1]), {word for word in sys.argv[2:] if word.startswith("--")}
    words = [word for word in sys.argv[2:] if word not in options]
    if options - {"--new", "--resume"}:
        sys.exit(__doc__)
    trees = [os.path.join(folder, str(i)) for i in range(min(os.cpu_count() or 1, 8))]
    free = queue.SimpleQueue()  # a tree has one defect at a time
    targets = list(dict.fromkeys(target for _, file, _, _ in DEFECTS for target in in_turn(file, None)))
    os.makedirs(folder, exist_ok=True)
    tried = Tried(folder, "--resume" in options)  # of the sources that are copied now
    for tree in trees:
        prepare(tree, targets)
        free.put(tree)
    noticed = json.loads(read(NOTICED)) if os.path.exists(NOTICED) else {}
    chosen = [defect for defect in DEFECTS if all(word in defect[0] for word in words) and not ("--new" in options and defect[0] in noticed)
              and defect[0] not in tried.left_out]
    unnoticed, names = [], {name for name, *_ in DEFECTS}

    def seed(defect):
        name, file, right, wrong = defect
        tree = free.get()
        begin = time.monotonic()
        path = os.path.join(tree, "sources", file)
        text = read(path)
        try:
            write(path, text.replace(right, wrong))
            return *try_defect(os.path.join(tree, "build"), file, noticed.get(name)), time.monotonic() - begin
        finally:
            write(path, text)
            free.put(tree)

    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        if found := next(filter(None, pool.map(lambda target: sound(os.path.join(trees[0], "build"), target), targets)), None):
            sys.exit(f"without a defect {found} fails")
        for (name, *_), (found, said, seconds) in zip(chosen, pool.map(seed, chosen)):
            print(f"{name:60} {seconds:5.1f} s  {found or (f'does not compile:{chr(10)}{said}' if said else 'NOBODY NOTICES')}", flush=True)
            if found:
                noticed[name] = found
                tried.add(name)
            else:
                unnoticed.append(name)
                noticed.pop(name, None)
            write(NOTICED, json.dumps({name: noticed[name] for name in sorted(noticed) if name in names}, indent=1) + "\n")
    if unnoticed:
        sys.exit(f"{len(unnoticed)} of {len(chosen)} defects were not noticed: {'; '.join(unnoticed)}")
    print(f"{len(chosen)} defects, all noticed{f'; {len(tried.left_out)} before' if tried.left_out else ''}")
    return None


if __name__ == "__main__":
    main()
