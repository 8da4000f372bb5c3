#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how C and C++ files open, and that the comments of the public headers are indented.

check_opening.py [ROOT]    exit 1 and one line per violation. The rules:
- The first line is the license.
- A header, and a source without a header of its name beside it, says next what it is (behind the include guard, if it has one).
- Lines that continue a comment `/**` in include/ begin with two spaces behind the star, or four in a list.
"""
import os
import re
import sys

from check_includes import report

TREES = ("include", "src", "gpu", "plugins", "tests", "examples", "bindings/mlir", "bindings/python")
HEADERS = (".h", ".hpp", ".cuh")
SOURCES = (".c", ".cc", ".cu")
LICENSE = re.compile(r"(//|/\*) SPDX-License-Identifier: Apache-2\.0( \*/)?$")
GUARD = re.compile(r"#ifndef \w+_H(PP)?$|#define \w+_H(PP)?$|#pragma once$|$")


def opening_faults(text, needs_comment):
    """What is wrong with the first lines of a file, or None."""
    lines = text.splitlines()
    if not lines or not LICENSE.match(lines[0]):
        return "begins without its license line"
    if not needs_comment or (lines[0].startswith("/*") and not lines[0].endswith("*/")):
        return None
    first = next((line for line in lines[1:] if not GUARD.match(line)), "")
    return None if first.startswith(("//", "/*")) else "does not say what it is, in a comment behind its license line"


def indentation_faults(text):
    """Numbers of the lines that continue a comment `/**` with one space."""
    inside, found = False, []
    for number, line in enumerate(text.splitlines(), 1):
        if inside and re.match(r"\s*\* \S", line):
            found.append(number)
        if "/**" in line:
            inside = True
        if "*/" in line:
            inside = False
    return found


def check_tree(root):
    problems, count = [], 0
    for tree in TREES:
        for folder, _, names in os.walk(os.path.join(root, tree)):
            for name in sorted(names):
                stem, suffix = os.path.splitext(name)
                if suffix not in HEADERS + SOURCES:
                    continue
                path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                count += 1
                beside = suffix in SOURCES and any(stem + header in names for header in HEADERS)
                fault = opening_faults(text, needs_comment=not beside)
                if fault:
                    problems.append(f"{path}:1: {fault}")
                if tree == "include":
                    problems += [f"{path}:{number}: a line of a comment is indented by two spaces behind its star, or more"
                                 for number in indentation_faults(text)]
    return problems, count


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return report(*check_tree(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
