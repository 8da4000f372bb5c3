#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what libkvcache.so shows to the outside.

check_library.py needed  LIBRARY [NAME...]      depends on the C and C++ run time alone, and on these, whatever their versions
check_library.py symbols LIBRARY MAP HEADERS    exported symbols == names in the version script == KVC_API functions of a header or folder
check_library.py paths   LIBRARY FOLDER...      holds none of these paths, nor a run-time search path
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import kvcache_headers  # noqa: E402

ALLOWED = re.compile(r"^(libc\.so\.6|libm\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux[-a-z0-9_]*\.so\.[0-9]+)$")


def tool(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def exported_symbols(library):
    """Names of the dynamic symbols that the library defines, with their version node ('' = none)."""
    symbols = {}
    for line in tool("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":  # the version node itself
            continue
        name, _, version = name.partition("@")
        symbols[name] = version.lstrip("@")
    return symbols


def map_names(text):
    """Global names of a version script; a pattern is an error, since it would export what nobody listed."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", text, flags=re.S)
    names = set()
    for body in re.findall(r"\{(.*?)\}", text, flags=re.S):
        scope = "global"
        for entry in re.findall(r"[^\s:;{}]+\s*:|[^\s:;{}]+", body):
            if entry.endswith(":"):
                scope = entry[:-1].strip()
            elif scope == "global":
                if not re.fullmatch(r"\w+", entry):
                    raise SystemExit(f"the version script exports the pattern '{entry}'; name each symbol")
                names.add(entry)
    return names


def check_needed(library, *names):
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", tool("readelf", "-d", "--wide", library))
    if not needed:
        return [f"{library} names no dependency at all: readelf was not understood"]
    return [f"depends on {name}" for name in needed if not ALLOWED.match(name) and name.partition(".so")[0] not in names]


def check_symbols(library, map_file, headers):
    exported = exported_symbols(library)
    try:
        with open(map_file, encoding="utf-8") as file:
            listed = map_names(file.read())
    except FileNotFoundError:
        return [f"the version script {map_file} is missing"]
    found = kvcache_headers.read(headers)
    declared = set(found.functions)
    problems = [f"{name} is declared without KVC_API" for name in sorted(found.unmarked)]
    if not declared:
        problems.append("no header declares a KVC_API function")
    for name in sorted(declared | listed | set(exported)):
        where = [place for place, names in (("header", declared), ("version script", listed), ("library", exported))
                 if name not in names]
        if where:
            problems.append(f"{name} is missing in: {', '.join(where)}")
        elif not exported[name]:
            problems.append(f"{name} carries no version")
    return problems


def check_paths(library, *folders):
    with open(library, "rb") as file:
        content = file.read()
    problems = [f"holds the path {folder}" for folder in folders if folder.encode() in content]
    if re.search(r"\((RPATH|RUNPATH)\)", tool("readelf", "-d", "--wide", library)):
        problems.append("has a run-time search path")
    return problems


def main(arguments):
    checks = {"needed": (check_needed, 1), "symbols": (check_symbols, 3), "paths": (check_paths, 2)}
    check, least = checks.get(arguments[0] if arguments else "", (None, 0))
    if check is None or len(arguments) - 1 < least:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(*arguments[1:])
    for problem in problems:
        print(f"{arguments[1]}: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
