# SPDX-License-Identifier: Apache-2.0
"""libkvcache for the comparisons with PyTorch: structs and calls of the C headers by ctypes, and storages as tensors."""
import ctypes
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import kvcache_headers  # noqa: E402

HEADERS = kvcache_headers.read()
DTYPES = {torch.float32: "KVC_FLOAT32", torch.float16: "KVC_FLOAT16", torch.bfloat16: "KVC_BFLOAT16"}


class Failure(RuntimeError):
    """A failed call, with the text of the library."""


def constant(name):
    return HEADERS.value(HEADERS.constants[name])


def struct(name):
    """A struct of the C headers."""
    types = {"char": ctypes.c_char, "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64,
             "int64_t": ctypes.c_int64, "float": ctypes.c_float}

    def kind(field):
        if field.stars:
            return ctypes.c_char_p if field.kind == "char" else ctypes.c_void_p
        return types[field.kind] * HEADERS.value(field.length) if field.length else types[field.kind]

    return type(name, (ctypes.Structure,), {"_fields_": [(field.name, kind(field)) for field in HEADERS.structs[name].fields]})


Config, Rows, Attention, Launch, Info = map(struct, ("kvc_storage_config", "kvc_rows", "kvc_attention", "kvc_attention_launch", "kvc_attention_info"))


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.kvc_last_error.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.library, name)(*arguments) != 0:
            raise Failure(f"{name}: {self.library.kvc_last_error().decode()}")


class Storage:
    """Keys and values k, v [layer][request][head][token][element] in shuffled blocks. `device`: its name in the library, None = the CPU.
    `stream`: a stream of the runtime, for attention on a GPU."""

    def __init__(self, library, k, v, block_size, device=None, stream=None, threads=1, flags=()):
        self.library, self.dtype, self.stream = library, constant(DTYPES[k.dtype]), ctypes.c_void_p()
        layers, self.requests, heads, context, dim = k.shape
        blocks = -(-context // block_size)
        config = Config(ctypes.sizeof(Config), num_blocks=self.requests * blocks, num_layers=layers, num_heads=heads, head_dim=dim,
                        block_size=block_size, dtype=self.dtype, flags=sum(map(constant, flags)), num_threads=threads,
                        device=device.encode() if device else None)
        self.storage = ctypes.c_void_p()
        library.call("kvc_storage_create", ctypes.byref(config), ctypes.byref(self.storage))
        table = torch.randperm(self.requests * blocks, dtype=torch.int32).view(self.requests, blocks)
        for r in range(self.requests):
            rows = Rows(ctypes.sizeof(Rows), k=k[:, r].data_ptr(), v=v[:, r].data_ptr(), num_tokens=context, num_layers=layers,
                        dtype=self.dtype, block_table=table[r].data_ptr(), block_table_size=blocks)
            rows.k_layer_stride, _, rows.k_head_stride, rows.k_token_stride, _ = k.stride()
            rows.v_layer_stride, _, rows.v_head_stride, rows.v_token_stride, _ = v.stride()
            library.call("kvc_storage_store", self.storage, ctypes.byref(rows), None)
        if stream is not None:
            library.call("kvc_stream_adopt", device.encode(), ctypes.c_void_p(stream), 0, ctypes.byref(self.stream))
        self.table = table.to(k.device)
        self.context = torch.full([self.requests], context, device=k.device)

    def attention(self, q, out):
        """Arguments for queries q [request][token][head][element], the last tokens of each request. On a GPU all arrays are in its memory."""
        _, queries, heads, _ = q.shape
        offsets = torch.arange(self.requests + 1, device=q.device) * queries
        arguments = Attention(ctypes.sizeof(Attention), q=q.data_ptr(), out=out.data_ptr(), num_requests=self.requests,
                              q_offsets=offsets.data_ptr(), kv_lens=self.context.data_ptr(), block_tables=self.table.data_ptr(),
                              table_stride=self.table.shape[1], num_q_heads=heads, dtype=constant(DTYPES[q.dtype]))
        launch = Launch(ctypes.sizeof(Launch))
        if self.stream:
            launch.flags = constant("KVC_LAUNCH_ON_DEVICE")
            launch.total_queries, launch.max_queries = self.requests * queries, queries
            launch.max_kv_len = int(self.context[0])
        arguments.launch = ctypes.addressof(launch)
        info = Info(ctypes.sizeof(Info))
        self.library.call("kvc_storage_explain", self.storage, ctypes.byref(arguments), ctypes.byref(info))
        plan = torch.empty(info.plan_bytes, dtype=torch.uint8, device=q.device)
        launch.plan, launch.plan_bytes = plan.data_ptr() or None, info.plan_bytes
        arguments.keep = (q, out, offsets, plan, launch)
        return arguments

    def attend(self, arguments, layer):
        """Layer 0 writes the plan that the other layers reuse."""
        arguments.layer = layer
        launch = arguments.keep[-1]
        if launch.plan:
            flag = constant("KVC_LAUNCH_PLANNED")
            launch.flags = launch.flags & ~flag | (flag if layer else 0)
        self.library.call("kvc_storage_attend", self.storage, ctypes.byref(arguments), self.stream)

    def plane(self, name, layer):
        """The storage's own memory as a tensor [block][head][token][element]."""
        tensor = ctypes.c_void_p()
        self.library.call("kvc_storage_export_dlpack", self.storage, constant(name), layer, ctypes.byref(tensor))
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return torch.utils.dlpack.from_dlpack(capsule(tensor, b"dltensor", None))

    def close(self):
        self.library.library.kvc_stream_destroy(self.stream)
        self.library.library.kvc_storage_destroy(self.storage)
