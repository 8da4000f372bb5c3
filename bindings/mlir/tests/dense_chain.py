# SPDX-License-Identifier: Apache-2.0
"""Random chains of a gather and dense attention over it, which kvc-fuse-attention may fuse, for random modules and programs."""

import re

INFINITE = "0xFF800000"


def chain(rng, prefix, cache, layer, table, tokens, heads, dim, group, q, queries, between=None):
    """(lines, result): attention of the tensor `q` of queries x (heads * group) x dim to the first `tokens` tokens of a table, a (name, type).
    Names begin with the prefix; `layer` and "%c0" are indices. The line `between` may stand in the chain. A query that sees no token gives 7."""
    name = f"%{prefix}".__add__
    total = heads * group
    rows, wide = f"tensor<{tokens}x{heads}x{dim}xf32>", f"tensor<{tokens}x{total}x{dim}xf32>"
    out, scores = f"tensor<{queries}x{total}x{dim}xf32>", f"tensor<{total}x{queries}x{tokens}xf32>"
    lines = [f"{name('e')} = tensor.empty() : {rows}", f"{name('zero')} = arith.constant 0.0 : f32",
             f"{name('kv')}:2 = kvc.lookup_kv %cache[{layer}] table({table[0]} : {table[1]}) from %c0 outs({name('e')}, {name('e')} : {rows}, {rows})"
             f" : {cache} -> {rows}, {rows}",
             f"{name('es')} = tensor.empty() : {scores}", f"{name('s0')} = linalg.fill ins({name('zero')} : f32) outs({name('es')} : {scores}) -> {scores}"]
    planes = [name("kv") + "#0", name("kv") + "#1"]
    batch = rng.random() < 0.6

    def transpose(value, kind, order):
        sizes = kind[len("tensor<"):].split("x")[:3]
        moved = f"tensor<{'x'.join(sizes[i] for i in order)}xf32>"
        made = name(f"t{len(lines)}")
        lines.extend([f"{made}e = tensor.empty() : {moved}",
                      f"{made} = linalg.transpose ins({value} : {kind}) outs({made}e : {moved}) permutation = {list(order)}"])
        return made, moved

    def product(maps, iterators, inputs, target):
        made = name(f"g{len(lines)}")
        lines.append(f"{made} = linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = [{', '.join(iterators)}]}} "
                     f"ins({', '.join(it[0] for it in inputs)} : {', '.join(it[1] for it in inputs)}) outs({target[0]} : {target[1]}) {{")
        lines.extend(["^bb0(%x: f32, %y: f32, %sum: f32):", "  %m = arith.mulf %x, %y : f32", "  %a = arith.addf %sum, %m : f32",
                      "  linalg.yield %a : f32", f"}} -> {target[1]}"])
        return made

    hqtd = "affine_map<(h, q, t, d) -> ({})>".format
    keys = hqtd(f"t, h floordiv {group}, d" if group > 1 else "t, h, d")
    loops = ['"parallel"', '"parallel"', '"parallel"', '"reduction"']
    if batch:
        if group > 1:
            spread = f"tensor<{tokens}x{heads}x{group}x{dim}xf32>"
            lines.append(f"{name('eb')} = tensor.empty() : {spread}")
            for i in range(2):
                lines.append(f"{name(f'b{i}')} = linalg.broadcast ins({planes[i]} : {rows}) outs({name('eb')} : {spread}) dimensions = [2]")
                lines.append(f"{name(f'c{i}')} = tensor.collapse_shape {name(f'b{i}')} [[0], [1, 2], [3]] : {spread} into {wide}")
                planes[i] = name(f"c{i}")
        left, right = transpose(q, out, (1, 0, 2)), transpose(planes[0], wide, (1, 2, 0))
        score = name("s")
        lines.append(f"{score} = linalg.batch_matmul ins({left[0]}, {right[0]} : {left[1]}, {right[1]}) outs({name('s0')} : {scores}) -> {scores}")
    else:
        score = product([hqtd("q, h, d"), keys, hqtd("h, q, t")], loops, [(q, out), (planes[0], rows)], (name("s0"), scores))
    if between:
        lines.append(between)

    factor = rng.choice([None, ("mulf", 0.25), ("mulf", 0.3), ("divf", 4.0), ("mulf", -0.5)])
    above = rng.random() < 0.3
    steps = [factor] if factor else []
    for _ in range(rng.choice([0, 1, 1, 2])):
        steps.insert(0 if above else len(steps), rng.choice(["added", "shown", "hidden", "causal", "heads", "finite"]))
    for number, step in enumerate(steps):
        made = name(f"x{number}")
        if isinstance(step, tuple):
            lines += [f"{made}c = arith.constant dense<{step[1]}> : {scores}", f"{made} = arith.{step[0]} {score}, {made}c : {scores}"]
            score = made
            continue
        many = step == "heads"
        shape, element = (f"{total}x" if many else "") + f"{queries}x{tokens}", "f32" if step in ("added", "heads", "finite") else "i1"
        mask_map = "affine_map<(h, q, t) -> (h, q, t)>" if many else "affine_map<(h, q, t) -> (q, t)>"
        share = rng.choice([0.1, 0.5, 0.9])

        def row():
            hidden = {"finite": "-1.5", "added": INFINITE, "heads": INFINITE, "shown": "false", "hidden": "true"}.get(step, "false")
            seen = {"hidden": "false", "shown": "true"}.get(step, "0.0")
            return "[" + ", ".join(hidden if rng.random() < share else seen for _ in range(tokens)) + "]"

        values = "[" + ", ".join(row() for _ in range(queries)) + "]"
        body = {"added": "%r = arith.addf %a, %m : f32", "shown": "%r = arith.select %m, %a, %none : f32", "hidden": "%r = arith.select %m, %none, %a : f32"}
        mask = f"tensor<{shape}x{element}>"
        inside = [f"  {body.get(step, body['added'])}"]
        inputs, maps, arguments = f"{score}, {made}m : {scores}, {mask}", f"#h, {mask_map}, #h", f"%a: f32, %m: {element}, %o: f32"
        if step == "causal":
            inputs, maps, arguments = f"{score} : {scores}", "#h, #h", "%a: f32, %o: f32"
            inside = ["  %i = linalg.index 1 : index", "  %j = linalg.index 2 : index", f"  %reach = arith.constant {rng.randint(-1, tokens)} : index",
                      "  %p = arith.addi %i, %reach : index", "  %later = arith.cmpi sgt, %j, %p : index", "  %r = arith.select %later, %none, %a : f32"]
        else:
            lines.append(f"{made}m = arith.constant dense<{'[' + ', '.join([values] * total) + ']' if many else values}> : {mask}")
        lines += [f"{made} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\", \"parallel\", \"parallel\"]}} "
                  f"ins({inputs}) outs({name('es')} : {scores}) {{".replace("#h", "affine_map<(h, q, t) -> (h, q, t)>"),
                  f"^bb0({arguments}):", f"  %none = arith.constant {INFINITE} : f32", *inside, "  linalg.yield %r : f32", f"}} -> {scores}"]
        score = made
    lines.append(f"{name('p')} = linalg.softmax dimension(2) ins({score} : {scores}) outs({name('es')} : {scores}) -> {scores}")
    if batch:
        right = transpose(planes[1], wide, (1, 0, 2))
        moved = f"tensor<{total}x{queries}x{dim}xf32>"
        lines += [f"{name('eo')} = tensor.empty() : {moved}", f"{name('o0')} = linalg.fill ins({name('zero')} : f32) outs({name('eo')} : {moved}) -> {moved}",
                  f"{name('oh')} = linalg.batch_matmul ins({name('p')}, {right[0]} : {scores}, {right[1]}) outs({name('o0')} : {moved}) -> {moved}"]
        result = transpose(name("oh"), moved, (1, 0, 2))[0]
    else:
        lines += [f"{name('eo')} = tensor.empty() : {out}", f"{name('o0')} = linalg.fill ins({name('zero')} : f32) outs({name('eo')} : {out}) -> {out}"]
        result = product([hqtd("h, q, t"), keys, hqtd("q, h, d")], [loops[0], loops[0], loops[3], loops[0]], [(name("p"), scores), (planes[1], rows)],
                         (name("o0"), out))
    lines += [f"{name('n')} = arith.cmpf uno, {result}, {result} : {out}", f"{name('seven')} = arith.constant dense<7.0> : {out}",
              f"{name('r')} = arith.select {name('n')}, {name('seven')}, {result} : {out.replace('xf32>', 'xi1>')}, {out}"]
    # Names in bodies are the chain's own, too.
    inner = re.compile(r"%(x|y|sum|m|a|o|r|none|i|j|reach|p|later)\b")
    return [inner.sub(lambda it: f"%{prefix}_{it.group(1)}", line) for line in lines], (name("r"), out)
