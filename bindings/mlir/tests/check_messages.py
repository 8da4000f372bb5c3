# SPDX-License-Identifier: Apache-2.0
"""check_messages.py: every diagnostic of the dialect, its passes and tools has a test.

A diagnostic is a statement with emitOpError, emitError or, in the verifier of a type, error(): its texts in their order, a choice (a ? b : c)
as one diagnostic each. A call of a helper that takes words of a diagnostic (verify_dim, verify_memory, ...) is one too. It has a test if an
expected-error, or a line that FileCheck looks for, has these texts in this order. Exit 1 with those that have none."""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = r'"((?:[^"\\]|\\.)*)"'
# Helpers: which of their arguments, if they are texts, are words of the message.
HELPERS = re.compile(r"(?<!LogicalResult )\b(?:verify_dim|verify_memory|verify_count|verify_attribute|agree)\(")
DIAGNOSTIC = re.compile(r"\b(?:emitOpError|emitError)\(|\breturn error\(\)")


def statement(source, start):
    """The source from start to the end of the statement: a semicolon, outside texts, or the parenthesis that closes one before it."""
    depth, at = 0, start
    while at < len(source):
        if source[at] == '"':
            at = re.compile(TEXT).match(source, at).end()
            continue
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        if source[at] == ";" or depth < 0:
            break
        at += 1
    return source[start:at]


def alternatives(code):
    """Lists of texts, one for each way through the choices in the code."""
    ways = [[]]
    for part in code.split("<<"):
        texts = ["".join(run) for run in (re.findall(TEXT, piece) for piece in re.split(r"\?|(?<!:):(?!:)", re.sub(TEXT, lambda it: it.group().replace(":", "\0").replace("?", "\1"), part))) if run]
        texts = [text.replace("\0", ":").replace("\1", "?").replace("\\0A", "\n") for text in texts]
        if texts and " ? " in re.sub(TEXT, '""', part):
            ways = [way + [text] for way in ways for text in texts]
        else:
            ways = [way + texts for way in ways]
    return [way for way in ways if way]


def arguments(code):
    """The texts among the arguments of a helper's call, each a word of its own."""
    return re.findall(TEXT, re.sub(r'"\s*\n\s*"', "", code[code.index("("):]))


def main():
    tested = []
    for path in glob.glob(os.path.join(HERE, "**", "*.mlir"), recursive=True):
        with open(path, encoding="utf-8") as file:
            tested += [line for line in file if "expected-error" in line or re.match(r"// [A-Z-]+: ", line)]
    missing = count = 0
    for path in sorted(glob.glob(os.path.join(HERE, "..", "*", "*.cc"))):
        with open(path, encoding="utf-8") as file:
            source = re.sub(r"//[^\n]*", "", file.read())
        found = [way for match in DIAGNOSTIC.finditer(source) for way in alternatives(statement(source, match.start()))]
        # A name in a table of operands, which a loop checks.
        found += [[f"op {name} ha"] for name in re.findall(r'\{"(\w+)", (?:get|\w+\()', source)] if path.endswith("Verify.cc") else []
        found += [words for match in HELPERS.finditer(source) for words in [arguments(statement(source, match.start()))] if words]
        for texts in found:
            count += 1
            pattern = re.compile(".*".join(re.escape(text.strip()) for text in texts))
            if not any(pattern.search(line) for line in tested):
                missing += 1
                print(f"{os.path.relpath(path, HERE)}: no test expects: {' ... '.join(texts)}")
    print(f"{count} diagnostics, {missing} without a test")
    sys.exit(missing != 0 or count == 0)


main()
