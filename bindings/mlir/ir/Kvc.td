// SPDX-License-Identifier: Apache-2.0
// The kvc dialect: its types, the interface of ops that use a cache, and its ops on two levels. Handles call the
// block manager; tensor-level ops read and write a cache. docs/MLIR.md is the manual.
#ifndef KVC_TD
#define KVC_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kvc_Dialect : Dialect {
  let name = "kvc";
  let summary = "The KV cache of a language model: blocks, their manager, and paged attention.";
  let cppNamespace = "::mlir::kvc";
  let useDefaultTypePrinterParser = 1;
}

// ---- types

class Kvc_Type<string name, string mnemonic_, list<Trait> traits = []> : TypeDef<Kvc_Dialect, name, traits> {
  let mnemonic = mnemonic_;
}

class Kvc_Handle<string name, string mnemonic_, string cType>
    : Kvc_Type<name, mnemonic_>, BuildableType<"$_builder.getType<::mlir::kvc::" # name # "Type>()"> {
  let description = "A `" # cType # "` of the C interface.";
}

def Kvc_Manager : Kvc_Handle<"Manager", "manager", "kvc_manager *"> {
  let summary = "A block manager: which block holds which tokens.";
}
def Kvc_Request : Kvc_Handle<"Request", "request", "uint64_t"> {
  let summary = "A request of a manager.";
}
def Kvc_Storage : Kvc_Handle<"Storage", "storage", "kvc_storage *"> {
  let summary = "A storage of unknown shape, as an engine passes it to a compiled function.";
}

def Kvc_PagedCache : Kvc_Type<"PagedCache", "paged_cache"> {
  let summary = "Memory for keys and values in blocks, with its shape.";
  let description = [{
    `!kvc.paged_cache<f16, layers, kv_heads, head_dim, block, blocks>` holds keys and values of element type f16 in
    `blocks` blocks of `block` tokens, of all layers. It is a reference: ops read and write it in place, in program
    order. Element types: f32, f16, bf16, f8E4M3FN, f8E5M2, i8, i4; integers have a scale per row.
  }];
  let parameters = (ins "::mlir::Type":$elementType, "int64_t":$layers, "int64_t":$kvHeads, "int64_t":$headDim,
                        "int64_t":$blockSize, "int64_t":$numBlocks);
  let assemblyFormat = [{
    `<` $elementType `,` $layers `,` $kvHeads `,` $headDim `,` $blockSize `,` $numBlocks `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = "bool takesTiledKeys() const;";
}

// ---- operands

// A tensor, or after bufferization a memref.
class Kvc_Shaped<list<Type> elements, int rank> : AnyTypeOf<[
  TensorRankOf<elements, [rank]>, MemRefRankOf<elements, [rank]>
]>;

def Kvc_Rows : Kvc_Shaped<[F32, F16, BF16], 3>;
def Kvc_Slots : Kvc_Shaped<[I64], 1>;
def Kvc_Table : Kvc_Shaped<[I32], 1>;
def Kvc_Tables : Kvc_Shaped<[I32], 2>;
def Kvc_Counts : Kvc_Shaped<[I64], 1>;
def Kvc_Bits : Kvc_Shaped<[I8], 1>;
def Kvc_Logits : Kvc_Shaped<[F32], 1>;

// ---- interface

def Kvc_CacheOpInterface : OpInterface<"CacheOpInterface"> {
  let cppNamespace = "::mlir::kvc";
  let description = [{
    An op that reads or writes one layer of a cache. Passes ask it instead of naming ops.
  }];
  let methods = [
    InterfaceMethod<"The cache.", "::mlir::TypedValue<::mlir::kvc::PagedCacheType>", "getCache">,
    InterfaceMethod<"Its layer.", "::mlir::Value", "getLayer">,
    InterfaceMethod<"Whether it writes to the cache, instead of reading it.", "bool", "writesCache">
  ];
}

// ---- handles

class Kvc_Op<string name, list<Trait> traits = []> : Op<Kvc_Dialect, name, traits>;

def Kvc_CreateManagerOp : Kvc_Op<"create_manager"> {
  let summary = "Creates a block manager (kvc_manager_create).";
  let description = [{
    ```mlir
    %manager = kvc.create_manager blocks = 64, block_size = 16
    ```
    A failure ends the program with the library's text.
  }];
  let arguments = (ins I64Attr:$num_blocks, I64Attr:$block_size);
  let results = (outs Res<Kvc_Manager, "", [MemAlloc]>:$manager);
  let assemblyFormat = "`blocks` `=` $num_blocks `,` `block_size` `=` $block_size attr-dict";
  let hasVerifier = 1;
}

def Kvc_DestroyManagerOp : Kvc_Op<"destroy_manager"> {
  let summary = "Frees a manager with all its requests (kvc_manager_destroy).";
  let arguments = (ins Arg<Kvc_Manager, "", [MemFree]>:$manager);
  let assemblyFormat = "$manager attr-dict";
}

def Kvc_AllocateOp : Kvc_Op<"allocate"> {
  let summary = "Creates a request and admits it (kvc_manager_allocate_request).";
  let description = [{
    ```mlir
    %request, %cached, %status = kvc.allocate %manager, %tokens : memref<?xi32>
    ```
    `%cached` tokens of the prompt are in the cache: compute those from there on. The status is a `kvc_status`: 0, or
    there is no request. `kvc.require` ends the program if it is not 0.
  }];
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead, MemWrite]>:$manager,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemRead]>:$tokens);
  let results = (outs Kvc_Request:$request, Index:$cached, I32:$status);
  let assemblyFormat = "$manager `,` $tokens attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def Kvc_AppendOp : Kvc_Op<"append"> {
  let summary = "Appends known tokens to a request, with slots for them (kvc_manager_append_tokens).";
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead, MemWrite]>:$manager, Kvc_Request:$request,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemRead]>:$tokens);
  let results = (outs I32:$status);
  let assemblyFormat = "$manager `,` $request `,` $tokens attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def Kvc_CommitOp : Kvc_Op<"commit"> {
  let summary = "States that the first `count` tokens of a request are written (kvc_manager_commit_tokens).";
  let description = "Full blocks can be hit from then on. The count is absolute.";
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead, MemWrite]>:$manager, Kvc_Request:$request, Index:$count);
  let results = (outs I32:$status);
  let assemblyFormat = "$manager `,` $request `,` $count attr-dict";
}

def Kvc_LookupOp : Kvc_Op<"lookup"> {
  let summary = "Tells how many tokens of a prompt are in the cache, and changes nothing (kvc_manager_probe).";
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead]>:$manager,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemRead]>:$tokens);
  let results = (outs Index:$cached, I32:$status);
  let assemblyFormat = "$manager `,` $tokens attr-dict `:` type($tokens)";
  let hasVerifier = 1;
}

def Kvc_FreeOp : Kvc_Op<"free"> {
  let summary = "Frees a request (kvc_manager_free_request). What it committed stays cached.";
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead, MemWrite]>:$manager, Kvc_Request:$request);
  let results = (outs I32:$status);
  let assemblyFormat = "$manager `,` $request attr-dict";
}

def Kvc_SlotsOp : Kvc_Op<"slots"> {
  let summary = "Writes the slots of tokens `first` and following of a request (kvc_manager_export_slots).";
  let description = [{
    ```mlir
    %status = kvc.slots %manager, %request from %first into %slots : memref<?xi64>
    ```
    As many as `%slots` has elements. They are operands of `kvc.append_kv` and `kvc.lookup_kv`.
  }];
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead]>:$manager, Kvc_Request:$request, Index:$first,
                       Arg<MemRefRankOf<[I64], [1]>, "", [MemWrite]>:$slots);
  let results = (outs I32:$status);
  let assemblyFormat = "$manager `,` $request `from` $first `into` $slots attr-dict `:` type($slots)";
  let hasVerifier = 1;
}

def Kvc_BlockTableOp : Kvc_Op<"block_table"> {
  let summary = "Writes the block table of a request (kvc_manager_export_tables).";
  let description = [{
    ```mlir
    %status = kvc.block_table %manager, %request into %table : memref<?xi32>
    ```
    Entries without a block become -1. A row of a table of several requests is a `memref.subview`.
  }];
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead]>:$manager, Kvc_Request:$request,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemWrite]>:$table);
  let results = (outs I32:$status);
  let assemblyFormat = "$manager `,` $request `into` $table attr-dict `:` type($table)";
  let hasVerifier = 1;
}

def Kvc_StepOp : Kvc_Op<"step"> {
  let summary = "One engine step of running requests: commits, extends, and writes tables (kvc_manager_step).";
  let description = [{
    ```mlir
    %status = kvc.step %manager commit(%requests, %committed) extend(%offsets, %tokens)
        into(%tables, %slots, %statuses)
        : memref<?xi64>, memref<?xi64>, memref<?xi64>, memref<?xi32>, memref<?x?xi32>, memref<?xi64>, memref<?xi32>
    ```
    Commits `%committed[i]` tokens of request i, then appends `%tokens[%offsets[i] .. %offsets[i + 1])` to it. Row i
    of `%tables` becomes its table, `%slots` the slots of the appended tokens, `%statuses[i]` its own `kvc_status`.
    The result is the status of the call. Earlier steps are finished: the program is synchronous. Copies that a step
    asks for (of blocks that requests share) are refused with BUFFER_TOO_SMALL.
  }];
  let arguments = (ins Arg<Kvc_Manager, "", [MemRead, MemWrite]>:$manager,
                       Arg<MemRefRankOf<[I64], [1]>, "", [MemRead]>:$requests,
                       Arg<MemRefRankOf<[I64], [1]>, "", [MemRead]>:$committed,
                       Arg<MemRefRankOf<[I64], [1]>, "", [MemRead]>:$offsets,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemRead]>:$tokens,
                       Arg<MemRefRankOf<[I32], [2]>, "", [MemWrite]>:$tables,
                       Arg<MemRefRankOf<[I64], [1]>, "", [MemWrite]>:$slots,
                       Arg<MemRefRankOf<[I32], [1]>, "", [MemWrite]>:$statuses);
  let results = (outs I32:$status);
  let assemblyFormat = [{
    $manager `commit` `(` $requests `,` $committed `)` `extend` `(` $offsets `,` $tokens `)` `into` `(` $tables `,`
    $slots `,` $statuses `)` attr-dict `:` type($requests) `,` type($committed) `,` type($offsets) `,` type($tokens)
    `,` type($tables) `,` type($slots) `,` type($statuses)
  }];
  let hasVerifier = 1;
}

def Kvc_RequestIdOp : Kvc_Op<"request_id", [Pure]> {
  let summary = "The id of a request as a number, for arrays of requests.";
  let arguments = (ins Kvc_Request:$request);
  let results = (outs I64:$id);
  let assemblyFormat = "$request attr-dict";
}

def Kvc_RequireOp : Kvc_Op<"require"> {
  let summary = "Ends the program with the library's text if a status is not 0.";
  let arguments = (ins I32:$status);
  let assemblyFormat = "$status attr-dict";
}

// ---- caches

def Kvc_CreateCacheOp : Kvc_Op<"create_cache"> {
  let summary = "Creates a cache in memory of its own, all zero (kvc_storage_create).";
  let description = [{
    ```mlir
    %cache = kvc.create_cache {tiled_keys} : !kvc.paged_cache<f16, 32, 8, 128, 16, 4096>
    ```
    With `tiled_keys` the keys lie in tiles, for attention on the CPU (KVC_STORAGE_TILED_KEYS): for elements of
    f32, f16 or bf16, blocks of a multiple of 16 tokens, and keys of a multiple of 4 bytes. `kvc.export_memref` refuses such a
    cache. `kvc-choose-layout` sets it.
  }];
  let arguments = (ins UnitAttr:$tiled_keys);
  let results = (outs Res<Kvc_PagedCache, "", [MemAlloc]>:$cache);
  let assemblyFormat = "attr-dict `:` qualified(type($cache))";
  let hasVerifier = 1;
}

def Kvc_AdoptMemRefOp : Kvc_Op<"adopt_memref"> {
  let summary = "A cache in the memory of a memref; nothing is copied (kvc_storage_config.memory).";
  let description = [{
    ```mlir
    %cache = kvc.adopt_memref %memory : memref<2x64x2x2x16x32xf16> to !kvc.paged_cache<f16, 2, 2, 32, 16, 64>
    ```
    The memref is [layers][blocks][key, value][kv_heads][block][head_dim], is aligned to 16 bytes, and outlives the
    cache. Both see each other's writes.
  }];
  let arguments = (ins Arg<MemRefRankOf<[F32, F16, BF16], [6]>, "", [MemRead, MemWrite]>:$memory);
  let results = (outs Res<Kvc_PagedCache, "", [MemAlloc]>:$cache);
  let assemblyFormat = "$memory attr-dict `:` type($memory) `to` qualified(type($cache))";
  let hasVerifier = 1;
}

def Kvc_ExportMemRefOp : Kvc_Op<"export_memref"> {
  let summary = "The memory of a cache as a memref of the shape that `kvc.adopt_memref` takes; nothing is copied.";
  let description = "Valid until the cache is destroyed. Ops on the memref must not run before earlier ops on the cache.";
  let arguments = (ins Arg<Kvc_PagedCache, "", [MemRead, MemWrite]>:$cache);
  let results = (outs MemRefRankOf<[F32, F16, BF16], [6]>:$memory);
  let assemblyFormat = "$cache attr-dict `:` qualified(type($cache)) `to` type($memory)";
  let hasVerifier = 1;
}

def Kvc_CacheOfOp : Kvc_Op<"cache_of"> {
  let summary = "An engine's storage as a cache of a known shape.";
  let description = [{
    ```mlir
    %cache = kvc.cache_of %storage : !kvc.paged_cache<f16, 32, 8, 128, 16, 4096>
    ```
    Ends the program if the storage has another shape or element type.
  }];
  let arguments = (ins Arg<Kvc_Storage, "", [MemRead, MemWrite]>:$storage);
  let results = (outs Kvc_PagedCache:$cache);
  let assemblyFormat = "$storage attr-dict `:` qualified(type($cache))";
}

def Kvc_DestroyCacheOp : Kvc_Op<"destroy_cache"> {
  let summary = "Frees a cache of `kvc.create_cache` or `kvc.adopt_memref` (kvc_storage_destroy). Adopted memory stays.";
  let arguments = (ins Arg<Kvc_PagedCache, "", [MemFree]>:$cache);
  let assemblyFormat = "$cache attr-dict `:` qualified(type($cache))";
}

// ---- tensor level

class Kvc_CacheOp<string name, list<Trait> traits = []> : Kvc_Op<name, !listconcat(traits, [
  DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, DeclareOpInterfaceMethods<DestinationStyleOpInterface>,
  Kvc_CacheOpInterface
])> {
  let hasVerifier = 1;
}


def Kvc_AppendKvOp : Kvc_CacheOp<"append_kv", [AttrSizedOperandSegments]> {
  let extraClassDeclaration = "bool writesCache() { return true; }";
  let summary = "Writes keys and values of tokens to their slots in one layer (kvc_storage_store).";
  let description = [{
    ```mlir
    kvc.append_kv %k, %v into %cache[%layer] slots(%slots : tensor<?xi64>)
        : tensor<?x8x128xf16>, tensor<?x8x128xf16> into !kvc.paged_cache<f16, 32, 8, 128, 16, 4096>
    kvc.append_kv %k, %v into %cache[%layer] table(%table : tensor<?xi32>) from %first : ...
    ```
    Keys and values are [tokens][kv_heads][head_dim] of f32, f16 or bf16, converted to the element type of the cache.
    Where they go: `slots` [tokens], block * block_size + offset, -1 = skip the token; or the block `table` of a
    request, where token t is at position `first` + t. No two tokens of an op have the same slot. It writes in place
    and has no result.
  }];
  let arguments = (ins Kvc_Rows:$keys, Kvc_Rows:$values, Kvc_PagedCache:$cache, Index:$layer,
                       Optional<Kvc_Slots>:$slots, Optional<Kvc_Table>:$table, Optional<Index>:$first);
  let assemblyFormat = [{
    $keys `,` $values `into` $cache `[` $layer `]` (`slots` `(` $slots^ `:` type($slots) `)`)?
    (`table` `(` $table^ `:` type($table) `)`)? (`from` $first^)? attr-dict
    `:` type($keys) `,` type($values) `into` qualified(type($cache))
  }];
}

def Kvc_LookupKvOp : Kvc_CacheOp<"lookup_kv", [AttrSizedOperandSegments]> {
  let extraClassDeclaration = "bool writesCache() { return false; }";
  let summary = "Gathers keys and values of tokens from their slots in one layer (kvc_storage_gather).";
  let description = [{
    ```mlir
    %k, %v = kvc.lookup_kv %cache[%layer] slots(%slots : tensor<?xi64>)
        outs(%k0, %v0 : tensor<?x8x128xf16>, tensor<?x8x128xf16>)
        : !kvc.paged_cache<f16, 32, 8, 128, 16, 4096> -> tensor<?x8x128xf16>, tensor<?x8x128xf16>
    ```
    Destination style; slots, table and types as in `kvc.append_kv`. Rows of a slot -1 keep what they had.
  }];
  let arguments = (ins Kvc_PagedCache:$cache, Index:$layer, Optional<Kvc_Slots>:$slots, Optional<Kvc_Table>:$table,
                       Optional<Index>:$first, Kvc_Rows:$keys, Kvc_Rows:$values);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $cache `[` $layer `]` (`slots` `(` $slots^ `:` type($slots) `)`)? (`table` `(` $table^ `:` type($table) `)`)?
    (`from` $first^)? `outs` `(` $keys `,` $values `:` type($keys) `,` type($values) `)` attr-dict
    `:` qualified(type($cache)) (`->` type($results)^)?
  }];
}

def Kvc_PagedAttentionOp : Kvc_CacheOp<"paged_attention", [AttrSizedOperandSegments]> {
  let extraClassDeclaration = "bool writesCache() { return false; }";
  let summary = "Attention of queries to keys and values in blocks: prefill and decode (kvc_storage_attend).";
  let description = [{
    ```mlir
    %o = kvc.paged_attention %q, %cache[%layer] tables(%tables : tensor<?x?xi32>) lens(%lens : tensor<?xi64>)
        offsets(%offsets : tensor<?xi64>) outs(%o0 : tensor<?x32x128xf16>) {window = 4096}
        : tensor<?x32x128xf16>, !kvc.paged_cache<f16, 32, 8, 128, 16, 4096> -> tensor<?x32x128xf16>
    ```
    Destination style. Queries are [queries][q_heads][head_dim] of f32, f16 or bf16; q_heads is a multiple of
    kv_heads, and query head h reads KV head h / (q_heads / kv_heads). Request r has the block table `tables[r]`, and
    `lens[r]` tokens in the cache, those of its queries included. Its queries are `offsets[r]` .. `offsets[r + 1] - 1`,
    and are its last tokens; without `offsets` each request has one query. Each sees the positions up to its own, or
    with `bidirectional` all.

    Optional: `scale` (0 = 1 / sqrt(head_dim)); `soft_cap` (0 = off); `window` positions that a query sees, itself
    included (0 = all), with `sinks` first positions; `mask`, a bit for each query and position of request r from bit
    `mask_offsets[r]` on, the lowest bit of a byte first, or with `mask_starts` only for positions from `mask_starts[r]`
    on: a tree of draft tokens after a long context, as kvc_tree_mask writes it; `sink_logits` [q_heads], a logit without
    a value; `alibi_slopes` [q_heads], whose product with (key position - query position) is added to the logit.
  }];
  let arguments = (ins Kvc_Rows:$queries, Kvc_PagedCache:$cache, Index:$layer, Kvc_Tables:$tables, Kvc_Counts:$lens,
                       Optional<Kvc_Counts>:$offsets, Optional<Kvc_Bits>:$mask, Optional<Kvc_Counts>:$mask_offsets,
                       Optional<Kvc_Counts>:$mask_starts, Optional<Kvc_Logits>:$sink_logits,
                       Optional<Kvc_Logits>:$alibi_slopes, Kvc_Rows:$out,
                       DefaultValuedAttr<F32Attr, "0.0f">:$scale, DefaultValuedAttr<F32Attr, "0.0f">:$soft_cap,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<I64Attr, "0">:$sinks,
                       UnitAttr:$bidirectional);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $queries `,` $cache `[` $layer `]` `tables` `(` $tables `:` type($tables) `)` `lens` `(` $lens `:` type($lens) `)`
    (`offsets` `(` $offsets^ `:` type($offsets) `)`)? (`mask` `(` $mask^ `:` type($mask) `)`)?
    (`mask_offsets` `(` $mask_offsets^ `:` type($mask_offsets) `)`)?
    (`mask_starts` `(` $mask_starts^ `:` type($mask_starts) `)`)?
    (`sink_logits` `(` $sink_logits^ `:` type($sink_logits) `)`)?
    (`alibi_slopes` `(` $alibi_slopes^ `:` type($alibi_slopes) `)`)? `outs` `(` $out `:` type($out) `)` attr-dict
    `:` type($queries) `,` qualified(type($cache)) (`->` type($results)^)?
  }];
}

#endif  // KVC_TD
