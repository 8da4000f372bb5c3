# SPDX-License-Identifier: Apache-2.0
"""Reads IR and compares the functions of the library that it declares with the public headers: names, parameters, results. Exit 1 if one
differs, or if there are fewer than the lowering knows."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import kvcache_headers

TYPES = {"int32_t": "i32", "uint32_t": "i32", "int64_t": "i64", "uint64_t": "i64", "size_t": "i64", "float": "f32"}
OWN = {"kvc_failure"}
EXPECTED = 17


def main():
    headers = kvcache_headers.read()

    def spelled(kind, stars):
        return "!llvm.ptr" if stars else TYPES[headers.aliases.get(kind, kind)]

    found, faults = 0, []
    for name, parameters, result in re.findall(r"llvm\.func (?:internal )?@(kvc_\w+)\((.*?)\)(?: -> (\S+))?", sys.stdin.read()):
        if name in OWN:
            continue
        found += 1
        if name not in headers.functions:
            faults.append(f"{name} is not a function of the headers")
            continue
        function = headers.functions[name]
        wanted = [spelled(it.kind, it.stars) for it in function.parameters]
        kind = function.result.replace("const ", "").rstrip("* ")
        returned = "" if function.result == "void" else spelled(kind, function.result.count("*"))
        if parameters.split(", ") != (wanted or [""]) or result != returned:
            faults.append(f"{name}({parameters}) -> {result or 'void'}; the header has ({', '.join(wanted)}) -> {returned or 'void'}")
    if found < EXPECTED:
        faults.append(f"{found} functions are declared; the lowering knows {EXPECTED}")
    print("\n".join(faults) or f"{found} declarations are those of the headers")
    sys.exit(bool(faults))


main()
