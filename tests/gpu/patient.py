# SPDX-License-Identifier: Apache-2.0
"""patient.py SCRIPT ARGUMENT...: runs a script with a clock of its own, so that no result depends on how busy the machine is. Time passes only while
the script waits for a program that hangs: one that has left a file with its process id in the folder $HANGING. It hangs for as long as it may."""
import os
import pathlib
import runpy
import subprocess
import sys
import threading
import time

HANGING = pathlib.Path(os.environ["HANGING"])
now, lock, hung = 0.0, threading.Lock(), set()
wait_for_real = subprocess.Popen.wait


def wait(process, timeout=None):
    global now
    begin = now
    while timeout is not None and process.pid not in hung:
        try:
            return wait_for_real(process, 0.02)
        except subprocess.TimeoutExpired:
            if (HANGING / str(process.pid)).exists():
                hung.add(process.pid)
                with lock:
                    now = max(now, begin + timeout)
                raise
    return wait_for_real(process)


time.monotonic = lambda: now
subprocess.Popen.wait = wait
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
