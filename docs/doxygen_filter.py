#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doxygen_filter.py HEADER: the header with one field to a declaration, since Doxygen gives a comment to the last of several alone."""
import re
import sys

FIELDS = re.compile(r"\s+(.*?\w )(\**\w+(?:, \**\w+)+);\s*(/\*\*<.*)")

with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        found = FIELDS.fullmatch(line.rstrip("\n"))
        if found:
            kind, names, comment = found.groups()
            closed = comment if comment.endswith("*/") else comment + " */"
            names = names.split(", ")
            line = " ".join(f"{kind}{name}; {closed}" for name in names[:-1]) + f" {kind}{names[-1]}; {comment}\n"
        sys.stdout.write(line)
