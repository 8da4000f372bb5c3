// SPDX-License-Identifier: Apache-2.0
// What both lowerings need: functions given as text, and checks of what the verifiers cannot see.
#pragma once
#include <mlir/IR/BuiltinOps.h>
#include <mlir/Transforms/DialectConversion.h>

#include "Passes.h"

namespace mlir::kvc {

// Puts the functions and globals of a text into the module, unless it has those names.
LogicalResult insert_functions(ModuleOp module, StringRef text);

// A lowering handles ops in functions of the module itself; others get a diagnostic.
LogicalResult check_placement(ModuleOp module);

// Declares and defines what the code of a failed check calls.
LogicalResult insert_failure(ModuleOp module);

// The program ends with the text, unless the condition holds when it runs.
void emit_check(OpBuilder& b, Location loc, Value condition, const Twine& text);

// Sizes that are static are verified; this emits the checks of those that are not, of the layer, and that
// offsets stay within the queries. The op has memrefs.
void emit_shape_checks(OpBuilder& b, CacheOpInterface op);

// The program ends unless the last dimension of a memref is contiguous, if its type does not say so.
void emit_contiguous_check(OpBuilder& b, Operation* op, Value memref, Value last_stride);

// Whether memory certainly stays as it is while the op runs, with all that is in it. Caches may share memory
// with each other, and with memrefs that they adopted: any write counts.
bool only_reads(Operation* op);

// Whether a cache is only used by ops on its rows: no call, branch or memref sees it.
bool seen_by_rows_alone(CreateCacheOp create);

// Patterns and legality for functions, calls and control flow whose values have types that `types` converts.
void add_structural_conversions(TypeConverter& types, RewritePatternSet& patterns, ConversionTarget& target);

// The memref of a cache: [layers][blocks][key, value][kv_heads][block][head_dim].
MemRefType memref_of(PagedCacheType cache);

}  // namespace mlir::kvc
