# SPDX-License-Identifier: Apache-2.0
"""valgrind_check.py VALGRIND: lives.py under memcheck has no error and no leak with a frame of ours. Python, NumPy and SWIG's own module
object are not ours."""

import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
NOT_OURS = {"SWIG_Python_DestroyModule"}


def main(valgrind):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        run = subprocess.run([valgrind, "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=40", "--xml=yes", f"--xml-file={report}",
                              sys.executable, str(HERE / "lives.py")], env={**os.environ, "PYTHONMALLOC": "malloc"}, capture_output=True, text=True)
        errors = ElementTree.parse(report).getroot().findall("error")
    found = 0
    for error in errors:
        frames = [(frame.findtext("fn") or "?", frame.findtext("obj") or "") for frame in error.find("stack")]
        if any("_native." in library for _, library in frames) and not NOT_OURS & {name for name, _ in frames}:
            found += 1
            print(error.findtext("kind"), *(name for name, _ in frames[:12]), sep="\n  ")
    print(f"{len(errors)} reports, {found} of them ours; {run.stdout.strip()} {run.stderr.strip()}")
    return 1 if found or run.returncode or run.stdout != "0 objects left\n" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
