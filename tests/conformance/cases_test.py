#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/conformance.txt must name, for each case C01 .. C49 once, tests that exist or why the case waits."""
import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
CASES = [f"C{number:02d}" for number in range(1, 50)]


def faults(text, source_of):
    """What is wrong with the list `text`; source_of(path) returns a source's text, or None."""
    found, seen = [], {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        case, _, rest = line.partition(" ")
        rest = rest.split("|")[0].strip()
        if case not in CASES:
            found.append(f"{case}: no such case")
        if case in seen:
            found.append(f"{case}: listed twice")
        seen[case] = True
        if rest.startswith("waits:"):
            if len(rest.split(None, 1)) < 2:
                found.append(f"{case}: waits without a reason")
            continue
        if not rest:
            found.append(f"{case}: neither a test nor a reason")
        for name in rest.split():
            match = re.fullmatch(r"([\w/]+\.cc):(\w+)\.(\w+)", name)
            if not match:
                found.append(f"{case}: '{name}' is not file:Suite.Name")
                continue
            source = source_of(match[1])
            if source is None:
                found.append(f"{case}: no file tests/{match[1]}")
            elif not re.search(rf"^TEST(_[FP])?\({match[2]},\s*{match[3]}\)", source, re.MULTILINE):
                found.append(f"{case}: no test {match[2]}.{match[3]} in tests/{match[1]}")
    found += [f"{case}: missing" for case in CASES if case not in seen]
    return found


def read(path):
    file = TESTS / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


class ConformanceList(unittest.TestCase):
    def test_names_every_case_and_only_tests_that_exist(self):
        self.assertEqual(faults(read("conformance.txt"), read), [])

    def test_every_test_marked_with_a_case_is_listed_there(self):
        listed = read("conformance.txt")
        for file in sorted((TESTS / "conformance").glob("*_test.cc")):
            marked = re.findall(r"^TEST\((\w+), (\w+)\) \{  // (C\d\d)", file.read_text(encoding="utf-8"), re.M)
            for suite, name, case in marked:
                line = next((entry for entry in listed.splitlines() if entry.startswith(case)), "")
                self.assertIn(f"conformance/{file.name}:{suite}.{name}", line)

    def test_notices_each_kind_of_fault(self):
        sound = "\n".join(f"{case}  waits: later" for case in CASES)
        source = "TEST(Some, Thing) {  // C01\n"

        def replaced(line):
            return lambda text: text.replace("C01  waits: later", line)

        self.assertEqual(faults(sound, lambda path: None), [])
        for change, words in (
            (lambda text: text.replace("C07  waits: later\n", ""), "C07: missing"),
            (lambda text: text + "\nC49  waits: later", "C49: listed twice"),
            (lambda text: text + "\nC50  waits: later", "C50: no such case"),
            (replaced("C01  waits:"), "C01: waits without a reason"),
            (replaced("C01  "), "C01: neither a test nor a reason"),
            (replaced("C01  a.cc:Other.Thing"), "C01: no test Other.Thing in tests/a.cc"),
            (replaced("C01  b.cc:Some.Thing"), "C01: no file tests/b.cc"),
            (replaced("C01  Some.Thing"), "C01: 'Some.Thing' is not file:Suite.Name"),
        ):
            self.assertEqual(faults(change(sound), lambda path: source if path == "a.cc" else None), [words])
        good = sound.replace("C01  waits: later", "C01  a.cc:Some.Thing | remark")
        self.assertEqual(faults(good, lambda path: source), [])


if __name__ == "__main__":
    unittest.main()
