# SPDX-License-Identifier: Apache-2.0
"""Readers of batches of events, one for each router, with the rules that are known of it. Each is as strict as its original and keeps a set of
(group, hash); what it refuses raises Refused."""

import struct


class Refused(Exception):
    """The router drops the batch."""


def unpack(data):
    """Decodes one value of MessagePack that takes all bytes."""
    value, at = _value(data, 0)
    if at != len(data):
        raise Refused(f"{len(data) - at} bytes behind the batch")
    return value


def _value(data, at):
    tag = data[at]
    at += 1
    if tag < 0x80:
        return tag, at
    if tag >= 0xe0:
        return tag - 256, at
    if tag < 0x90:
        return _map(data, at, tag & 15)
    if tag < 0xa0:
        return _array(data, at, tag & 15)
    if tag < 0xc0:
        return data[at:at + (tag & 31)].decode(), at + (tag & 31)
    if tag == 0xc0:
        return None, at
    if tag in (0xc2, 0xc3):
        return tag == 0xc3, at
    if tag == 0xcb:
        return struct.unpack_from(">d", data, at)[0], at + 8
    for first, signed in ((0xcc, False), (0xd0, True)):
        if first <= tag < first + 4:
            size = 1 << tag - first
            return int.from_bytes(data[at:at + size], "big", signed=signed), at + size
    for tags, make in (((0xc4, 0xc5, 0xc6), bytes), ((0xd9, 0xda, 0xdb), bytes.decode)):
        if tag in tags:
            width = 1 << tags.index(tag)
            size = int.from_bytes(data[at:at + width], "big")
            return make(data[at + width:at + width + size]), at + width + size
    for tags, make in (((0xdc, 0xdd), _array), ((0xde, 0xdf), _map)):
        if tag in tags:
            width = 2 << tags.index(tag)
            return make(data, at + width, int.from_bytes(data[at:at + width], "big"))
    raise Refused(f"tag {tag:#x}")


def _array(data, at, count):
    out = []
    for _ in range(count):
        value, at = _value(data, at)
        out.append(value)
    return out, at


def _map(data, at, count):
    out = {}
    for _ in range(count):
        key, at = _value(data, at)
        out[key], at = _value(data, at)
    return out, at


STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx",
          "kv_cache_spec_kind", "kv_cache_spec_sliding_window")
REMOVED = ("block_hashes", "medium", "group_idx")
KINDS = {"full_attention", "mla_attention", "sliding_window", "sliding_window_mla", "mamba", "chunked_local_attention", "sink_full_attention",
         "encoder_only_attention", "cross_attention"}


class Router:
    maps = arrays = True

    def __init__(self):
        self.blocks = set()  # (group, hash)
        self.parents = set()  # every hash that was told

    def hash(self, value):
        raise NotImplementedError

    def event(self, event):
        """(type, fields)"""
        if isinstance(event, dict):
            if not self.maps:
                raise Refused("a map")
            fields = dict(event)
            kind = fields.pop("type")
        else:
            if not self.arrays or not isinstance(event, list):
                raise Refused("an array")
            kind = event[0]
            names = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": ()}.get(kind)
            if names is None:
                raise Refused(f"the type {kind!r}")
            fields = dict(zip(names, event[1:]))
        if kind not in ("BlockStored", "BlockRemoved", "AllBlocksCleared"):
            raise Refused(f"the type {kind!r}")
        return kind, fields

    def check_batch(self, batch):
        """Refuses what is no batch."""

    def check_stored(self, fields):
        """Refuses what is no stored block."""

    def apply(self, payload):
        batch = unpack(payload)
        self.check_batch(batch)
        for kind, fields in [self.event(event) for event in batch[1]]:  # the whole batch first
            if kind == "AllBlocksCleared":
                self.blocks.clear()
                self.parents.clear()
                continue
            group = fields.get("group_idx") or 0
            hashes = [self.hash(value) for value in fields["block_hashes"]]
            if kind == "BlockRemoved":
                self.blocks -= {(group, h) for h in hashes}
                continue
            if len(fields["token_ids"]) != len(hashes) * fields["block_size"]:
                raise Refused("other tokens than blocks")
            self.check_stored(fields)
            self.blocks |= {(group, h) for h in hashes}
            self.parents |= set(hashes)


class Dynamo(Router):
    """The batch is exactly [time, events, rank]; hashes are integers; an unknown kind of group is refused."""

    def hash(self, value):
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 64:
            raise Refused(f"the hash {value!r}")
        return value % (1 << 64)

    def check_batch(self, batch):
        if not isinstance(batch, list) or len(batch) != 3 or not isinstance(batch[0], float) or not isinstance(batch[1], list):
            raise Refused("no batch")
        if batch[2] is not None and not isinstance(batch[2], int):
            raise Refused("the rank")

    def check_stored(self, fields):
        if fields.get("kv_cache_spec_kind") not in KINDS | {None}:
            raise Refused("the kind of the group")


class AIBrix(Router):
    """The time is a float, the rank an integer or left out; bytes: the first 8."""

    def hash(self, value):
        return int.from_bytes(value[:8], "big") if isinstance(value, bytes) else value % (1 << 64)

    def check_batch(self, batch):
        if not isinstance(batch, list) or len(batch) not in (2, 3) or not isinstance(batch[0], float):
            raise Refused("no batch")
        if len(batch) == 3 and (not isinstance(batch[2], int) or isinstance(batch[2], bool)):
            raise Refused("the rank")


class LlmD(Router):
    """Bytes: the last 8, big-endian; parent 0 is none; a block whose parent it does not know is dropped."""

    def __init__(self):
        super().__init__()
        self.orphans = 0

    def hash(self, value):
        return int.from_bytes(value[-8:], "big") if isinstance(value, bytes) else value % (1 << 64)

    def check_stored(self, fields):
        parent = fields["parent_block_hash"]
        self.orphans += parent is not None and self.hash(parent) != 0 and self.hash(parent) not in self.parents


class Mooncake(Router):
    """All seven fields; no LoRA; medium GPU; group 0 or none; full attention alone."""

    arrays = False

    def hash(self, value):
        return value % (1 << 64)

    def check_stored(self, fields):
        if any(name not in fields for name in STORED[:7]) or fields["lora_id"] is not None or fields["medium"] != "GPU":
            raise Refused("a field")
        if fields.get("group_idx", 0) != 0 or fields.get("kv_cache_spec_kind", "full_attention") != "full_attention":
            raise Refused("the group")


ALL = (Dynamo, AIBrix, LlmD, Mooncake)
