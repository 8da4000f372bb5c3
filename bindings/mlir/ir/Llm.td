// SPDX-License-Identifier: Apache-2.0
// The spellings of LLMIR's ops on a paged KV cache, so that its programs can be read; kvc-import-llm turns them into kvc.
// They cannot be run by themselves.
#ifndef KVC_LLM_TD
#define KVC_LLM_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Llm_Dialect : Dialect {
  let name = "llm";
  let summary = "LLMIR's ops on a paged KV cache, to be imported.";
  let cppNamespace = "::mlir::llm";
  let useDefaultTypePrinterParser = 1;
}

def Llm_PagedKvCache : TypeDef<Llm_Dialect, "PagedKvCache"> {
  let mnemonic = "paged_kv_cache";
  let summary = "A cache: element type, layers, heads, head_dim, tokens of a block, tokens of the longest sequence.";
  let parameters = (ins "::mlir::Type":$elementType, "int64_t":$layers, "int64_t":$heads, "int64_t":$headDim,
                        "int64_t":$blockSize, "int64_t":$maxTokens);
  let assemblyFormat = "`<` $elementType `,` $layers `,` $heads `,` $headDim `,` $blockSize `,` $maxTokens `>`";
}

class Llm_Op<string name> : Op<Llm_Dialect, name> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

defvar Rows = 4DTensorOf<[F32, F16, BF16]>;
defvar Indices = 2DTensorOf<[I32]>;
defvar Lengths = 1DTensorOf<[I32]>;

def Llm_AppendKvOp : Llm_Op<"append_kv"> {
  let summary = "Appends keys and values [batch][tokens][heads][head_dim]; gives the cache and the blocks of each sequence.";
  let arguments = (ins Llm_PagedKvCache:$cache, Rows:$keys, Rows:$values, Lengths:$seq_ids, OptionalAttr<I32Attr>:$layer,
                       OptionalAttr<I32Attr>:$block_size, OptionalAttr<I32Attr>:$max_seq_len);
  let results = (outs Llm_PagedKvCache:$new_cache, Indices:$block_indices);
}

def Llm_LookupKvOp : Llm_Op<"lookup_kv"> {
  let summary = "Gathers keys and values of the first seq_lens tokens of each sequence.";
  let arguments = (ins Llm_PagedKvCache:$cache, Indices:$block_indices, Lengths:$seq_lens, OptionalAttr<I32Attr>:$layer,
                       OptionalAttr<I32Attr>:$num_heads, OptionalAttr<I32Attr>:$head_dim);
  let results = (outs Rows:$keys, Rows:$values);
}

def Llm_PagedAttentionOp : Llm_Op<"paged_attention"> {
  let summary = "Attention of queries [batch][tokens][heads][head_dim] to the cache.";
  let arguments = (ins Rows:$query, Llm_PagedKvCache:$cache, Indices:$block_indices, Lengths:$seq_lens,
                       OptionalAttr<I32Attr>:$layer, OptionalAttr<I32Attr>:$num_heads, OptionalAttr<I32Attr>:$head_dim,
                       OptionalAttr<F32Attr>:$scale);
  let results = (outs Rows:$out);
}

#endif  // KVC_LLM_TD
