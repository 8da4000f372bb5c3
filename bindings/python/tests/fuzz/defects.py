# SPDX-License-Identifier: Apache-2.0
"""defects.py [WORDS]: does the fuzz notice? Puts one defect at a time into a copy of the package and runs the fuzz on it. Fails if it does not
notice one. Those marked are seen by the address sanitizer alone, and tried only with it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import kvcache

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(kvcache.__file__).parent
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
CALLS, SEEDS = 4000, 3

STREAMS = ("Storage.store", "Storage.gather", "Storage.swap_out", "Storage.swap_in", "Storage.attend", "Storage.close", "Stream.synchronize")
DEFECTS = [  # what, file, right, wrong, functions that are called, whether only a sanitizer sees it
    ("what is not contiguous is copied, and the copy written", "_arrays.py",
     "        if not rule.converts or written:\n", "        if not rule.converts and not written:\n", ("Manager.block_tables", "Storage.attend"), False),
    ("rows that lie apart are taken for rows side by side", "_arrays.py",
     "(unit,)), strides\n", "(unit,)), [0 * stride for stride in strides]\n", ("Storage.attend",), False),
    ("a stream keeps no arrays", "streams.py", "            self._kept.append(arrays)\n", "", STREAMS, True),
    ("a stream keeps arrays, but not the memory of the storage", "storage.py", "(arrays, arguments, self._memory)", "(arrays, arguments)", STREAMS, True),
    ("dimensions are not compared", "_arrays.py", "            if size != (", "            if None is (", ("Storage.gather", "Storage.key_bounds", "dequantize"), True),
    ("any number of dimensions will do", "_arrays.py",
     "    raise ValueError(f\"{compiled.label}", "    if len(shape) != len(dims):\n        return\n    raise ValueError(f\"{compiled.label}", ("rope_table",), True),
    ("results go into any type", "_arrays.py",
     "    if rule.types and not compiled", "    if rule.types and not written and not compiled",
     ("Storage.key_bounds", "Storage.gather", "Storage.attend"), True),
    ("another order of bytes is not seen", "_arrays.py",
     "not compiled.has_type(array.dtype)", "not compiled.has_type(array.dtype.newbyteorder(\"=\"))", ("apply_rope",), False),
    ("offsets of masks overflow", "storage.py", "        if end > bits:\n", "        if end > bits and end < 2**63:\n", ("Storage.attend",), True),
    ("a mask may be too short", "storage.py", "        if end > bits:\n", "        if False:\n", ("Storage.attend",), True),
    ("sequences are asked for their length, and then iterated", "manager.py", "            num_blocks = tuple(num_blocks)\n", "", ("Manager",), True),
    ("no layers are one layer", "storage.py", "        if sizes[\"layers\"] == 0:", "        if False:", ("Storage.measure", "Storage.store"), True),
    ("classes derived from ndarray are believed", "_arrays.py",
     "return np.asarray(value), True  # a derived", "return value, True  # a derived", ("Storage.key_bounds", "quantize", "apply_rope"), True),
]


def notices(folder, functions):
    """The last line of a fuzz that failed, or None."""
    for seed in range(1, SEEDS + 1):
        done = subprocess.run([sys.executable, str(HERE / "fuzz.py"), "--calls", str(CALLS), "--seed", str(seed), "--only", *functions], capture_output=True, text=True,
                              check=False, errors="replace", env={**os.environ, "PYTHONPATH": folder})
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "ERROR: " in line or "Wrong: " in line or "Error: " in line]
            return (said or [f"ended with {done.returncode}"])[0][:150]
    return None


def main(words):
    unnoticed, tried = [], 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "kvcache"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for name, file, right, wrong, functions, needs_sanitizer in DEFECTS:
            if not all(word in name for word in words) or needs_sanitizer and not SANITIZED:
                continue
            tried += 1
            text = (copy / file).read_text(encoding="utf-8")
            if text.count(right) != 1:
                sys.exit(f"{file}: the text of the defect '{name}' stands {text.count(right)} times, not once")
            (copy / file).write_text(text.replace(right, wrong), encoding="utf-8")
            noticed = notices(folder, functions)
            (copy / file).write_text(text, encoding="utf-8")
            print(f"{name:58} {noticed or 'IS NOT NOTICED'}", flush=True)
            if not noticed:
                unnoticed.append(name)
    if unnoticed:
        sys.exit(f"{len(unnoticed)} of {tried} defects were not noticed: {'; '.join(unnoticed)}")
    print(f"{tried} defects, all noticed")


if __name__ == "__main__":
    main(sys.argv[1:])
