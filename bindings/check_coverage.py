# SPDX-License-Identifier: Apache-2.0
"""check_coverage.py: where each language offers each function of the C headers. Fails on a gap
without a reason, and on a reason without a gap. A language offers a function if its hand-written layer calls it; code of SWIG does not count.
Functions of an experimental header (KVC_EXPERIMENTAL) need a layer in Python alone: in Go and Java they have what SWIG makes."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "scripts"))
import kvcache_headers  # noqa: E402

LAYERS = {  # files of the layer, and how they call a function
    "Python": ("python", ("kvcache/**/*.py", "*.c"), r"_native\.{0}\b|\b{0}\("),
    "Go": ("go", ("*.go",), r"(?:native\.K|C\.k){1}\b"),
    "Java": ("java/src/main/java/io/kvcache", ("*.java",), r"Native(?:::|\.){0}\b"),
}
REASONS = {
    "kvc_last_error": {language: "its text is in the error of the failed call" for language in ("Go", "Java")},
    "kvc_step_view": {"Java": "kvc_step_bytes of java/typemaps.i, a direct buffer"},
    "kvc_status_name": {"Python": "Status is an enumeration with names", "Java": "Status is an enumeration with names"},
    "kvc_storage_view": {"Go": "a slice has no strides: Slab and Runs give the bytes", "Java": "a buffer has no strides: slab and runs give the bytes"},
    "kvc_storage_export_dlpack": {"Go": "no library there takes DLPack", "Java": "no library there takes DLPack"},
    "kvc_dtype_bits": {"Java": "DType.bits, a table that a test compares with the library's"},
    "kvc_storage_create": {"Go": "kvc_storage_adopt of calls.i, which passes memory on", "Java": "kvc_storage_adopt of calls.i, which passes memory on"},
}
for name in ("allocate", "release", "reserve_addresses", "map", "register", "unregister", "export_memory", "import_memory"):
    REASONS[f"kvc_device_{name}"] = {language: "memory of a GPU is a tensor of the caller's framework" for language in LAYERS}
for name in ("kvc_backend_open", "kvc_backend_properties", "kvc_stream_adopt", "kvc_stream_handle"):
    REASONS[name] = {language: "GPUs are driven from C and Python" for language in ("Go", "Java")}
REASONS["kvc_storage_set_attention"] = {language: "a kernel is a function of C" for language in LAYERS}
REASONS["kvc_stream_update_tables"] = {language: "device addresses for kernels, which C starts" for language in LAYERS}
for name in ("submit", "cancel", "poll", "event_fd", "run_one"):
    REASONS[f"kvc_tier_{name}"] = {"Go": "kvc_tier_do of go/tiers.i, which returns when the job has ended: C may keep no Go memory after a call"}
REASONS["kvc_tier_event_fd"]["Java"] = "kvc_tier_sleep of java/tiers.i, in which the thread of a tier waits for it"
REASONS["kvc_offload_event_fd"] = {language: "kvc_offload_wait of waits.i, which waits for it" for language in ("Go", "Java")}
REASONS["kvc_offload_lookup"] = {"Python": "kvc_offload_load, without a bound"}
STREAMS = "C may keep no Go memory after a call: a goroutine that calls Store or Attend does the same"
DESTROYED = "objects end with their last reference"


def functions(include):
    """{function: whether its header is experimental (KVC_EXPERIMENTAL of kvcache/types.h)}"""
    return {name: function.experimental for name, function in kvcache_headers.read(include).functions.items()}


def offered(bindings, language, function):
    """The first file of the layer that calls the function, or None."""
    folder, patterns, call = LAYERS[language]
    wanted = re.compile(call.format(function, function[1:]))
    for pattern in patterns:
        for path in sorted((bindings / folder).glob(pattern)):
            if not path.name.endswith("_test.go") and wanted.search(path.read_text(encoding="utf-8")):
                return path.relative_to(bindings / folder).as_posix()
    return None


def check(include, bindings, reasons):
    """A row of the table for each function, and what is wrong. Go and Java need not offer what is experimental."""
    names, rows, faults = functions(include), [], []
    for name, experimental in names.items():
        row = f"{name:34}"
        for language in LAYERS:
            reason = reasons.get(name, {}).get(language)
            if reason is None and language == "Go" and name.startswith("kvc_stream_"):
                reason = STREAMS
            if reason is None and language == "Python" and name.endswith("_destroy"):
                reason = DESTROYED
            where = offered(bindings, language, name)
            if where is None and reason is None and experimental and language in ("Go", "Java"):
                reason = "experimental"
            if (where is None) == (reason is None):
                faults.append(f"{name} in {language}: " + ("not offered, and no reason is given" if where is None else f"offered in {where}; the reason is stale"))
            row += f"{where or '- ' + str(reason):30}"
        rows.append(row.rstrip())
    return rows, faults + [f"{name} is no function of the headers" for name in reasons if name not in names]


def main():
    rows, faults = check(HERE.parent / "include", HERE, REASONS)
    if len(rows) < 80:
        faults.append(f"only {len(rows)} functions were found in the headers")
    print(f"{'function':34}" + "".join(f"{language:30}" for language in LAYERS))
    print(*rows, f"{len(rows)} functions", *faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
