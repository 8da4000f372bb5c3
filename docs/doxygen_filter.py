#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doxygen_filter.py HEADER: prints the header with one field per declaration. Each field gets the comment that follows or precedes its
declaration, because Doxygen gives a comment to only one field."""
import re
import sys

FIELDS = re.compile(r"\s+((?![*\s]).*?\w[ *]+)(\w+(?:, \*?\w+)+);\s*(/\*\*<.*\*/)?\n")
ABOVE = re.compile(r"\s*/\*\*(?!<).*?\*/\s*", re.S)

with open(sys.argv[1], encoding="utf-8") as file:
    text = re.sub(r",\n\s+(?=\w+[,;])", ", ", file.read())  # a declaration on one line

above = ""
for line in text.splitlines(keepends=True):
    found = FIELDS.fullmatch(line)
    if found:
        kind, names, behind = found.groups()
        comment = behind or ("/**<" + re.sub(r"\s*\n\s*\*?", " ", above.strip())[3:] if above else "")
        line = " ".join(f"{kind}{name.lstrip('*')}; {comment if behind or i else ''}" for i, name in enumerate(names.split(", "))) + "\n"
    if "/**" in line and "/**<" not in line:
        above = line
    elif above and not ABOVE.fullmatch(above):
        above += line
    else:
        above = ""
    sys.stdout.write(line)
