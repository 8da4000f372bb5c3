# SPDX-License-Identifier: Apache-2.0
"""The classes of events and the hashes of vLLM and SGLang, as their wheels have them, without what the engines need to run.

    vllm = engines.vllm("FOLDER OR WHEEL")      vllm.BlockStored, vllm.KVEventBatch, vllm.ZmqEventPublisher, vllm.block_hash, ...

A module that one of their files imports, and that is not wanted here, is replaced by an empty one."""
import ast
import os
import pathlib
import sys
import types
import zipfile


def read(source, name):
    """The text of a file in a wheel or in a folder such as site-packages."""
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as wheel:
            return wheel.read(name).decode()
    return (pathlib.Path(source) / name).read_text(encoding="utf-8")


class _Anything:
    """Stands for whatever is imported and not used."""

    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)

    def __call__(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


def _run(text, name, stand_ins):
    """Runs a file as a module; the packages that begin with the names of stand_ins are replaced."""
    tree = ast.parse(text)
    body = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in stand_ins:
            continue
        body.append(node)
    tree.body = body
    module = types.ModuleType(name)
    sys.modules[name] = module
    for first, names in stand_ins.items():
        module.__dict__.update(names)
    exec(compile(tree, name, "exec"), module.__dict__)
    return module


def vllm(source):
    """vllm/distributed/kv_events.py, with block_hash(parent, tokens, extra_keys) and root(seed) of --prefix-caching-hash-algo sha256_cbor."""
    hashing = _run(read(source, "vllm/utils/hashing.py"), "vllm_hashing", {})
    anything = _Anything()
    events = _run(read(source, "vllm/distributed/kv_events.py"), "vllm_kv_events", {"vllm": {
        "KVEventsConfig": _Anything, "init_logger": lambda name: anything, "ExternalBlockHash": bytes | int,
        "get_ip": lambda: "127.0.0.1", "get_tcp_uri": lambda ip, port: f"tcp://{ip}:{port}",
        "is_valid_ipv6_address": lambda ip: False, "split_zmq_path": lambda path: path.split(":")}})
    # One function of a module that imports the whole engine.
    utils = ast.parse(read(source, "vllm/v1/core/kv_cache_utils.py"))
    wanted = [node for node in utils.body if isinstance(node, ast.FunctionDef) and node.name == "hash_block_tokens"]
    assert len(wanted) == 1
    scope = {"Callable": None, "Any": None, "BlockHash": bytes, "Sequence": None}
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module(body=future + wanted, type_ignores=[]), "hash_block_tokens", "exec"), scope)

    def block_hash(parent, tokens, extra_keys=None):
        return scope["hash_block_tokens"](hashing.sha256_cbor, parent, tokens, extra_keys)

    events.root = hashing.sha256_cbor
    events.block_hash = block_hash
    seeds = [node.value.value for node in utils.body if isinstance(node, ast.Assign) and node.targets[0].id == "DEFAULT_NONE_HASH_SEED"]
    events.default_seed = seeds[0]
    return events


def wheel(name, version, folder):
    """The wheel of an engine in a folder; fetched with pip if it is not there."""
    folder = pathlib.Path(folder)
    found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    if not found:
        import subprocess
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", os.fspath(folder), f"{name}=={version}"], check=True)
        found = sorted(folder.glob(f"{name}-{version}-*.whl"))
    return found[0]
