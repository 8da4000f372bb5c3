# SPDX-License-Identifier: Apache-2.0
"""What both calls of scripts/gpu-check share: processes that cannot outlive their time, and rows that reach a file as they come."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

KILL_SECONDS = 5  # a process that a driver does not let go is left behind
VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}  # how programs that take the first device get another


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended by itself
        pass


def replace(path, text):
    """Who reads the file, or ends this script, finds the old text or the new one."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


class Run:
    """One call. Its rows are planned first, as "not run", and become what they are one by one."""

    def __init__(self, name, device, build, folder, seconds, jobs, test_seconds):
        self.device, self.vendor = device, device.partition(":")[0]
        self.emulated = self.vendor == "emulated"
        self.build, self.jobs, self.test_seconds = build, jobs, test_seconds
        self.started, self.seconds, self.ended = time.monotonic(), max(seconds - KILL_SECONDS, 0), False
        library = str(build / "lib")
        libraries = ":".join(filter(None, [library, os.environ.get("LD_LIBRARY_PATH")]))  # where a driver may be
        self.environment = dict(os.environ, LD_LIBRARY_PATH=libraries, KVC_BACKEND_PATH=library, KVC_TEST_DEVICE=device)
        self.environment.setdefault("KVC_TEST_ROUNDS", "5")  # all that the tests have; the gate takes a part
        folder.mkdir(parents=True, exist_ok=True)
        self.json, self.text = folder / f"gpu-{name}.json", folder / f"gpu-{name}.txt"
        self.known, self.rows = {"device": device}, []
        self.table = lambda: ""  # the text of what there is; set by who knows the rows
        self.lock, self.running = threading.Lock(), set()

    def plan(self, row):
        row.update(result="not run", seconds=0)
        self.rows.append(row)
        return row

    def finish(self, row, **fields):
        with self.lock:
            row.update(fields)
            self.write()

    def write(self):
        replace(self.json, json.dumps({**self.known, "rows": self.rows}, indent=1) + "\n")
        replace(self.text, self.table())

    def end(self, *_):
        """From now on nothing is begun any more."""
        self.ended, self.seconds = True, 0
        for process in list(self.running):
            kill(process)

    def left(self, share=1):
        """Seconds until this share of the time is used."""
        return self.started + self.seconds * share - time.monotonic()

    def environment_of(self, program):
        """Programs of a runtime take its first device: they see the wanted one alone."""
        number = self.device.partition(":")[2]
        if self.vendor not in VISIBLE or not number or not program.startswith(("test_gpu_", "gpu_bench_")):
            return self.environment
        return dict(self.environment, **{VISIBLE[self.vendor]: number})

    def program(self, name):
        """Its path, or None."""
        path = self.build / "bin" / name
        return str(path) if path.exists() else None

    def execute(self, command, seconds):
        """(exit code or None at the time limit, output, seconds)"""
        started = time.monotonic()
        environment = self.environment_of(next((pathlib.Path(word).name for word in command if str(self.build) in word), ""))
        with tempfile.TemporaryFile() as output:  # a pipe would be held by whoever is left
            try:
                process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            except OSError as error:
                return 127, str(error), 0.0
            self.running.add(process)
            if self.ended:  # just now
                kill(process)
            try:
                code = process.wait(max(seconds, 0.1))
            except subprocess.TimeoutExpired:
                kill(process)
                code = None
                try:
                    process.wait(KILL_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
            self.running.discard(process)
            output.seek(0)
            return code, output.read().decode(errors="replace"), time.monotonic() - started


def outcome(code, output, cut_short):
    """Of a process that has failed: what it becomes in its row. It counts for nothing where its time was cut short."""
    if cut_short:
        return {"result": "not run", "output": "the time was used up while it ran"}
    return {"result": "time limit" if code is None else "failed" if code > 0 else f"signal {-code}", "output": output}


def counts(rows):
    """"3 passed, 1 failed" """
    results = {}
    for row in rows:
        results[row["result"]] = results.get(row["result"], 0) + 1
    return ", ".join(f"{count} {result}" for result, count in results.items())
