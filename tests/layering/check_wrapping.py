#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the prose of Markdown is wrapped at the limit of .editorconfig.

check_wrapping.py [ROOT]    exit 1 and one line per violation. Tables, code blocks, headings and HTML may be longer, and so may a
line that cannot be broken: one code span, link or word.
"""
import os
import re
import sys

from check_includes import report

LIMIT = re.compile(r"^\[\*\.md\]\s+max_line_length = (\d+)$", re.M)
PIECE = re.compile(r"(?:(`+)(?!`).*?(?<!`)\1(?!`)|!?\[(?:`[^`]*`|[^\[\]])*\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)|\S)+")
MARKER = re.compile(r"\s*(?:(?:[-*+]|\d+[.)]) +)?")
FENCE = re.compile(r"\s*(```|~~~)")
NO_PROSE = re.compile(r"\s*(?:\||#|<|\[[^\]]+\]: )")
SKIPPED = ("build", "node_modules", "shared", "third_party")


def long_lines(text, limit):
    """Numbers of the lines of prose that are longer than the limit and can be broken."""
    fence, found, before = None, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence in (None, mark.group(1)):
            fence = None if fence else mark.group(1)
        elif not fence and len(line) > limit and not NO_PROSE.match(line) and (before or not line.startswith("    ")):
            if sum(1 for _ in PIECE.finditer(line, MARKER.match(line).end())) > 1:
                found.append(number)
        before = line.strip()
    return found


def check_tree(root):
    problems, count = [], 0
    with open(os.path.join(root, ".editorconfig"), encoding="utf-8") as file:
        limit = int(LIMIT.search(file.read()).group(1))
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for name in sorted(n for n in names if n.endswith(".md")):
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                numbers = long_lines(file.read(), limit)
            count += 1
            problems += [f"{path}:{number}: a line of prose has more than {limit} columns; wrap it" for number in numbers]
    return problems, count


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return report(*check_tree(root))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
