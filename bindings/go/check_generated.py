# SPDX-License-Identifier: Apache-2.0
"""check_generated.py <swig> [--write]: the committed code of internal/native is what SWIG writes, and holds no path of a machine.
Another version of SWIG than the one that wrote it cannot tell: exit code 77. --write regenerates."""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("native.go", "native_wrap.c")


def generate(swig, folder):
    """Run from bindings/, with relative paths, so that none of them is absolute."""
    subprocess.run([swig, "-go", "-cgo", "-intgosize", "64", "-DSWIGWORDSIZE64", "-Wall", "-I../include", "-outdir", folder, "-o",
                    str(pathlib.Path(folder) / "native_wrap.c"), "kvcache.i"], check=True, cwd=HERE.parent)


def main():
    swig, committed = sys.argv[1], HERE / "internal" / "native"
    if "--write" in sys.argv:
        generate(swig, "go/internal/native")
        return 0
    text = {name: (committed / name).read_text(encoding="utf-8") for name in FILES}
    for name, content in text.items():
        paths = re.findall(r'(?m)(?:^//line |source: |"|\s)(/(?:home|root|work|tmp|usr|build)/\S+)', content)
        if paths:
            print(f"{name} holds the path {paths[0]}")
            return 1
    wrote = re.search(r"Version (\S+)", text["native_wrap.c"]).group(1)
    version = subprocess.run([swig, "-version"], check=True, capture_output=True, text=True).stdout.split("Version ")[1].split()[0]
    if version != wrote:
        print(f"SWIG is {version}, the committed code is of {wrote}: not compared")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        generate(swig, folder)
        for name in FILES:
            if (pathlib.Path(folder) / name).read_text(encoding="utf-8") != text[name]:
                print(f"internal/native/{name} is not what SWIG {version} writes now; run: python3 bindings/go/check_generated.py {swig} --write")
                return 1
    print(f"as SWIG {version} writes it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
