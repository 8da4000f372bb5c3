#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the library's binary interface with that of an earlier commit (libabigail).

abi_diff.py LIBRARY FOLDER   LIBRARY: that of the target kvcache_abi; FOLDER: where that of the commit in tests/abi/base is built. Exit 1 when they
                             differ, 77 without abidiff

New functions pass. All else differs: also fields that are added to structs, which no program notices if they are added at the end of one that begins
with struct_size. From the first tag on the base is that tag. Before it, the interface may break: the commit behind one that breaks it moves the base,

    git rev-parse --short=12 HEAD >tests/abi/base
"""
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parents[2]
MOVE = "If it should, before the first tag, commit it, and then the base behind it: git rev-parse --short=12 HEAD >tests/abi/base"


def build_base(folder, commit):
    """Builds the library of a commit as this one's was built. Returns it and its headers."""
    source, build = folder / "source", folder / "build"
    library = build / "tests" / "abi" / "libkvcache.so"
    if not library.exists() or not (folder / commit).exists():
        shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
        subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DKVC_TESTS=ON", "-DKVC_GPU=none"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", build, "--target", "kvcache_abi"], check=True, stdout=subprocess.DEVNULL)
        (folder / commit).touch()
    return library, source / "include"


def check(library, headers, base, base_headers):
    """1 if an interface differs from that of `base`."""
    code = subprocess.run(["abidiff", "--no-added-syms", "--harmless", "--drop-private-types", "--headers-dir1", base_headers, "--headers-dir2", headers,
                           base, library], check=False).returncode
    if code:
        print(f"The binary interface differs from that of the commit in tests/abi/base. {MOVE}")
    return 1 if code else 0


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("abidiff"):
        print("skipped: there is no abidiff (package abigail-tools)")
        return SKIPPED
    commit = (ROOT / "tests" / "abi" / "base").read_text(encoding="utf-8").strip()
    return check(arguments[0], ROOT / "include", *build_base(pathlib.Path(arguments[1]).resolve(), commit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
