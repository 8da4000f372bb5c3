// SPDX-License-Identifier: Apache-2.0
// The passes of the kvc dialect.
#ifndef KVC_PASSES_TD
#define KVC_PASSES_TD

include "mlir/Pass/PassBase.td"

def KvcToCalls : Pass<"kvc-to-calls", "::mlir::ModuleOp"> {
  let summary = "Lowers all kvc ops on memrefs to calls of the C interface.";
  let description = [{
    Handles and caches become pointers, requests their ids. Functions that the module calls are declared as the
    public headers declare them. Run it after bufferization.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def KvcToReference : Pass<"kvc-to-reference", "::mlir::ModuleOp"> {
  let summary = "Lowers caches to memrefs, and ops on them to loops: a reference that can be executed.";
  let description = [{
    Works in float64, one query after the other, and needs no library. Handles stay for `kvc-to-calls`. Caches have
    elements of f32, f16 or bf16. Run it after bufferization.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def KvcRemoveDeadLookups : Pass<"kvc-remove-dead-lookups"> {
  let summary = "Removes lookups and attention whose results nobody reads.";
  let description = "Also those that write memrefs of this function that nobody reads, with these memrefs.";
}

def KvcFuseAppends : Pass<"kvc-fuse-appends"> {
  let summary = "Makes one append of consecutive ones to one layer of a cache.";
  let description = [{
    Concatenates the rows of two appends of tensors to the same cache and layer, if the second continues the first: by
    the same block table from the position where the first ends; or by constant slots that differ. No append is
    dropped. Nothing with an effect on memory stands between them: no other access to any cache, no call, no write.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def KvcHoistLookups : Pass<"kvc-hoist-lookups"> {
  let summary = "Does a gather once, before a loop, that finds the same in each iteration.";
  let description = [{
    Moves lookups of tensors out of `scf.for`, if cache, layer, slots or table and destinations are defined outside, and
    nothing in the loop writes memory, calls or frees. A loop that may have no iteration gets the lookup inside an `scf.if`.
    `loop-invariant-code-motion` before it moves what the lookup needs; `cse` makes one of equal lookups.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def KvcFuseAttention : Pass<"kvc-fuse-attention"> {
  let summary = "Makes one kvc.paged_attention of a gather and dense attention over what it gathered.";
  let description = [{
    The chain is a lookup by a block table from 0; scores, a product of f32 by `linalg.generic`, `linalg.batch_matmul` or
    the like; constant factors and masks, if any; `linalg.softmax`; and a product with the values. Dimensions may have any
    order, transpositions, broadcasts and reshapes may stand between, and query heads may share KV heads. Nothing between
    its ops writes memory. If it is not known that there are at most as many queries as tokens, a branch keeps the chain.
    The sums may round in another order.

    A mask is added, or chooses -infinity by `arith.select`, and is the same for all heads. With one the program packs its
    bits, and a branch keeps the chain unless all that is added is 0 or -infinity and each query sees a token. Where a
    mask hides a token, the chain still carries a NaN or an infinity of its rows to the result, and the op does not read
    them: so chains with masks stay unless the option `finite-rows` says that queries and rows are finite.
  }];
  let options = [Option<"finite_rows", "finite-rows", "bool", "false",
                        "Queries and rows of caches are finite: fuse chains with masks too.">];
  let dependentDialects = ["::mlir::kvc::KvcDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def KvcDecomposeSoftmax : Pass<"kvc-decompose-softmax"> {
  let summary = "Makes linalg.generic ops of linalg.softmax on tensors, for which MLIR 19 has no pass.";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def KvcNarrowCaches : Pass<"kvc-narrow-caches"> {
  let summary = "Makes a cache of f32 one of f16 or bf16, if it holds nothing but rows of that type.";
  let description = [{
    For caches of `kvc.create_cache` whose only users are appends, lookups, attention and `kvc.destroy_cache`. All
    appended rows have the same type of 16 bits, so a lookup gives the same numbers, in half of the memory.
  }];
}

def KvcChooseLayout : Pass<"kvc-choose-layout"> {
  let summary = "Puts the keys of a cache into tiles, if attention reads it and nobody sees where they lie.";
  let description = [{
    For caches of `kvc.create_cache` whose only users are appends, lookups, attention and `kvc.destroy_cache`, and whose
    shape takes `tiled_keys`. Run it behind `kvc-narrow-caches`.
  }];
}

def KvcPlanWorkspace : Pass<"kvc-plan-workspace", "::mlir::func::FuncOp"> {
  let summary = "Gives the buffers of a function one allocation, in which those share memory that are never in use together.";
  let description = [{
    Takes `memref.alloc`, in loops too, if the memory is not in use after its block, and is not returned, passed to a
    call, adopted or stored. A dynamic size must be known when the function begins (an argument, a dimension of one, or
    arithmetic of them), and its buffer be allocated whenever the function runs: not in a branch, or in a loop that may
    have no iteration. Buffers of dynamic size share memory among themselves alone, so a workspace may be larger than
    what the function had in use at a time. The workspace is allocated at the beginning, and freed where the function returns; deallocations
    of the buffers go. Run it after bufferization and before the lowerings.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def KvcImportLlm : Pass<"kvc-import-llm", "::mlir::ModuleOp"> {
  let summary = "Imports LLMIR's llm.append_kv, llm.lookup_kv and llm.paged_attention.";
  let description = [{
    Each function with such ops gets two arguments behind its own: the slots of the tokens that its appends write, and
    the block tables of its batch. Both come from the manager of an engine; llm's ops allocate blocks themselves.
    A layer is the op's attribute `layer`, or 0 in a cache of one layer.
  }];
  let options = [Option<"blocks", "blocks", "int64_t", "0", "Blocks of the cache, which llm's type does not have.">];
  let dependentDialects = ["::mlir::kvc::KvcDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif  // KVC_PASSES_TD
