# SPDX-License-Identifier: Apache-2.0
"""GPU backends as they are built. Without their device, with no driver, one that is none, is too old or fails, every way to a device says what
is missing and what helps, keeps nothing, and the CPU works on. On a pretended runtime of HIP, all that needs no kernel works.

Takes libkvcache from KVC_LIBRARY, with backends inside or beside it, compilers from CC and CXX, and asks KVC_COMMAND too, if that is set.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = pathlib.Path(os.environ["KVC_LIBRARY"]).resolve()
COMMAND, COMPILER, CXX = os.environ.get("KVC_COMMAND"), os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="kvc_backends."))
PROGRAM, LEAKS = WORK / "open", WORK / "open_leaks"  # the second under LeakSanitizer, where that works
OPTIONS = (f"-I{HERE.parents[1] / 'include'}", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-Wl,--allow-shlib-undefined")  # of sanitizers
CUDA_DRIVER, HIP_DEVICE = "libcuda.so.1", pathlib.Path("/dev/kfd")


def compile_c(source, output, *options):
    subprocess.run([COMPILER, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", output, HERE / "driver" / source, *options], check=True)


def environment(folder=None, **variables):
    """Without what hides devices or leads elsewhere; the folder is where the loader looks first."""
    kept = {name: value for name, value in os.environ.items() if "VISIBLE_DEVICES" not in name and name not in ("KVC_BACKEND_PATH", "LD_LIBRARY_PATH")}
    return {**kept, **({"LD_LIBRARY_PATH": str(folder)} if folder else {}), **variables}


def found(backend):
    """(number of devices, path of the backend), or None."""
    done = subprocess.run([PROGRAM, backend], env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    devices, _, path = done.stdout.rstrip("\n").partition(" ")
    return int(devices), path


def hip_runtime(path):
    """The file name of HIP's runtime, as the backend wants it."""
    needed = subprocess.run(["objdump", "-p", path or LIBRARY], capture_output=True, text=True, check=True).stdout.split()
    return next(word for word in needed if word.startswith("libamdhip64"))


def hip_versions(path):
    """A version script for the functions that the backend takes from HIP's runtime, as that has them."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", path or LIBRARY], capture_output=True, text=True, check=True).stdout
    versions = {}
    for name, version in re.findall(r" U (\w+)@(hip_[\w.]+)", symbols):
        versions.setdefault(version, []).append(name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in versions.items())


def make_folder(name):
    folder = WORK / name
    folder.mkdir()
    return folder


class NoDevice(unittest.TestCase):
    backend = ""

    def reason(self, folder=None, opens="opens", **variables):
        """What the C API says, which is what the command says too."""
        there = environment(folder, **variables)
        done = subprocess.run([PROGRAM, self.backend, opens], env=there, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reason = done.stdout.rstrip("\n")
        if LEAKS.exists():
            done = subprocess.run([LEAKS, self.backend, opens], env=there, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, f"{reason}\n"), done.stderr)
        if COMMAND:
            for options in ((), ("--json",)):
                told = subprocess.run([COMMAND, "info", *options], env=there, capture_output=True, text=True, check=False)
                self.assertEqual((told.returncode, told.stderr), (0, ""))
            backends = {row["name"]: row for row in json.loads(told.stdout)["backends"]}
            row = backends[self.backend]
            self.assertEqual((row["installed"], row["remark"], row.get("devices", [])), (True, reason, []))
            self.assertEqual(len(backends["cpu"]["devices"]), 1)
        return reason

    def assert_says(self, reason, *words):
        for word in words:
            self.assertIn(word, reason)


class Cuda(NoDevice):
    backend = "cuda"

    @classmethod
    def setUpClass(cls):
        if found("cuda") is None:
            raise unittest.SkipTest("the CUDA backend is not built")
        cls.driver = make_folder("cuda")
        compile_c("fake_cuda.c", cls.driver / CUDA_DRIVER, "-shared", "-fPIC", f"-Wl,-soname,{CUDA_DRIVER}")

    def test_without_a_driver(self):
        try:
            ctypes.CDLL(CUDA_DRIVER)
        except OSError:
            self.assert_says(self.reason(), "driver cannot be loaded", f"{CUDA_DRIVER}: cannot open shared object file", "install it", "--gpus all")
            return
        self.skipTest("this machine has a driver")

    def test_a_file_that_is_no_library(self):
        folder = make_folder("cuda_text")
        (folder / CUDA_DRIVER).write_text("This is text.\n" * 100)
        self.assert_says(self.reason(folder), "driver cannot be loaded", f"{folder / CUDA_DRIVER}: invalid ELF header")

    def test_a_library_that_is_no_driver(self):
        folder = make_folder("cuda_alien")
        (WORK / "alien.c").write_text("extern int nothing;\nint nothing;\n")
        compile_c(WORK / "alien.c", folder / CUDA_DRIVER, "-shared", "-fPIC")
        self.assert_says(self.reason(folder), f"{folder / CUDA_DRIVER} is found as NVIDIA's driver and is none", "search path")

    def test_a_driver_that_is_too_old(self):
        for version, words in ((11040, "CUDA up to 11.4"), (12090, "CUDA up to 12.9")):
            self.assert_says(self.reason(self.driver, FAKE_CUDA_VERSION=str(version)), words, "this backend needs", "install a newer driver")

    def test_a_driver_that_tells_no_version(self):
        self.assert_says(self.reason(self.driver, FAKE_CUDA_VERSION_ERROR="999"), str(self.driver / CUDA_DRIVER), "damaged")

    def test_a_driver_without_a_device(self):
        self.assert_says(self.reason(self.driver, FAKE_CUDA_INIT="100"), "no CUDA-capable device", "error 100", "nvidia-smi")
        hidden = self.reason(self.driver, FAKE_CUDA_INIT="100", CUDA_VISIBLE_DEVICES="-1")
        self.assert_says(hidden, "error 100", 'CUDA_VISIBLE_DEVICES is "-1"')

    def test_a_driver_that_fails(self):
        for error, words in ((3, "nvidia-smi"), (34, "stub"), (802, "nvidia-fabricmanager"), (803, "restart the machine"), (804, "LD_LIBRARY_PATH"),
                             (999, "nvidia-smi")):
            self.assert_says(self.reason(self.driver, FAKE_CUDA_INIT=str(error)), f"error {error})", words)

    def test_a_driver_that_lacks_functions(self):
        self.assert_says(self.reason(self.driver), "error 500", "nvidia-smi")


class Hip(NoDevice):
    backend = "hip"

    @classmethod
    def setUpClass(cls):
        cls.found = found("hip")
        if cls.found is None:
            raise unittest.SkipTest("the HIP backend is not built")

    def test_without_a_device(self):
        if self.found[0] != 0:
            self.skipTest("this machine has a device")
        reason = self.reason()
        self.assert_says(reason, "error 100")
        if not HIP_DEVICE.exists():
            self.assert_says(reason, f"there is no {HIP_DEVICE}", "amdgpu", "--device")

    def test_without_its_runtime(self):
        if not self.found[1]:
            self.skipTest("the backend is a part of the library, which does not start without the runtime")
        runtime = hip_runtime(self.found[1])
        folder = make_folder("hip_text")
        (folder / runtime).write_text("This is text.\n" * 100)
        self.assert_says(self.reason(folder, "refused"), f"{folder / runtime}: invalid ELF header", "libraries that it needs")
        (folder / runtime).unlink()
        (WORK / "alien_hip.c").write_text("extern int nothing;\nint nothing;\n")
        compile_c(WORK / "alien_hip.c", folder / runtime, "-shared", "-fPIC", f"-Wl,-soname,{runtime}")
        self.assert_says(self.reason(folder, "refused"), "undefined symbol: hip", "libraries that it needs")

    def test_on_a_pretended_runtime(self):
        include = pathlib.Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "include"
        runtime, folder, program = hip_runtime(self.found[1]), make_folder("hip_fake"), WORK / "use_device"
        script = WORK / "hip.map"
        script.write_text(hip_versions(self.found[1]))
        subprocess.run([CXX, "-std=c++20", "-Wall", "-D__HIP_PLATFORM_AMD__", f"-I{include}", "-shared", "-fPIC", f"-Wl,-soname,{runtime}",
                        f"-Wl,--version-script={script}", "-o", folder / runtime, *(HERE / "driver").glob("fake_hip*.cc")], check=True)
        compile_c("use_device.c", program, *OPTIONS)
        # Pages of the host that are fetched by faults are no memory that the device reads.
        for how, reads in (("", False), ("faults", False), ("tables", True), ("integrated", True)):
            there = environment(folder, **({"FAKE_HIP_READS_HOST": how} if how else {}))
            done = subprocess.run([program, "hip:0", runtime, "reads" if reads else "refuses"], env=there, capture_output=True, text=True, check=False)
            self.assertEqual((how, done.returncode, done.stderr), (how, 0, ""))
            if COMMAND:
                told = subprocess.run([COMMAND, "info", "--json"], env=there, capture_output=True, text=True, check=True)
                device, = next(row for row in json.loads(told.stdout)["backends"] if row["name"] == "hip")["devices"]
                self.assertEqual((device["name"], device["architecture"], device["processors"]), ("Fake device", "gfx90a", 104))
                self.assertEqual((how, device["memory_bytes"], device["managed_memory"], device["reads_host_memory"]), (how, 2**30, True, reads))


def leaks_are_found():
    (WORK / "leak.c").write_text("#include <stdlib.h>\nvoid *volatile lost;\nint main(void) { lost = malloc(9); lost = NULL; return 0; }\n")
    built = subprocess.run([COMPILER, "-fsanitize=leak", "-o", WORK / "leak", WORK / "leak.c"], capture_output=True, check=False)
    return built.returncode == 0 and b"LeakSanitizer: detected" in subprocess.run([WORK / "leak"], capture_output=True, check=False).stderr


def main():
    try:
        compile_c("open.c", PROGRAM, *OPTIONS)
        if leaks_are_found():
            compile_c("open.c", LEAKS, "-fsanitize=leak", *OPTIONS)
        else:
            print("there is no LeakSanitizer here: only memory that grows is noticed")
        if all(found(backend) is None for backend in ("cuda", "hip")):
            print("skipped: no GPU backend is built, or the library is one that a sanitizer has to start")
            return 77
        return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    sys.exit(main())
