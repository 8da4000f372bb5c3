#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""functions.py HEADER OUTPUT: the names of the functions marked KVC_API in a C header, as C++ string literals."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "abi"))
from check_library import header_functions  # noqa: E402

with open(sys.argv[1], encoding="utf-8") as header:
    marked, _ = header_functions(header.read())
with open(sys.argv[2], "w", encoding="utf-8") as output:
    output.writelines(f'"{name}",\n' for name in sorted(marked))
