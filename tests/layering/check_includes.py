#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of src/, gpu/, plugins/ and include/ against the tables in docs/ARCHITECTURE.md.

check_includes.py [ROOT]    exit 1 and one line per violation; the tables' meaning is written beside them.
"""
import fnmatch
import os
import re
import sys

SUFFIXES = (".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu", ".cuh", ".hip")
TREES = ("src", "gpu", "plugins", "include")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b[ \t]*(.*)$', re.M)


class Row:
    """One line of the first table: a folder (or a single file), its level, what it may include."""

    def __init__(self, path, level, allowed):
        self.path = path
        self.level = None if level == "-" else int(level)
        words = re.sub(r"`[^`]*`", "", allowed)
        self.lower = "lower" in words
        self.system = "system" in words
        self.cxx_library = "c++ library" in words
        quoted = re.findall(r"`([^`]*)`", allowed)
        self.headers = {name[1:-1] for name in quoted if name.startswith("<")}
        self.paths = [name.rstrip("/") for name in quoted if not name.startswith("<")]
        unknown = [word.strip() for word in words.split(",")
                   if word.strip() not in ("", "-", "lower", "system", "c++ library")]
        if unknown:
            raise ValueError(f"row {path}: 'may include' says {unknown[0]!r}, which has no meaning")

    def holds(self, path):
        return path == self.path or path.startswith(self.path + "/")


def read_tables(text):
    """(rows of the layer table, [(header pattern, place pattern)])"""
    rows, homes, table = [], [], None
    for line in text.splitlines():
        if not line.startswith("|"):
            table = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[:3] == ["folder", "level", "may include"]:
            table = "layers"
        elif cells[:2] == ["header", "only in"]:
            table = "homes"
        elif table and not set(cells[0]) <= set("-: "):
            if table == "layers":
                rows.append(Row(cells[0].strip("`").rstrip("/"), cells[1], cells[2]))
            else:
                homes.append((cells[0].strip("`"), cells[1].strip("`")))
    if not rows or not homes:
        raise ValueError("docs/ARCHITECTURE.md lacks the layer table or the header table")
    return rows, homes


def owner(rows, path):
    """The row with the longest path that holds this file."""
    return max((row for row in rows if row.holds(path)), key=lambda row: len(row.path), default=None)


def resolve(root, file, name, quoted):
    """The path of an included file of the project, from the root, or None for all other headers."""
    places = [os.path.join(tree, name) for tree in TREES] + ([os.path.join(os.path.dirname(file), name)] if quoted else [])
    for place in places:
        place = os.path.normpath(place)
        if os.path.isfile(os.path.join(root, place)):
            return place.replace(os.sep, "/")
    return None


def check_one(root, rows, homes, row, file, target):
    """What is wrong with one include, or None."""
    match = re.match(r'<([^>]+)>|"([^"]+)"', target)
    if not match:
        return "is not a plain file name"
    quoted = match.group(2) is not None
    name = match.group(1) or match.group(2)
    for pattern, place in homes:
        if fnmatch.fnmatch(name, pattern) and not fnmatch.fnmatch(file, place):
            return f"belongs in {place} alone"
    path = resolve(root, file, name, quoted)
    if path is None:
        if quoted:
            return "is no file of the project (write headers of the system in angle brackets)"
        if row.system or name in row.headers or (row.cxx_library and re.fullmatch(r"[a-z_]+", name)):
            return None
        return f"is not among the headers that {row.path} may include"
    beside = row.level is None and row.holds(path) and "/" not in name  # a program may name its own files plainly
    if quoted and path not in [f"{tree}/{name}" for tree in TREES] and not beside:
        return "must be written from the root of src/ (or, in gpu/, of gpu/), with its folder"
    if row.holds(path):
        return None
    other = owner(rows, path)
    if other is None:
        return f"lies in a folder that docs/ARCHITECTURE.md does not list ({path})"
    if any(path == allowed or path.startswith(allowed + "/") for allowed in row.paths):
        return None
    if row.lower and row.level is not None and other.level is not None and other.level < row.level:
        return None
    return f"leads from {row.path} to {other.path}, which its row does not allow"


def check_tree(root):
    with open(os.path.join(root, "docs", "ARCHITECTURE.md"), encoding="utf-8") as file:
        rows, homes = read_tables(file.read())
    problems, used, count = [], set(), 0
    for tree in TREES:
        for folder, _, names in os.walk(os.path.join(root, tree)):
            for name in sorted(names):
                if not name.endswith(SUFFIXES):
                    continue
                path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                row = owner(rows, path)
                if row is None:
                    problems.append(f"{path}: its folder has no row in docs/ARCHITECTURE.md")
                    continue
                used.add(row)
                count += 1
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    text = file.read()
                text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
                for include in INCLUDE.finditer(text):
                    wrong = check_one(root, rows, homes, row, path, include.group(1))
                    if wrong:
                        line = text.count("\n", 0, include.start()) + 1
                        problems.append(f"{path}:{line}: {include.group(1).strip()} {wrong}")
    # A folder that is gone leaves its row behind; a row for one file may wait for it.
    problems += [f"docs/ARCHITECTURE.md: the row {row.path} names nothing that exists"
                 for row in rows if row not in used and not row.path.endswith(SUFFIXES)]
    return problems, count


def report(problems, count):
    """Prints what is wrong with so many files. Returns the exit code: nothing read is a fault too."""
    for problem in problems:
        print(problem)
    print(f"{count} files read, {len(problems)} violations")
    return 1 if problems or not count else 0


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    try:
        problems, count = check_tree(root)
    except (OSError, ValueError) as error:
        problems, count = [str(error)], 0
    return report(problems, count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
