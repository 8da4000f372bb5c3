#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts in src/ what makes code hard to follow, and fails where a number is above its limit.

check_sizes.py [--list] [ROOT]    prints a table; exit 1 and one line per number that has grown. --list also names what each one
                                  counts, the largest first. A limit is what held when it was last lowered; the goal is where
                                  it ends. Limits only fall: whoever brings a number down writes it into LIMITS.
"""
import os
import re
import sys

METHODS, LINES = 60, 60  # of a class; of a function
DEFINITIONS = "src/manager/shape.h"  # of the features
FEATURES = re.compile(r"\b(?:has_(?:hints|fills|cross|headroom|gaps|shelves)|reuses_heads|counts_uses|annotates|caches|fills)\(\)|"
                      r"\b(?:shelves|filling|uses|notes)\(\)\.on\(\)|"
                      r"\b(?:state|cross)_groups\b|\bKVC_GROUP_(?:STATE|CROSS)\b")
# These are none: where a class says whether it is on, and a loop over groups, which is empty without the feature.
NO_CONDITION = re.compile(r"\bbool (?:on|caches)\(\) const \{[^{}]*\}|\bbits_of\([\w.]*(?:state|cross)_groups\)")
BARE = re.compile(r"(?<!for )[(,]\s*(?:const )?uint32_t (ns|group|pool|cls)\b(?=\s*[,)=])")
C_FUNCTION = re.compile(r"\bkvc_\w+\([^()]*\)")  # its parameters are the caller's numbers
# What is counted: its name, the limit, the goal.
LIMITS = [
    ("classes of more than 60 methods", 0, 0),
    ("methods of the largest class", 60, METHODS),
    ("functions of more than 60 lines", 0, 0),
    ("lines of the longest function", 60, LINES),
    ("conditions on features in src/manager", 27, 30),
    ("parameters `uint32_t ns`, `group`, `pool`, `cls`", 0, 0),
]

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
ANGLES = re.compile(r"<[^<>;{}]*>")


def plain(text):
    """The text with comments, literals and lines of the preprocessor blank, on the same lines."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group()) if match.group()[0] != '"' else '""' + " " * (len(match.group()) - 2)
    return DIRECTIVE.sub(blank, NOISE.sub(blank, text))


def without_angles(head):
    while ANGLES.search(head):
        head = ANGLES.sub("", head)
    return re.sub(r"\balignas\([^()]*\)|\[\[[^\]]*\]\]|\b(?:public|private|protected):", "", head).strip()


def kind_of(head):
    """What a brace behind this text opens, at the level of declarations: namespace, class, function or value."""
    head = without_angles(head)
    if re.match(r"(?:inline )?namespace\b|extern\b *\"\"$", head):
        return "namespace"
    if re.match(r"(?:template\s*)?(?:class|struct|union)\b[^(]*$", head):
        return "class"
    if "(" not in head or head.endswith("=") or re.match(r"(?:enum|using)\b", head) or re.search(r"(?<!operator)(?<![=!<>])=(?!=)", head.split("(")[0]):
        return "value"
    initialized = re.search(r"\)[^()]*(?<!:):(?!:)", head)  # the list of a constructor
    return "value" if initialized and re.search(r"\w$", head) else "function"


def is_method(head):
    """Whether a declaration in a class declares a function that somebody has to read."""
    head = without_angles(head.split("{")[0])
    if re.match(r"(?:friend|using|typedef|static_assert|enum|struct|class)\b", head) or re.search(r"= (?:delete|default)$", head):
        return False
    before = re.sub(r"operator\s*(?:\(\)|\W+?(?=\())", "operator", head).split("(")
    return len(before) > 1 and "=" not in before[0] and not before[1].startswith("*")


def read(text):
    """([(class, methods)], [(function, first line, lines)]) of a file."""
    text = plain(text)
    classes, functions, scopes = [], [], []  # a scope: kind, name, first line, methods
    begin, line = 0, 1  # of the declaration

    def declares(end):
        if scopes and scopes[-1][0] == "class" and is_method(text[begin:end]):
            scopes[-1][3] += 1

    for match in re.finditer(r"[{};]|\n", text):
        character, at = match.group(), match.start()
        if character == "\n":
            line += 1
            continue
        inner = bool(scopes) and scopes[-1][0] in ("function", "value")
        if character == "{":
            head = text[begin:at]
            kind = "value" if inner else kind_of(head)
            if inner:
                scopes.append(["value", "", line, 0])
                continue
            if kind == "function":
                declares(at)
            first = line - head.lstrip().count("\n")
            name = re.findall(r"([\w:~]+)[^\w(]*\(" if kind == "function" else r"(?:class|struct|union)\s+(\w+)", without_angles(head))
            scopes.append([kind, name[0] if name else "?", first, 0])
            if kind != "value":
                begin = at + 1
        elif character == "}":
            if not scopes:
                raise ValueError(f"line {line}: a brace closes nothing")
            kind, name, first, methods = scopes.pop()
            if kind == "class":
                classes.append((name, methods))
            if kind == "function":
                functions.append((name, first, line - first + 1))
            if kind != "value":
                begin = at + 1
        elif not inner:
            declares(at)
            begin = at + 1
    if scopes:
        raise ValueError(f"{scopes[-1][0]} {scopes[-1][1]} of line {scopes[-1][2]} does not end")
    return classes, functions


def count_tree(root):
    """(for each row of LIMITS its number and what it counts, the number of files)"""
    classes, functions, conditions, bare, files = [], [], [], [], 0
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(n for n in names if n.endswith((".h", ".cc"))):
            path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
            files += 1
            try:
                of_classes, of_functions = read(text)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
            classes += [(methods, f"{path}: {name}") for name, methods in of_classes]
            functions += [(lines, f"{path}:{first}: {name}") for name, first, lines in of_functions]
            code = plain(text)
            if path.startswith("src/manager/") and path != DEFINITIONS:
                conditions.append((len(FEATURES.findall(NO_CONDITION.sub("", code))), path))
            bare.append((len(BARE.findall(C_FUNCTION.sub("", code))), path))
    large = [item for item in classes if item[0] > METHODS]
    long = [item for item in functions if item[0] > LINES]
    largest = lambda items: max((number for number, _ in items), default=0)
    total = lambda items: sum(number for number, _ in items)
    return [(len(large), large), (largest(classes), classes), (len(long), long), (largest(functions), functions),
            (total(conditions), conditions), (total(bare), bare)], files


def main(arguments):
    listed = "--list" in arguments
    roots = [argument for argument in arguments if argument != "--list"]
    root = roots[0] if roots else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    try:
        counts, files = count_tree(root)
    except (OSError, ValueError) as error:
        print(error)
        return 1
    grown = []
    print(f"{'in src/':<52}{'now':>5}{'limit':>7}{'goal':>6}")
    for (name, limit, goal), (number, of) in zip(LIMITS, counts):
        print(f"{name:<52}{number:>5}{limit:>7}{goal:>6}")
        if number > limit:
            grown.append(f"{name}: {number}, and the limit is {limit}; make it smaller (--list names them)")
        for size, where in sorted(of, key=lambda item: (-item[0], item[1]))[:40 if listed else 0]:
            if size:
                print(f"    {size:>4}  {where}")
    for problem in grown:
        print(problem)
    print(f"{files} files read, {len(grown)} numbers above their limits")
    return 1 if grown or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
