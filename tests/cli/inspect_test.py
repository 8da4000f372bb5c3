#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `kvcache inspect` shows of checkpoints and places of tiers, how it tells that they are damaged, and what it removes."""
import fcntl
import json
import os
import pathlib
import shutil
import struct
import tempfile
import time
import unittest

import command

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "checkpoint" / "golden_v1"
MANIFEST, DATA = "00000000000000000001.kvcm", "00000000000000000001.kvcd"


class Inspect(command.CommandTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvc-inspect-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in (MANIFEST, DATA):
            shutil.copy(GOLDEN / name, self.folder)

    def test_a_folder_lists_its_checkpoints(self):
        code, out, err = command.run("inspect", self.folder, "--validate", "--json")
        self.assertEqual((code, err), (0, ""))
        found = json.loads(out)
        self.assertEqual(found["kind"], "checkpoints")
        one, = found["checkpoints"]
        self.assertEqual((one["id"], one["model"], one["weights"], one["pages"], one["valid"]), (1, "model", "w1", 5, True))
        self.assertEqual((one["namespaces"], one["requests"], one["codec"]), (1, 1, "none"))
        self.assertEqual(one["own_bytes"], sum((self.folder / name).stat().st_size for name in (MANIFEST, DATA)))

    def test_a_manifest_stands_for_its_checkpoint(self):
        code, out, _ = command.run("inspect", self.folder / MANIFEST)
        self.assertEqual(code, 0)
        self.assertIn("Checkpoint 1\n", out)
        self.assertIn("model", out)

    def test_damage_is_told_and_the_exit_code_is_1(self):
        data = bytearray((self.folder / DATA).read_bytes())
        data[5000] ^= 1
        (self.folder / DATA).write_bytes(data)
        self.assertEqual(command.run("inspect", self.folder)[0], 0)  # nobody has looked at the pages
        code, out, _ = command.run("inspect", self.folder, "--validate")
        self.assertEqual(code, 1)
        self.assertIn(DATA, out)
        self.assertIn("does not match", out)
        (self.folder / MANIFEST).write_bytes(b"KVCCKPT\n")
        code, out, _ = command.run("inspect", self.folder, "--json")
        self.assertEqual(code, 1)
        self.assertIn("damaged", json.loads(out)["checkpoints"][0]["error"])

    def test_other_paths_are_refused(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_refused(command.run("inspect", empty), "no checkpoints, and is not that of a tier")
        self.assert_refused(command.run("inspect", self.folder / "none"), "none")
        self.assert_refused(command.run("inspect", self.folder / "00000000000000000009.kvcm"), "no checkpoint 9")
        self.assert_refused(command.run("inspect", __file__), "neither a slab nor a page")
        self.assert_refused(command.run("inspect"), "PATH")
        self.assert_refused(command.run("bench", "checkpoint"), "folder")
        self.assert_refused(command.run("bench", "copy", "/tmp"), "PLACE is /tmp, which is for checkpoint, tier and events, not for copy")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def record(key, fingerprint, payload):
    """A header of docs/TIERS.md."""
    head = struct.pack("<8sIIII32s32sQQ20x", b"KVCPAGE\n", 1, 128, 0, crc32c(payload), key, fingerprint, 1, len(payload))
    return head + struct.pack("<I", crc32c(head))


class Place(command.CommandTest):
    OLD, NEW = bytes([0xAB]) * 32, bytes([0xCD]) * 32

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvc-inspect-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tier = self.folder / "tier"
        self.tier.mkdir()
        (self.tier / "format").write_bytes(b"kvcache folder 2\n")
        (self.tier / "00").mkdir()
        for fingerprint, count, age in ((self.OLD, 3, 10 * 86400), (self.NEW, 2, 100)):
            for i in range(count):
                self.put(fingerprint, i, age + i)

    def put(self, fingerprint, number, age):
        key, payload = bytes([number]) * 32, bytes([number]) * 500
        path = self.tier / "00" / f"{fingerprint.hex()}-{key.hex()}.page"
        path.write_bytes(record(key, fingerprint, payload) + payload)
        os.utime(path, (time.time() - age,) * 2)
        return path

    def slab(self):
        payload = b"x" * 100
        head = struct.pack("<8sIIQQQQQQ60x", b"KVCSLAB\n", 2, 128, 5 * 4096, 4096, 3, 4096, 8192, 4096)
        path = self.folder / "slab"
        records = b"".join(record(bytes([i]) * 32, fingerprint, payload) for i, fingerprint in enumerate((self.OLD, self.NEW, self.OLD)))
        path.write_bytes((head + struct.pack("<I", crc32c(head))).ljust(4096, b"\0") + records.ljust(4096, b"\0") + payload.ljust(4096, b"\0") * 3)
        return path

    def inspect(self, *arguments, code=0):
        done, out, err = command.run("inspect", *arguments, "--json")
        self.assertEqual((done, err), (code, ""))
        return json.loads(out)

    def test_a_folder_is_shown_by_fingerprint_age_and_bytes(self):
        found = self.inspect(self.tier)
        self.assertEqual((found["kind"], found["pages"], found["stored_bytes"], found["file_bytes"]), ("folder", 5, 2500, 5 * 628))
        self.assertNotIn("bad_pages", found)
        old, new = found["fingerprints"]
        self.assertEqual([old["fingerprint"], new["fingerprint"]], [self.OLD.hex(), self.NEW.hex()])
        self.assertEqual([old["pages"], new["pages"], old["stored_bytes"]], [3, 2, 1500])
        self.assertTrue(10 * 86400 <= old["newest_s"] < old["oldest_s"] < 11 * 86400)
        self.assertTrue(100 <= new["newest_s"] < new["oldest_s"] < 86400)
        code, out, _ = command.run("inspect", self.tier)
        self.assertEqual(code, 0)
        for text in (f"Fingerprint {self.OLD.hex()}\n", "10 d 0 h ago", "1,500"):
            self.assertIn(text, out)

    def test_verify_reads_all_pages(self):
        path = self.put(self.NEW, 1, 50)
        data = bytearray(path.read_bytes())
        data[300] ^= 1
        path.write_bytes(data)
        self.assertEqual(self.inspect(self.tier)["pages"], 5)  # nobody has looked at them
        self.assertEqual([one["bad_pages"] for one in self.inspect(self.tier, "--verify", code=1)["fingerprints"]], [0, 1])
        data[0] ^= 1
        path.write_bytes(data)
        path = self.put(self.NEW, 0, 50)
        shutil.copy(path, path.with_name(path.name.replace(self.NEW.hex(), self.OLD.hex())))  # the page of another fingerprint
        self.assertEqual([one["bad_headers"] for one in self.inspect(self.tier)["fingerprints"]], [1, 1])

    def test_purge_removes_a_fingerprint_or_what_is_old(self):
        (self.tier / "00" / "7-1.part").write_bytes(b"is being written")
        told = {of: self.tier / (of.hex() + ".txt") for of in (self.OLD, self.NEW)}
        for path in told.values():
            path.write_text('model: "a"\n')
        self.assertEqual(self.inspect(self.tier, "--older-than", "11d")["purged_pages"], 0)
        self.assertEqual(self.inspect(self.tier, "--older-than", "1m", "--purge", "cdcdcdcd"), {"path": str(self.tier), "kind": "folder", "purged_pages": 2, "purged_bytes": 2 * 628})
        self.assertEqual([one["pages"] for one in self.inspect(self.tier)["fingerprints"]], [3])
        self.assertTrue(told[self.OLD].exists())
        self.assertFalse(told[self.NEW].exists(), "what its pages were of has gone with them")
        self.assertEqual(self.inspect(self.tier, "--purge", self.OLD.hex())["purged_pages"], 3)
        self.assertFalse(told[self.OLD].exists())
        self.assertEqual(self.inspect(self.tier)["pages"], 0)
        self.assertTrue((self.tier / "00" / "7-1.part").exists())
        self.put(self.OLD, 1, 3 * 3600)
        self.put(self.NEW, 1, 1 * 3600)
        self.assertEqual(self.inspect(self.tier, "--older-than", "2h")["purged_pages"], 1)
        self.assertEqual(self.inspect(self.tier)["fingerprints"][0]["fingerprint"], self.NEW.hex())

    def test_purge_removes_a_fingerprint_of_a_slab_that_nobody_uses(self):
        path = self.slab()
        found = self.inspect(path, "--verify")
        self.assertEqual((found["pages"], found["bad_pages"]), (3, 0))
        self.assertEqual(found["fingerprints"], [{"fingerprint": of.hex(), "pages": pages, "stored_bytes": 100 * pages, "bad_pages": 0, "of": {}}
                                                 for of, pages in ((self.OLD, 2), (self.NEW, 1))])
        self.assertIn(f"Fingerprint {self.NEW.hex()}\n", command.run("inspect", path)[1])
        self.assert_refused(command.run("inspect", path, "--purge", "0" * 64), "has no pages of the fingerprint")
        self.assert_refused(command.run("inspect", path, "--older-than", "1d"), "does not keep when its pages were used")
        with path.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assert_refused(command.run("inspect", path, "--purge", self.OLD.hex()), "a process uses it")
        self.assertEqual(self.inspect(path)["pages"], 3)
        purged = self.inspect(path, "--purge", self.OLD.hex()[:8])
        self.assertEqual((purged["purged_pages"], purged["purged_bytes"]), (2, 200))
        self.assertEqual([one["fingerprint"] for one in self.inspect(path)["fingerprints"]], [self.NEW.hex()])

    def test_what_pages_are_of_is_shown_and_never_raw(self):
        text = b'model: "llama"\nweights: "v1"\nno field\nbad: \x1b[2J\xff\n'
        (self.tier / f"{self.OLD.hex()}.txt").write_bytes(text)
        old, new = self.inspect(self.tier)["fingerprints"]
        self.assertEqual((old["of"], new["of"]), ({"model": '"llama"', "weights": '"v1"', "bad": "\\x1b[2J\\xff"}, {}))
        self.assertIn('"llama"', command.run("inspect", self.tier)[1])
        path = self.slab()
        entry = struct.pack("<IQ32s944s", len(text), 1, self.NEW, text)
        with path.open("r+b") as file:
            file.seek(128)
            file.write(struct.pack("<I", crc32c(entry)) + entry)
        old, new = self.inspect(path)["fingerprints"]
        self.assertEqual((old["of"], new["of"]["weights"]), ({}, '"v1"'))

    def test_wrong_purges_are_refused_and_remove_nothing(self):
        for i in range(3):
            path = self.put(self.OLD, i, 1)
            shutil.copy(path, path.with_name(path.name.replace(self.OLD.hex(), self.OLD.hex()[:-1] + "0")))
        for wrong, text in (((self.tier, "--purge", ""), "is no fingerprint"), ((self.tier, "--purge", "", "--older-than", "1m"), "is no fingerprint"),
                            ((self.tier, "--older-than", ""), "is no time"), ((self.tier, "--purge", "abc"), "is no fingerprint"), ((self.tier, "--purge", "x" * 64), "is no fingerprint"),
                            ((self.tier, "--purge", "0" * 64), "has no pages of the fingerprint"), ((self.tier, "--purge", "abababab"), "several fingerprints"),
                            ((self.tier, "--older-than", "7"), "is no time"), ((self.tier, "--older-than", "d"), "is no time"),
                            ((self.tier, "--older-than", "-1d"), ""), ((self.folder, "--older-than", "1d"), "is not the folder of a tier"),
                            ((self.folder / "none", "--purge", "0" * 64), "cannot open the file"), ((__file__, "--purge", "0" * 64), "neither a slab nor a page"),
                            ((self.put(self.OLD, 9, 1), "--purge", "abababab"), "is no slab"), ((self.tier, "--older-than", "1d", "--verify"), "excludes --older-than")):
            self.assert_refused(command.run("inspect", *wrong), text)
        self.assertEqual(self.inspect(self.tier)["pages"], 6)


if __name__ == "__main__":
    command.main()
