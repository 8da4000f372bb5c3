# SPDX-License-Identifier: Apache-2.0
"""python_programs.py FOLDER: tests kvc_mlir.py of FOLDER/python with kvc-opt and kvc-run in PATH. An assertion says what failed."""
import os
import re
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "python"))
from kvc_mlir import OPS, MlirError, Module, PagedCache, _attribute, memref, tensor

CACHE = PagedCache("f16", layers=2, kv_heads=2, head_dim=8, block=16, blocks=4)


def every_op():
    with open(os.path.join(sys.argv[1], "ir", "Kvc.td"), encoding="utf-8") as file:
        defined = set(re.findall(r'def \w+ : Kvc_(?:Cache)?Op<"(\w+)"', file.read()))
    assert defined == set(OPS), f"the table differs from Kvc.td in {defined ^ set(OPS)}"
    module = Module()
    i32s, i64s = memref(None, element="i32"), memref(None, element="i64")
    with module.function("engine", i32s, i64s, i32s, memref(None, None, element="i32"), "!kvc.storage", CACHE.memref) as f:
        tokens, numbers, statuses, tables, storage, memory = f.arguments
        manager = f.create_manager(num_blocks=4, block_size=16)
        cached, _ = f.lookup(manager, tokens)
        request, _, status = f.allocate(manager, tokens)
        f.require(status)
        f.append(manager, request, tokens)
        f.slots(manager, request, cached, numbers)
        f.block_table(manager, request, statuses)
        f.commit(manager, request, f.constant(3))
        f.op("memref.store", [f.request_id(request), numbers, f.constant(0)])
        f.step(manager, numbers, numbers, numbers, tokens, tables, numbers, statuses)
        f.free(manager, request)
        f.destroy_manager(manager)
        own, adopted = f.create_cache(type=CACHE, tiled_keys=True), f.adopt_memref(memory, type=CACHE)
        f.export_memref(adopted, type=CACHE.memref)
        f.cache_of(storage, type=CACHE)
        f.destroy_cache(own)
    rows, numbers, floats = tensor(None, 2, 8), tensor(None, element="i64"), tensor(4)
    queries, bits = tensor(None, 4, 8, element="bf16"), tensor(None, element="i8")
    with module.function("layer", CACHE, rows, numbers, tensor(None, element="i32"), tensor(None, None, element="i32"), floats, queries, bits,
                         results=[rows, queries]) as f:
        cache, k, slots, table, tables, logits, q, mask = f.arguments
        layer = f.constant(1)
        f.append_kv(k, k, cache, layer, slots=slots)
        f.append_kv(k, k, cache, layer, table=table, first=layer)
        found, _ = f.lookup_kv(cache, layer, table=table, first=layer, keys=k, values=k)
        out = f.paged_attention(q, cache, layer, tables, slots, offsets=slots, mask=mask, mask_offsets=slots, mask_starts=slots, sink_logits=logits,
                                alibi_slopes=logits, out=q, scale=1e-5, soft_cap=30, window=64, sinks=2, bidirectional=True)
        f.returns(found, out)
    printed = module.verify()
    missing = [it for it in OPS if f"kvc.{it} " not in printed]
    assert not missing, f"kvc-opt did not print {missing}"
    print(f"{len(OPS)} ops: accepted")


def wrong_layer():
    module = Module()
    rows = tensor(None, 2, 8)
    with module.function("layer", CACHE, rows, tensor(None, element="i64")) as f:
        cache, k, slots = f.arguments
        f.append_kv(k, k, cache, f.constant(2), slots=slots)
    try:
        module.verify()
    except MlirError as error:
        assert "'kvc.append_kv' op layer is 2; it must be 0 .. 1" in str(error), error
        print("wrong layer: refused")


def decoder(module, tokens=5, heads=4):
    """A prompt in a cache of two layers, and attention of its last tokens in each."""
    rows, out = tensor(tokens, CACHE.kv_heads, CACHE.head_dim), tensor(tokens, heads, CACHE.head_dim)
    result = memref(CACHE.layers, tokens, heads, CACHE.head_dim)
    with module.function("main", result) as f:
        results, = f.arguments
        cache, zero, count = f.create_cache(type=CACHE), f.constant(0), f.constant(tokens)
        manager = f.create_manager(num_blocks=CACHE.blocks, block_size=CACHE.block)
        prompt = f.op("memref.alloc", (), [memref(tokens, element="i32")], {"operandSegmentSizes": "array<i32: 0, 0>"})
        f.text(f"linalg.fill ins({f.constant(7, 'i32')} : i32) outs({prompt} : {prompt.type})")
        request, _, status = f.allocate(manager, prompt)
        f.require(status)
        places = [f.op("memref.alloc", (), [memref(size, element=element)], {"operandSegmentSizes": "array<i32: 0, 0>"})
                  for size, element in ((tokens, "i64"), (1, "i32"))]
        f.require(f.slots(manager, request, zero, places[0]))
        f.require(f.block_table(manager, request, places[1]))
        slots, table = (f.op("bufferization.to_tensor", [it], [it.type.replace("memref", "tensor")], {"restrict": None}) for it in places)
        tables = f.op("tensor.expand_shape", [table], [tensor(1, 1, element="i32")],
                      {"reassociation": "[[0, 1]]", "static_output_shape": "array<i64: 1, 1>"})
        lens, offsets = f.constant(f"dense<[{tokens}]>", tensor(1, element="i64")), f.constant(f"dense<[0, {tokens}]>", tensor(2, element="i64"))
        k = f.constant(f"dense<{[[[(t * 7 + h * 3 + d) % 5 - 2.0 for d in range(8)] for h in range(2)] for t in range(tokens)]}>", rows)
        q = f.constant("dense<0.5>", out)
        with f.loop(0, CACHE.layers) as layer:
            f.append_kv(k, k, cache, layer, slots=slots)
            o = f.paged_attention(q, cache, layer, tables, lens, offsets=offsets, out=f.op("tensor.empty", (), [out]), window=3)
            m = f.op("bufferization.to_memref", [o], [out.replace("tensor", "memref")])
            part = f"strided<[{heads * 8}, 8, 1], offset: ?>"
            to = f"memref<{tokens}x{heads}x8xf32, {part}>"
            f.text(f"%to = memref.subview {results}[{layer}, 0, 0, 0] [1, {tokens}, {heads}, 8] [1, 1, 1, 1] : {result} to {to}\n"
                   f"memref.copy {m}, %to : {m.type} to {to}")
        f.require(f.commit(manager, request, count))
        f.require(f.free(manager, request))
        f.destroy_manager(manager)
        f.destroy_cache(cache)
    return module


def main():
    every_op()
    wrong_layer()
    module = decoder(Module())
    lowered = module.opt("one-shot-bufferize{bufferize-function-boundaries=true}", "kvc-to-calls")
    print("passes:", *(it for it in ("kvc_storage_store", "kvc_storage_attend") if f"llvm.call @{it}" in lowered))
    numbers, = module.run()
    assert _attribute(float("-inf"), "f32") == "0xFF800000 : f32" and _attribute(1 / 3, "f64") == "3.3333333333333331e-01 : f64"
    assert _attribute(True, "i1") == "true"
    assert len(numbers) == 2 * 5 * 4 * 8 and len(set(numbers)) > 3, numbers
    assert numbers == module.run(lowering="calls")[0]
    print("decoder: equal")
    os.environ["KVC_MLIR_BIN"] = os.path.join(sys.argv[1], "nowhere")
    try:
        module.verify()
    except MlirError as error:
        assert "kvc-opt is not in" in str(error) and "scripts/mlir" in str(error), error
        print("missing tool: said")


main()
