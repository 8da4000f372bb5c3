# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what one manager has cached, another one has after a restore."""

import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import kvcache

BLOCKS, BLOCK, LAYERS, HEADS, DIM = 32, 4, 2, 2, 8
PROMPT = np.arange(100, 121, dtype=np.int32)
NAMES = dict(model=b"a model", weights=b"of May")


def storage():
    return kvcache.Storage(BLOCKS, LAYERS, HEADS, DIM, block_size=BLOCK, dtype="float32")


def compute(m, s, tokens, namespace=0):
    """Computes a prompt, and returns what was stored for its full blocks."""
    with m.allocate(tokens, namespace=namespace) as request:
        rows = np.random.default_rng(int(tokens[0])).standard_normal((LAYERS, len(tokens), HEADS, DIM), dtype=np.float32)
        s.store(rows, rows, request.slots(0, len(tokens)))
        request.commit(len(tokens))
        return rows


def stored(s, request, count):
    return s.gather(request.slots(0, count))[0]


@pytest.fixture
def saved(tmp_path):
    m, s = kvcache.Manager(BLOCKS, BLOCK), storage()
    rows = compute(m, s, PROMPT)
    info = kvcache.save_checkpoint(m, s, tmp_path / "c", **NAMES)
    return m, s, rows, tmp_path / "c", info


def test_a_new_manager_has_the_same_hits_and_bytes(saved):
    m, _, rows, folder, info = saved
    assert info.id == 1 and info.num_blocks == info.num_pages == 5 and info.model == "a model" and info.content == m.content_digest()
    new, s = kvcache.Manager(BLOCKS, BLOCK), storage()
    restored = kvcache.restore_checkpoint(new, s, folder, **NAMES)
    assert restored.info.num_blocks == 5 and restored.info.ids_kept is True and restored.namespaces == {} == restored.requests
    assert new.content_digest() == m.content_digest() and new.digest() == m.digest()
    with new.allocate(PROMPT) as request:
        assert request.num_cached == 20
        assert np.array_equal(stored(s, request, 20), rows[:, :20])


def test_another_process_has_the_same_hits(saved):
    m, _, rows, folder, _ = saved
    program = textwrap.dedent(f"""\
        import kvcache, numpy as np
        m, s = kvcache.Manager({BLOCKS}, {BLOCK}), kvcache.Storage({BLOCKS}, {LAYERS}, {HEADS}, {DIM}, block_size={BLOCK}, dtype="float32")
        kvcache.restore_checkpoint(m, s, {str(folder)!r}, model=b"a model", weights=b"of May")
        with m.allocate(range(100, 121)) as request:
            print(m.content_digest().hex(), request.num_cached, s.gather(request.slots(0, 20))[0].tobytes().hex()[:64])
        """)
    digest, cached, first = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert digest == m.content_digest().hex() and cached == "20" and first == rows[:, :20].tobytes().hex()[:64]


def test_namespaces_and_requests_come_along_with_new_ids(tmp_path):
    m, s = kvcache.Manager(BLOCKS, BLOCK), storage()
    tenant = m.namespace(tenant=b"x")
    compute(m, s, PROMPT, tenant)
    waiting = m.create(PROMPT, namespace=tenant)
    kvcache.save_checkpoint(m, [s], str(tmp_path / "c"), **NAMES, requests=True)
    new = kvcache.Manager(BLOCKS, BLOCK)
    restored = kvcache.restore_checkpoint(new, storage(), tmp_path / "c", **NAMES, requests=True)
    assert list(restored.namespaces) == [tenant.id] and list(restored.requests) == [waiting.id]
    assert new.probe(PROMPT).num_cached == 0 and new.probe(PROMPT, namespace=restored.namespaces[tenant.id]).num_cached == 20
    assert restored.committed == {waiting.id: 0}
    assert restored.requests[waiting.id].admit() == 20
    for it in (*restored.requests.values(), *restored.namespaces.values()):
        it.close()
    waiting.close()


def test_more_namespaces_than_a_first_guess_come_along(tmp_path):
    m, s = kvcache.Manager(256, BLOCK), kvcache.Storage(256, 1, 1, 8, block_size=BLOCK)
    opened = [m.namespace(tenant=b"%d" % i) for i in range(40)]
    for namespace in opened:
        with m.allocate(PROMPT[:5], namespace=namespace) as request:
            request.commit(5)
    kvcache.save_checkpoint(m, s, tmp_path, **NAMES)
    new = kvcache.Manager(256, BLOCK)
    restored = kvcache.restore_checkpoint(new, kvcache.Storage(256, 1, 1, 8, block_size=BLOCK), tmp_path, **NAMES)
    assert sorted(restored.namespaces) == sorted(it.id for it in opened)
    for it in (*restored.namespaces.values(), *opened):
        it.close()


def test_increments_are_listed_validated_compacted_and_removed(saved):
    m, s, _, folder, first = saved
    compute(m, s, PROMPT + 500)
    second = kvcache.save_checkpoint(m, s, folder, **NAMES, increment=True, sync=False)
    assert second.id == 2 and second.new_pages == 5 and second.num_pages == 10 and second.num_files == 2
    assert kvcache.list_checkpoints(folder) == [1, 2] and kvcache.checkpoint_info(folder).id == 2 and kvcache.checkpoint_info(folder, 1).num_pages == 5
    assert kvcache.validate_checkpoint(folder).content == m.content_digest()
    kvcache.remove_checkpoint(folder, 1)
    assert kvcache.list_checkpoints(folder) == [2]
    third = kvcache.compact_checkpoint(folder, sync=False)
    assert third.num_files == 1 and third.content == second.content and kvcache.list_checkpoints(folder) == [third.id]
    with pytest.raises(kvcache.NotFoundError):
        kvcache.remove_checkpoint(folder, 1)
    assert kvcache.save_checkpoint(m, s, folder, **NAMES, interval_ns=10, last_ns=5, now_ns=6).id == 0
    assert m.save(folder, s, **NAMES, interval_ns=10, last_ns=5, now_ns=6).id == 0
    assert kvcache.save_checkpoint(m, s, folder, **NAMES, full=True, keep_last=1, sync=False).id > third.id
    assert len(kvcache.list_checkpoints(folder)) == 1


def test_a_group_without_bytes_is_restored_if_they_are_elsewhere(tmp_path):
    m = kvcache.Manager(BLOCKS, BLOCK)
    with m.allocate(PROMPT) as request:
        request.commit(21)
    kvcache.save_checkpoint(m, [None], tmp_path, **NAMES)
    new = kvcache.Manager(BLOCKS, BLOCK)
    with pytest.raises(kvcache.UnsupportedError) as raised:
        kvcache.restore_checkpoint(new, [None], tmp_path, **NAMES)
    assert "KVC_" not in str(raised.value) and "bytes_elsewhere=True" in str(raised.value)
    kvcache.restore_checkpoint(new, [None], tmp_path, **NAMES, bytes_elsewhere=True)
    assert new.probe(PROMPT).num_cached == 20


def test_a_damaged_file_is_refused_and_changes_nothing(saved):
    _, _, _, folder, _ = saved
    largest = max(pathlib.Path(folder).iterdir(), key=lambda it: it.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[6000] ^= 1  # of a page
    largest.write_bytes(content)
    with pytest.raises(kvcache.CorruptError, match=largest.name):
        kvcache.validate_checkpoint(folder)
    new = kvcache.Manager(BLOCKS, BLOCK)
    before = new.content_digest()
    with pytest.raises(kvcache.CorruptError):
        kvcache.restore_checkpoint(new, storage(), folder, **NAMES)
    assert new.content_digest() == before


@pytest.mark.parametrize("change, error, text", [
    (dict(folder=3), TypeError, "folder is 3; it must be a path"),
    (dict(folder="a\0b"), ValueError, "folder has a NUL"),
    (dict(folder=""), ValueError, "folder is empty"),
    (dict(folder="/nowhere/at/all"), kvcache.NotFoundError, "/nowhere/at"),
    (dict(storages=3), TypeError, "storages is 3; it must be a kvcache.Storage"),
    (dict(storages=[3]), TypeError, r"storages\[0\] is int; it must be a kvcache.Storage, or None"),
    (dict(storages=[]), ValueError, "num_storages is 0"),
    (dict(manager=None), TypeError, "manager is NoneType; it must be a kvcache.Manager"),
    (dict(model="x"), TypeError, "model is str; it must be bytes"),
    (dict(full=True, increment=True), ValueError, "flags have full=True and increment=True; give one of them"),
    (dict(codec="absent"), kvcache.NotFoundError, "absent"),
    (dict(increment=True), kvcache.NotFoundError, "checkpoint"),
])
def test_errors_name_the_argument(tmp_path, change, error, text):
    arguments = {"manager": kvcache.Manager(BLOCKS, BLOCK), "storages": storage(), "folder": tmp_path / "c", **NAMES, **change}
    with pytest.raises(error, match=text):
        kvcache.save_checkpoint(arguments.pop("manager"), arguments.pop("storages"), arguments.pop("folder"), **arguments)
    closed, m = storage(), kvcache.Manager(BLOCKS, BLOCK)
    closed.close()
    with pytest.raises(ValueError, match=r"storages\[0\] is closed"):
        kvcache.save_checkpoint(m, closed, tmp_path / "d", **NAMES)


def test_other_names_are_refused(saved):
    folder = saved[3]
    with pytest.raises(ValueError, match="weights"):
        kvcache.restore_checkpoint(kvcache.Manager(BLOCKS, BLOCK), storage(), folder, model=b"a model", weights=b"of June")


def test_a_manager_serves_while_it_is_saved(tmp_path):
    m, s = kvcache.Manager(BLOCKS, BLOCK), storage()
    compute(m, s, PROMPT)
    faults, done = [], threading.Event()

    def work():
        try:
            for i in range(1, 300):
                with m.allocate(np.arange(i, i + 9, dtype=np.int32) % 50) as request:
                    request.commit(9)
        except BaseException as error:  # pylint: disable=broad-except
            faults.append(error)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    saves = 0
    while not saves or not done.is_set():
        kvcache.save_checkpoint(m, s, tmp_path, **NAMES, sync=False, keep_last=2)
        saves += 1
    thread.join()
    assert not faults
    m.check()
    kvcache.validate_checkpoint(tmp_path)


def test_files_of_tiers_tell_what_they_have(tmp_path):
    fingerprint = bytes(range(32))
    for size in ("64KiB", "65KiB", "1MiB", "3MiB"):
        for page in (1000, 4096, 5000):
            path = tmp_path / f"{size}.{page}"
            with kvcache.Tier(f"slab:{path}?bytes={size}", page, fingerprint) as tier:
                tier.put([bytes([i]) * 32 for i in range(3)], np.ones((3, page), np.uint8))
                capacity = tier.stats().capacity_pages
            info = kvcache.page_file_info(path, validate=True)
            assert info.kind is kvcache.PageFileKind.SLAB and info.fingerprint == fingerprint and info.key == bytes(32)
            assert info.num_pages == 3 and info.num_slots == capacity and info.page_bytes == page and info.bad_pages == 0 == info.bad_headers
    other = bytes(range(1, 33))
    with kvcache.Tier(f"slab:{path}?bytes=3MiB", page, other) as tier:
        tier.put([bytes([i]) * 32 for i in range(2)], np.ones((2, page), np.uint8))
        with pytest.raises(kvcache.BusyError, match="a process uses it"):
            kvcache.purge_page_file(path, other)
    assert [(part.fingerprint, part.num_pages) for part in kvcache.page_file_parts(path, validate=True)] == [(fingerprint, 3), (other, 2)]
    assert kvcache.page_file_info(path).fingerprint == bytes(32), "it has several"
    assert kvcache.purge_page_file(path, fingerprint).num_pages == 3
    assert [part.fingerprint for part in kvcache.page_file_parts(path)] == [other]
    with kvcache.Tier(f"slab:{path}?bytes=3MiB", page, other) as tier:
        assert tier.stats().recovered == tier.stats().pages == 2
    kvcache.purge_page_file(path, other)
    assert kvcache.page_file_parts(path) == []
    with pytest.raises(kvcache.NotFoundError):
        kvcache.page_file_parts(tmp_path / "absent")
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(kvcache.CorruptError, match="its header does not check"):
        kvcache.page_file_info(path)
    (tmp_path / "t").write_bytes(b"text" * 999)
    with pytest.raises(kvcache.UnsupportedError):
        kvcache.page_file_info(tmp_path / "t")
    with pytest.raises(kvcache.NotFoundError):
        kvcache.page_file_info(tmp_path / "absent")


def test_one_line_saves_and_one_restores(tmp_path):
    s = storage()
    m = kvcache.Manager(BLOCKS, BLOCK, storages=s, **NAMES)
    rows = compute(m, s, PROMPT)
    m.register_prompt("system", PROMPT[:12])
    m.save(tmp_path / "c")
    new = kvcache.Manager(BLOCKS, BLOCK)
    restored = new.restore(tmp_path / "c", s := storage(), **NAMES)
    assert restored.info.ids_kept is True and new.digest() == m.digest() and new.prompts() == ["system"]
    with new.allocate(PROMPT) as request:
        assert request.num_cached == 20 and np.array_equal(stored(s, request, 20), rows[:, :20])
    with pytest.raises(kvcache.InvalidArgumentError, match="weights"):
        kvcache.Manager(BLOCKS, BLOCK).restore(tmp_path / "c", storage(), model=b"a model", weights=b"of June")
    again = kvcache.Manager(BLOCKS, BLOCK)
    again.restore(tmp_path / "c", storage(), cache_only=True, **NAMES)
    assert again.prompts() == [] and again.content_digest() != b""


def test_a_stream_goes_through_files_and_pipes(saved, tmp_path):
    m, old, rows, _, _ = saved
    with open(tmp_path / "stream", "w+b") as file:
        info = kvcache.save_stream(m, old, file, **NAMES)
        assert info.num_pages == 5 and info.written_bytes == file.seek(0, 2)
        file.seek(0)
        new, s = kvcache.Manager(BLOCKS, BLOCK), storage()
        assert kvcache.restore_stream(new, s, file, **NAMES).info.num_blocks == 5 and new.digest() == m.digest()
    for folder in (None, tmp_path):
        read, write = os.pipe()

        def send(write=write):
            kvcache.save_stream(m, old, write, **NAMES)
            os.close(write)

        writer = threading.Thread(target=send)
        writer.start()
        new, s = kvcache.Manager(BLOCKS, BLOCK), storage()
        kvcache.restore_stream(new, s, read, folder=folder, **NAMES)
        writer.join()
        os.close(read)
        with new.allocate(PROMPT) as request:
            assert np.array_equal(stored(s, request, 20), rows[:, :20])
    with open(tmp_path / "stream", "rb") as file, open(tmp_path / "cut", "w+b") as cut:
        cut.write(file.read()[:-1])
        cut.flush()
        cut.seek(0)
        with pytest.raises(kvcache.CorruptError, match="did not come whole"):
            kvcache.restore_stream(kvcache.Manager(BLOCKS, BLOCK), storage(), cut, **NAMES)
    for bad, error in ((-1, ValueError), ("stream", TypeError), (None, TypeError)):
        with pytest.raises(error):
            kvcache.save_stream(m, old, bad, **NAMES)


def test_what_a_save_needs_is_known_before(saved):
    m, s, _, folder, info = saved
    needs = kvcache.measure_checkpoint(m, s, folder, **NAMES)
    assert needs.num_pages == 5 and needs.new_pages == 0 and needs.full_bytes > info.page_bytes and needs.free_bytes > 0
    compute(m, s, PROMPT[::-1].copy())
    needs = kvcache.measure_checkpoint(m, s, folder, **NAMES)
    later = kvcache.save_checkpoint(m, s, folder, **NAMES)
    assert needs.new_pages == later.new_pages == 5 and needs.new_bytes >= later.written_bytes
    assert 0 < later.longest_hold <= 64 and later.longest_admission >= 5 and later.resumed_pages == 0
    (folder / "00000000000000000003.kvcd.part").write_bytes(b"left")
    assert kvcache.collect_checkpoints(folder) == 4
    assert kvcache.collect_checkpoints(folder, keep_last=1) == 0 and kvcache.list_checkpoints(folder) == [2]  # which needs the pages of the first
