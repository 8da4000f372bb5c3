#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the library's binary interface with the one that was recorded (libabigail).

abi_diff.py check  LIBRARY HEADER [BASELINE]   exit 1 when they differ; 77 without abidiff
abi_diff.py update LIBRARY HEADER              records LIBRARY, one that was built with debug information by GCC

New functions pass. Any other difference has to be recorded, so that the change of kvcache-<processor>.abi shows it to whoever reviews:
also fields that are added to structs, which no program notices if they are added at the end of one that begins with struct_size.
"""
import os
import platform
import shutil
import subprocess
import sys

SKIPPED = 77


def baseline_path():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), f"kvcache-{platform.machine()}.abi")


def check(library, header_path, baseline):
    if not shutil.which("abidiff"):
        print("skipped: there is no abidiff (package abigail-tools)")
        return SKIPPED
    if not os.path.exists(baseline):
        print(f"skipped: no interface was recorded for this processor ({baseline})")
        return SKIPPED
    code = subprocess.run(["abidiff", "--no-added-syms", "--harmless", "--headers-dir2", os.path.dirname(header_path), baseline, library],
                          check=False).returncode
    if code:
        print(f"The binary interface differs from {baseline}. If it should:\n"
              "  cmake --build <build folder> --target abi_baseline")
    return 1 if code else 0


def update(library, header_path):
    subprocess.run(["abidw", "--headers-dir", os.path.dirname(header_path), "--drop-private-types", "--drop-undefined-syms",
                    "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--type-id-style", "hash",
                    "--out-file", baseline_path(), library], check=True)
    return 0


def main(arguments):
    if len(arguments) in (3, 4) and arguments[0] == "check":
        return check(arguments[1], arguments[2], arguments[3] if len(arguments) == 4 else baseline_path())
    if len(arguments) == 3 and arguments[0] == "update":
        return update(arguments[1], arguments[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
