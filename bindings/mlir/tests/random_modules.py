# SPDX-License-Identifier: Apache-2.0
"""random_modules.py COUNT [SEED] (or KVC_TEST_MODULES, KVC_TEST_SEED): random modules of kvc ops, right and wrong ones, through kvc-opt.

Each module is verified, and if it is right, goes through the optimisations, bufferization and both lowerings. Whatever the input, kvc-opt
ends with a result or with diagnostics, never by a signal or an assertion; a module that is built right is accepted. Exit 1 if not; the
module that did it is printed."""
import os
import random
import subprocess
import sys

from dense_chain import chain

ELEMENTS = ["f32", "f16", "bf16"]
SEPARATOR = "// -----\n"
PIPELINES = {
    "calls": "kvc-remove-dead-lookups,kvc-fuse-appends,kvc-fuse-attention{finite-rows=true},loop-invariant-code-motion,kvc-hoist-lookups,kvc-narrow-caches,kvc-choose-layout,"
             "kvc-decompose-softmax,func.func(convert-elementwise-to-linalg),one-shot-bufferize{allow-return-allocs-from-loops=true bufferize-function-boundaries=true},"
             "func.func(kvc-plan-workspace),kvc-to-calls,canonicalize,cse",
    "reference": "kvc-fuse-appends,kvc-decompose-softmax,func.func(convert-elementwise-to-linalg),one-shot-bufferize{allow-return-allocs-from-loops=true bufferize-function-boundaries=true},kvc-remove-dead-lookups,kvc-to-reference,kvc-to-calls",
}


class Module:
    """Text of one module. `wrong` names what was broken on purpose, or is None."""

    def __init__(self, rng, may_be_wrong):
        self.rng, self.lines, self.names, self.wrong = rng, [], 0, None
        self.layers, self.heads, self.dim = rng.randint(1, 3), rng.randint(1, 3), rng.choice([1, 2, 8, 16])
        self.block, self.blocks = rng.choice([1, 2, 4, 16]), rng.randint(1, 64)
        self.element = rng.choice(ELEMENTS)
        self.cache = f"!kvc.paged_cache<{self.element}, {self.layers}, {self.heads}, {self.dim}, {self.block}, {self.blocks}>"
        self.break_at = rng.randint(0, 5) if may_be_wrong and rng.random() < 0.5 else -1
        arguments = [f"%cache: {self.cache}", "%layer: index", "%first: index", "%table: tensor<?xi32>", "%slots: tensor<?xi64>",
                     "%tables: tensor<?x?xi32>", "%lens: tensor<?xi64>", "%offsets: tensor<?xi64>", "%n: index",
                     "%manager: !kvc.manager", "%tokens: memref<?xi32>", "%places: memref<?xi64>", "%bits: tensor<?xi8>", "%floats: tensor<?xf32>"]
        self.add("%c0 = arith.constant 0 : index")
        for at in range(rng.randint(1, 8)):
            self.statement(at == self.break_at)
        self.text = f"func.func @f({', '.join(arguments)}) {{\n" + "\n".join("  " + line for line in self.lines) + "\n  return\n}\n"

    def name(self):
        self.names += 1
        return f"%v{self.names}"

    def add(self, line):
        self.lines.append(line)

    def broken(self, broken, what):
        if broken:
            self.wrong = self.wrong or what
        return broken

    def layer(self, broken):
        if self.rng.random() < 0.5 and not broken:
            return "%layer"
        at, name = self.rng.randrange(self.layers), self.name()
        if self.broken(broken, "layer"):
            at = self.rng.choice([-1, self.layers, self.layers + 7])
        self.add(f"{name} = arith.constant {at} : index")
        return name

    def tensor(self, tokens, heads, element, dim):
        """A tensor of rows with so many tokens; None = %n of them."""
        name = self.name()
        kind = f"tensor<{'?' if tokens is None else tokens}x{heads}x{dim}x{element}>"
        self.add(f"{name} = tensor.empty({'%n' if tokens is None else ''}) : {kind}")
        return name, kind

    def places(self, tokens, broken):
        kind = self.rng.choice(["slots", "table", "constant"])
        if self.broken(broken, "places"):
            return self.rng.choice(["", "slots(%slots : tensor<?xi64>) from %first", "table(%table : tensor<?xi32>)",
                                    "slots(%slots : tensor<?xi64>) table(%table : tensor<?xi32>) from %first", "slots(%table : tensor<?xi32>)"])
        if kind == "table":
            return "table(%table : tensor<?xi32>) from %first"
        if kind == "constant" and tokens:
            name, total = self.name(), self.block * self.blocks
            slots = ", ".join(str(self.rng.randrange(-1, total)) for _ in range(tokens))
            self.add(f"{name} = arith.constant dense<[{slots}]> : tensor<{tokens}xi64>")
            return f"slots({name} : tensor<{tokens}xi64>)"
        return "slots(%slots : tensor<?xi64>)"

    def statement(self, broken):
        kind = self.rng.choice(["append", "append", "append_twice", "lookup", "loop", "attention", "dense", "handles", "own"])
        fault = self.rng.choice(["layer", "shape", "element", "places"]) if broken else None
        getattr(self, kind)(fault)

    def rows(self, fault):
        tokens = self.rng.choice([None, 1, 2, 5])
        element = self.rng.choice(ELEMENTS)
        heads, dim = self.heads, self.dim
        if self.broken(fault == "shape", "shape"):
            heads += 1
        if self.broken(fault == "element", "element"):
            element = self.rng.choice(["f64", "i32", "i8"])
        return tokens, self.tensor(tokens, heads, element, dim), self.tensor(tokens, heads, element, dim)

    def append(self, fault):
        tokens, (k, kind), (v, _) = self.rows(fault)
        places = self.places(tokens, fault == "places")
        layer = self.layer(fault == "layer")
        self.add(f"kvc.append_kv {k}, {v} into %cache[{layer}] {places} : {kind}, {kind} into {self.cache}")

    def append_twice(self, fault):
        """Two appends, the second of which goes on where the first ends; or one token further, or before."""
        _, (k, kind), _ = self.rows(fault)
        layer, tokens, start = self.layer(fault == "layer"), self.name(), self.rng.randint(0, 9)
        if fault == "places":
            return self.append(fault)
        first, second = self.name(), self.name()
        size = kind[len("tensor<"):].split("x")[0]
        self.add(f"{tokens} = arith.constant 0 : index")
        self.add(f"{first} = arith.constant {start} : index")
        if size == "?":
            dim = self.name()
            self.add(f"{dim} = tensor.dim {k}, {tokens} : {kind}")
            self.add(f"{second} = arith.addi {first}, {dim} : index")
        else:
            self.add(f"{second} = arith.constant {max(0, start + int(size) + self.rng.choice([0, 0, 1, -1]))} : index")
        for position in (first, second):
            self.add(f"kvc.append_kv {k}, {k} into %cache[{layer}] table(%table : tensor<?xi32>) from {position} : {kind}, {kind} into {self.cache}")
        return None

    def lookup(self, fault):
        tokens, (k, kind), (v, _) = self.rows(fault)
        places = self.places(tokens, fault == "places")
        layer, result = self.layer(fault == "layer"), self.name()
        self.add(f"{result}:2 = kvc.lookup_kv %cache[{layer}] {places} outs({k}, {v} : {kind}, {kind}) : {self.cache} -> {kind}, {kind}")
        if self.rng.random() < 0.5 and not self.wrong:
            element = kind[:-1].split("x")[-1]
            zero, used, keep = self.name(), self.name(), self.name()
            self.add(f"{zero} = arith.constant 0 : index")
            self.add(f"{used} = tensor.extract {result}#0[{zero}, {zero}, {zero}] : {kind}")
            self.add(f"{keep} = memref.alloc() : memref<{element}>")
            self.add(f"memref.store {used}, {keep}[] : memref<{element}>")

    def loop(self, fault):
        """A lookup in a loop, which may write, or have no iteration."""
        if fault:
            return self.lookup(fault)
        tokens, (k, kind), (v, _) = self.rows(None)
        places, layer = self.places(tokens, False), self.layer(False)
        zero, one, result = self.name(), self.name(), self.name()
        self.add(f"{zero} = arith.constant 0 : index")
        self.add(f"{one} = arith.constant {self.rng.randint(1, 3)} : index")
        self.add(f"{result} = scf.for %i = {zero} to {self.rng.choice(['%n', one])} step {one} iter_args(%x = {k}) -> {kind} {{")
        self.add(f"  %r:2 = kvc.lookup_kv %cache[{layer}] {places} outs({k}, {v} : {kind}, {kind}) : {self.cache} -> {kind}, {kind}")
        if self.rng.random() < 0.5:
            self.add(f"  kvc.append_kv {k}, {v} into %cache[{layer}] {places} : {kind}, {kind} into {self.cache}")
        self.add(f"  scf.yield %r#0 : {kind}")
        self.add("}")
        return None

    def attention(self, fault):
        queries, heads = self.rng.choice([None, 1, 3]), self.heads * self.rng.randint(1, 4)
        element, dim = self.rng.choice(ELEMENTS), self.dim
        if self.broken(fault == "shape", "shape"):
            heads = self.rng.choice([0, heads * 2 + 1]) if self.heads > 1 else 0
        if self.broken(fault == "element", "element"):
            element = "f64"
        q, kind = self.tensor(queries, heads, element, dim)
        o, _ = self.tensor(queries, heads, element, dim)
        attributes = []
        if self.rng.random() < 0.3:
            attributes.append(f"window = {self.rng.randint(1, 9)}")
            if self.rng.random() < 0.5:
                attributes.append("sinks = 2")
        elif self.broken(fault == "places", "sinks"):
            attributes.append(self.rng.choice(["sinks = 2", "window = -3", "soft_cap = -1.0 : f32", "scale = 0x7FC00000 : f32"]))
        elif self.rng.random() < 0.3:
            attributes.append("bidirectional")
        offsets = "offsets(%offsets : tensor<?xi64>) " if self.rng.random() < 0.7 else ""
        if self.rng.random() < 0.2:
            offsets += "mask(%bits : tensor<?xi8>) mask_offsets(%lens : tensor<?xi64>) "
            offsets += self.rng.choice(["", "mask_starts(%offsets : tensor<?xi64>) "])
        elif fault == "places" and self.rng.random() < 0.3 and self.broken(True, "mask"):
            offsets += "mask_starts(%offsets : tensor<?xi64>) "
        offsets += self.rng.choice(["", "", "sink_logits(%floats : tensor<?xf32>) "]) + self.rng.choice(["", "", "alibi_slopes(%floats : tensor<?xf32>) "])
        layer, result = self.layer(fault == "layer"), self.name()
        self.add(f"{result} = kvc.paged_attention {q}, %cache[{layer}] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) {offsets}"
                 f"outs({o} : {kind}){' {' + ', '.join(attributes) + '}' if attributes else ''} : {kind}, {self.cache} -> {kind}")

    def dense(self, fault):
        """Dense attention over a gather, with a write in it or without."""
        if fault:
            return self.attention(fault)
        tokens, queries, group = self.rng.randint(1, 5), self.rng.randint(1, 3), self.rng.randint(1, 2)
        q, _ = self.tensor(queries, self.heads * group, "f32", self.dim)
        k, kind = self.tensor(2, self.heads, self.rng.choice(ELEMENTS), self.dim)
        write = f"kvc.append_kv {k}, {k} into %cache[%layer] table(%table : tensor<?xi32>) from %first : {kind}, {kind} into {self.cache}"
        lines, result = chain(self.rng, self.name()[1:], self.cache, self.layer(False), ("%table", "tensor<?xi32>"), tokens, self.heads, self.dim, group, q,
                              queries, write if self.rng.random() < 0.2 else None)
        for line in lines:
            self.add(line)
        kept = self.name()
        self.add(f"{kept} = bufferization.to_memref {result[0]} : {result[1].replace('tensor', 'memref')}")
        self.add(f"{kept}x = memref.load {kept}[%c0, %c0, %c0] : {result[1].replace('tensor', 'memref')}")
        self.add(f"{kept}a = memref.alloc() : memref<f32>")
        self.add(f"memref.store {kept}x, {kept}a[] : memref<f32>")
        return None

    def handles(self, fault):
        request, cached, status = self.name(), self.name(), self.name()
        if self.broken(fault is not None, "handles"):
            self.add(self.rng.choice([f"{status} = kvc.commit %manager, %manager, %n", f"{status} = kvc.free %cache, %manager",
                                      f"{request} = kvc.create_manager blocks = 0, block_size = 4", f"kvc.require %layer",
                                      f"{status} = kvc.slots %manager, %layer from %first into %places : memref<?xi64>"]))
            return
        self.add(f"{request}, {cached}, {status} = kvc.allocate %manager, %tokens : memref<?xi32>")
        self.add(f"kvc.require {status}")
        for line in self.rng.sample(["= kvc.append %manager, {r}, %tokens : memref<?xi32>", "= kvc.commit %manager, {r}, %n",
                                     "= kvc.slots %manager, {r} from %first into %places : memref<?xi64>", "= kvc.free %manager, {r}",
                                     ], self.rng.randint(0, 4)):
            self.add(f"{self.name()} " + line.format(r=request))

    def own(self, fault):
        name = self.name()
        if self.broken(fault is not None, "type"):
            kind = self.rng.choice(["<f64, 1, 1, 1, 1, 1>", "<f16, 0, 1, 1, 1, 1>", "<f16, 1, 1, 1>", "<>", "<f16, 1, 1, 99999, 1, 1>", "<f16, 1, 1, 1, 1, -1>"])
            self.add(f"{name} = kvc.create_cache : !kvc.paged_cache{kind}")
            return
        tiled = self.block % 16 == 0 and self.dim * (32 if self.element == "f32" else 16) % 32 == 0 and self.rng.random() < 0.5
        self.add(f"{name} = kvc.create_cache {'{tiled_keys} ' if tiled else ''}: {self.cache}")
        if self.rng.random() < 0.5:
            q, kind = self.tensor(None, self.heads, "f32", self.dim)
            self.add(f"{name}o = kvc.paged_attention {q}, {name}[%c0] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>) outs({q} : {kind})"
                     f" : {kind}, {self.cache} -> {kind}")
        self.add(f"kvc.destroy_cache {name} : {self.cache}")


def scrambled(rng, text):
    """A text in which some characters or words are lost or doubled. MLIR's own parser of linalg ends by a signal for some texts, so its lines
    stay."""
    for _ in range(rng.randint(1, 3)):
        while True:
            at = rng.randrange(len(text))
            end = min(len(text), at + rng.choice([1, 2, 7, 30]))
            if "linalg." not in text[text.rfind("\n", 0, at) + 1 : text.find("\n", end) + 1]:
                break
        text = rng.choice([text[:at] + text[end:], text[:end] + text[at:end] + text[end:], text[:at] + rng.choice("<>{}()%[]:,=-0x?") + text[end:]])
    return text


def run(text, pipeline):
    command = ["kvc-opt", "-split-input-file", "-o", "/dev/null"]
    if pipeline:
        command.append(f"--pass-pipeline=builtin.module({PIPELINES[pipeline]})")
    return subprocess.run(command, input=text, capture_output=True, text=True, errors="replace")


def blame(texts, pipeline, bad):
    """Prints the first text alone that is bad."""
    for text in texts:
        result = run(text, pipeline)
        if bad(result):
            print(f"pipeline {pipeline}: kvc-opt exits with {result.returncode}\n{text}\n{result.stderr[:2000]}")
            return
    print(f"pipeline {pipeline}: only all {len(texts)} modules together show it")


def main():
    count = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KVC_TEST_MODULES", "200"))
    seed = int(sys.argv[2] if len(sys.argv) > 2 else os.environ.get("KVC_TEST_SEED", "1"))
    rng = random.Random(seed)
    accepted = refused = noise = done = 0
    while done < count:
        size = min(count - done, 200)
        right, wrong, texts = [], [], []
        for _ in range(size):
            module = Module(rng, may_be_wrong=True)
            if rng.random() < 0.2:
                texts.append(scrambled(rng, module.text))
            else:
                (wrong if module.wrong else right).append(module.text)
        # Right ones must pass, by both lowerings.
        for pipeline in PIPELINES:
            if run(SEPARATOR.join(right), pipeline).returncode != 0:
                blame(right, pipeline, lambda it: it.returncode != 0)
                sys.exit(1)
        # Each wrong one must be refused, and nothing may crash. A module after a wrong one is still read.
        for group, what in ((wrong, "wrong"), (texts, "scrambled")):
            result = run(SEPARATOR.join(group), "calls")
            if result.returncode not in (0, 1) or "Stack dump" in result.stderr:
                blame(group, "calls", lambda it: it.returncode not in (0, 1) or "Stack dump" in it.stderr)
                sys.exit(1)
            errors = {line.split(" offset ")[0] for line in result.stderr.splitlines() if ": error:" in line and "within split at" in line}
            if what == "wrong" and len(errors) != len(group):
                blame(group, None, lambda it: it.returncode == 0)
                print(f"{len(group)} wrong modules, {len(errors)} refused")
                sys.exit(1)
        accepted, refused, noise, done = accepted + len(right), refused + len(wrong), noise + len(texts), done + size
    print(f"{done} modules, seed {seed}: {accepted} accepted, {refused} refused, {noise} scrambled, no crash")


main()
