# SPDX-License-Identifier: Apache-2.0
"""random_programs.py [COUNT [SEED]]: random programs of appends, lookups and attention, run on the library and on the reference.

Shapes, element types, block tables, lengths, strides and options of attention are random. kvc-run compares the results within the bounds of
the library's own tests of attention: 2e-5 for rows of f32, 4e-3 for 16 bits. Exit 1 with the program if they differ."""
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from dense_chain import chain

WAVE = """
func.func private @wave(%n: index, %heads: index, %seed: f32) -> tensor<?x?xDIMxf32> {
  %empty = tensor.empty(%n, %heads) : tensor<?x?xDIMxf32>
  %w = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      outs(%empty : tensor<?x?xDIMxf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = linalg.index 2 : index
    %c13 = arith.constant 13 : index
    %c101 = arith.constant 101 : index
    %a = arith.muli %i, %c101 : index
    %b = arith.muli %j, %c13 : index
    %ab = arith.addi %a, %b : index
    %abk = arith.addi %ab, %k : index
    %n32 = arith.index_cast %abk : index to i32
    %x = arith.sitofp %n32 : i32 to f32
    %factor = arith.constant 2.399 : f32
    %y = arith.mulf %x, %factor : f32
    %z = arith.addf %y, %seed : f32
    %s = math.sin %z : f32
    linalg.yield %s : f32
  } -> tensor<?x?xDIMxf32>
  return %w : tensor<?x?xDIMxf32>
}
"""


def dense(values, kind):
    return f"arith.constant dense<{values}> : tensor<{kind}>"


def program(rng):
    """(text, bound)"""
    layers, heads, dim = rng.randint(1, 3), rng.randint(1, 3), rng.choice([4, 8, 16, 20, 64])
    block, group = rng.choice([1, 2, 4, 16]), rng.randint(1, 4)
    element, row = rng.choice(["f32", "f16", "bf16"]), rng.choice(["f32", "f32", "f16", "bf16"])
    lens = [rng.randint(1, 25) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.4:
        queries = [1] * len(lens)
    else:
        queries = [rng.randint(0, length) for length in lens]
        queries[0] = max(1, queries[0])
    needed = [-(-length // block) for length in lens]
    blocks = sum(needed) + rng.randint(0, 3)
    ids = rng.sample(range(blocks), sum(needed))
    tables, at, width = [], 0, max(needed) + rng.randint(0, 2)
    for count in needed:
        tables.append(ids[at:at + count] + [-1] * (width - count))
        at += count
    cache = f"!kvc.paged_cache<{element}, {layers}, {heads}, {dim}, {block}, {blocks}>"
    layer, total, q_heads = rng.randrange(layers), sum(queries), heads * group
    lines = ["%cache = kvc.create_cache : !cache", f"%layer = arith.constant {layer} : index", "%c0 = arith.constant 0 : index"]

    def constant(value):
        name = f"%n{len(lines)}"
        lines.append(f"{name} = arith.constant {value} : index")
        return name

    def rows(tokens, number, seed):
        """Rows of a wave, in the type of rows."""
        name = f"%w{len(lines)}"
        n, h = constant(tokens), constant(number)
        lines.append(f"{name}s = arith.constant {seed} : f32")
        lines.append(f"{name}a = func.call @wave({n}, {h}, {name}s) : (index, index, f32) -> tensor<?x?x{dim}xf32>")
        kind = f"tensor<{tokens}x{number}x{dim}xf32>"
        lines.append(f"{name} = tensor.cast {name}a : tensor<?x?x{dim}xf32> to {kind}")
        if row == "f32":
            return name, kind
        narrow = kind.replace("xf32>", f"x{row}>")
        lines.append(f"{name}n = arith.truncf {name} : {kind} to {narrow}")
        return name + "n", narrow

    for r, length in enumerate(lens):
        k, kind = rows(length, heads, f"{r}.25")
        v, _ = rows(length, heads, f"{r}.75")
        name = f"%p{len(lines)}"
        if rng.random() < 0.5:
            slots = [tables[r][t // block] * block + t % block for t in range(length)]
            lines.append(f"{name} = {dense(slots, f'{length}xi64')}")
            lines.append(f"kvc.append_kv {k}, {v} into %cache[%layer] slots({name} : tensor<{length}xi64>) : {kind}, {kind} into !cache")
            continue
        # In two parts, which kvc-fuse-appends may make one.
        lines.append(f"{name} = {dense(tables[r], f'{width}xi32')}")
        cut = rng.randint(1, length)
        for first, count in ((0, cut), (cut, length - cut)):
            if count:
                part, position = kind.replace(f"<{length}x", f"<{count}x"), constant(first)
                for plane, source in (("k", k), ("v", v)):
                    lines.append(f"{name}{plane}{first} = tensor.extract_slice {source}[{first}, 0, 0] [{count}, {heads}, {dim}] [1, 1, 1] : {kind} to {part}")
                lines.append(f"kvc.append_kv {name}k{first}, {name}v{first} into %cache[%layer] table({name} : tensor<{width}xi32>) from {position} : {part}, {part} into !cache")

    requests = len(lens)
    offsets = [sum(queries[:i]) for i in range(requests + 1)]
    lines += [f"%tables = {dense(tables, f'{requests}x{width}xi32')}", f"%lens = {dense(lens, f'{requests}xi64')}",
              f"%offsets = {dense(offsets, f'{requests + 1}xi64')}"]
    operands, attributes = "", []
    if set(queries) != {1} or rng.random() < 0.5:
        operands += f"offsets(%offsets : tensor<{requests + 1}xi64>) "
    if rng.random() < 0.3:
        starts, bits = [], 0
        tree = [rng.randint(0, length) for length in lens] if rng.random() < 0.5 else None
        for r, (count, length) in enumerate(zip(queries, lens)):
            starts.append(bits)
            bits += count * (length - (tree[r] if tree else 0)) + rng.randint(0, 9)
        size = bits // 8 + 1
        lines += [f"%mask = {dense([rng.randint(-128, 127) for _ in range(size)], f'{size}xi8')}", f"%starts = {dense(starts, f'{requests}xi64')}"]
        operands += f"mask(%mask : tensor<{size}xi8>) mask_offsets(%starts : tensor<{requests}xi64>) "
        if tree:
            lines.append(f"%tree = {dense(tree, f'{requests}xi64')}")
            operands += f"mask_starts(%tree : tensor<{requests}xi64>) "
    if rng.random() < 0.3:
        lines.append(f"%logits = {dense([round(rng.uniform(-2, 2), 3) for _ in range(q_heads)], f'{q_heads}xf32')}")
        operands += f"sink_logits(%logits : tensor<{q_heads}xf32>) "
    if rng.random() < 0.3:
        lines.append(f"%slopes = {dense([round(rng.uniform(-0.5, 0.5), 3) for _ in range(q_heads)], f'{q_heads}xf32')}")
        operands += f"alibi_slopes(%slopes : tensor<{q_heads}xf32>) "
    if rng.random() < 0.3:
        attributes.append("bidirectional")
    if rng.random() < 0.3:
        attributes.append(f"scale = {round(rng.uniform(-1, 1), 3) or 0.5} : f32")
    if rng.random() < 0.3:
        attributes.append(f"soft_cap = {round(rng.uniform(0.5, 9), 3)} : f32")
    if rng.random() < 0.4:
        attributes.append(f"window = {rng.randint(1, 30)}")
        if rng.random() < 0.5:
            attributes.append(f"sinks = {rng.randint(0, 6)}")
    q, kind = rows(total, q_heads, "7.5")
    lines += [f"%e = tensor.empty() : {kind}",
              f"%o = kvc.paged_attention %{q[1:]}, %cache[%layer] tables(%tables : tensor<{requests}x{width}xi32>) lens(%lens : tensor<{requests}xi64>) {operands}"
              f"outs(%e : {kind}){' {' + ', '.join(attributes) + '}' if attributes else ''} : {kind}, !cache -> {kind}"]
    wide = kind.replace(f"x{row}>", "xf32>")
    result = "%o"
    if row != "f32":
        lines.append(f"%of = arith.extf %o : {kind} to {wide}")
        result = "%of"
    memref = wide.replace("tensor", "memref")
    lines += [f"%m = bufferization.to_memref {result} : {memref}", f"memref.copy %m, %results : {memref} to {memref}"]
    # The last request comes back, by its table.
    back = f"tensor<{lens[-1]}x{heads}x{dim}x{row}>"
    lines += [f"%last = {dense(tables[-1], f'{width}xi32')}", f"%b0 = tensor.empty() : {back}", f"%b1 = tensor.empty() : {back}",
              f"%g:2 = kvc.lookup_kv %cache[%layer] table(%last : tensor<{width}xi32>) from %c0 outs(%b0, %b1 : {back}, {back}) : !cache -> {back}, {back}"]
    gathered, wide_back = "%g#1", back.replace(f"x{row}>", "xf32>")
    if row != "f32":
        lines.append(f"%gf = arith.extf %g#1 : {back} to {wide_back}")
        gathered = "%gf"
    back_memref = wide_back.replace("tensor", "memref")
    lines += [f"%gm = bufferization.to_memref {gathered} : {back_memref}", f"memref.copy %gm, %gathered : {back_memref} to {back_memref}"]
    # Dense attention to its tokens, by a chain that kvc-fuse-attention may fuse.
    count = rng.randint(1, 4)
    lines += [f"%dn = arith.constant {count} : index", f"%dh = arith.constant {q_heads} : index", "%ds = arith.constant 3.5 : f32",
              f"%da = func.call @wave(%dn, %dh, %ds) : (index, index, f32) -> tensor<?x?x{dim}xf32>",
              f"%dq = tensor.cast %da : tensor<?x?x{dim}xf32> to tensor<{count}x{q_heads}x{dim}xf32>"]
    more, (result, kind) = chain(rng, "z", "!cache", "%layer", ("%last", f"tensor<{width}xi32>"), lens[-1], heads, dim, group, "%dq", count)
    attended = kind.replace("tensor", "memref")
    lines += [*more, f"%dm = bufferization.to_memref {result} : {attended}", f"memref.copy %dm, %attended : {attended} to {attended}",
              "kvc.destroy_cache %cache : !cache", "return"]
    text = (f"!cache = {cache}\n" + WAVE.replace("DIM", str(dim)) + f"\nfunc.func @main(%results: {memref}, %gathered: {back_memref}, %attended: {attended}) {{\n"
            + "\n".join("  " + line for line in lines) + "\n}\n")
    return text, 2e-5 if row == "f32" else 4e-3


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else max(8, int(os.environ.get("KVC_TEST_MODULES", "0")) // 500)
    seed = int(sys.argv[2] if len(sys.argv) > 2 else os.environ.get("KVC_TEST_SEED", "1"))
    rng = random.Random(seed)
    largest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.mlir")
        for _ in range(count):
            text, bound = program(rng)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            result = subprocess.run(["kvc-run", path, f"--bound={bound}", *(["--finite-rows"] if rng.random() < 0.7 else [])], capture_output=True, text=True)
            if result.returncode != 0:
                print(f"{text}\nkvc-run exits with {result.returncode}\n{result.stdout}{result.stderr[:3000]}")
                sys.exit(1)
            largest = max(largest, float(result.stdout.split("largest difference ")[1].split(",")[0]) / bound)
    print(f"{count} programs, seed {seed}: equal; the largest difference is {largest:.3g} of its bound")


main()
