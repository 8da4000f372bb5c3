// SPDX-License-Identifier: Apache-2.0
// kvc-to-calls: each op becomes the call of the C interface that its summary names.
#include <mlir/Conversion/LLVMCommon/MemRefBuilder.h>
#include <mlir/Conversion/LLVMCommon/TypeConverter.h>

#include "c_abi.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCTOCALLS
#include "Kvc.passes.h.inc"

namespace {

int32_t dtype_of(Type element) {
  if (element.isF32()) return KVC_FLOAT32;
  if (element.isF16()) return KVC_FLOAT16;
  if (element.isBF16()) return KVC_BFLOAT16;
  if (element.isFloat8E4M3FN()) return KVC_FLOAT8_E4M3;
  if (element.isFloat8E5M2()) return KVC_FLOAT8_E5M2;
  return element.isInteger(8) ? KVC_INT8 : KVC_INT4;
}
int32_t dtype_of(Value shaped) { return dtype_of(cast<ShapedType>(shaped.getType()).getElementType()); }

// What an op becomes: its results. `in` has its operands with converted types.
template <typename Op>
using Lower = SmallVector<Value> (*)(CCalls&, Op, typename Op::Adaptor in);

template <typename Op>
struct CallPattern : OpConversionPattern<Op> {
  CallPattern(const TypeConverter& types, MLIRContext* context, Lower<Op> lower)
      : OpConversionPattern<Op>(types, context), lower_(lower) {}

  LogicalResult matchAndRewrite(Op op, typename Op::Adaptor in,
                                ConversionPatternRewriter& rewriter) const override {
    CCalls c(rewriter, op);
    rewriter.replaceOp(op, lower_(c, op, in));
    return success();
  }

  Lower<Op> lower_;
};

// ---- manager

Value prompt_of(CCalls& c, Value tokens) {
  const CArray array = c.array(tokens);
  const Value prompt = c.record<kvc_prompt>();
  c.set(prompt, KVC_FIELD(kvc_prompt, tokens), array.pointer);
  c.set(prompt, KVC_FIELD(kvc_prompt, num_tokens), array.sizes[0]);
  return prompt;
}

SmallVector<Value> create_manager(CCalls& c, CreateManagerOp op, CreateManagerOp::Adaptor) {
  const Value config = c.record<kvc_manager_config>();
  c.set(config, KVC_FIELD(kvc_manager_config, num_blocks), c.number(op.getNumBlocks()));
  c.set(config, KVC_FIELD(kvc_manager_config, block_size), c.number(op.getBlockSize(), 32));
  const Value out = c.memory_of(c.pointer_type());
  c.must(KVC_FUNCTION(kvc_manager_create), {config, out});
  return {c.load(c.pointer_type(), out)};
}

SmallVector<Value> destroy_manager(CCalls& c, DestroyManagerOp, DestroyManagerOp::Adaptor in) {
  c.call(KVC_FUNCTION(kvc_manager_destroy), {in.getManager()});
  return {};
}

SmallVector<Value> allocate(CCalls& c, AllocateOp, AllocateOp::Adaptor in) {
  const Type i64 = c.builder().getI64Type();
  const Value request = c.memory_of_bytes(8), cached = c.memory_of_bytes(8);
  const Value status = c.call(KVC_FUNCTION(kvc_manager_allocate_request),
                              {in.getManager(), prompt_of(c, in.getTokens()), c.null(), request, cached});
  return {c.load(i64, request), c.as_index(c.load(i64, cached)), status};
}

SmallVector<Value> append(CCalls& c, AppendOp, AppendOp::Adaptor in) {
  const CArray tokens = c.array(in.getTokens());
  return {c.call(KVC_FUNCTION(kvc_manager_append_tokens),
                 {in.getManager(), in.getRequest(), tokens.pointer, tokens.sizes[0]})};
}

SmallVector<Value> commit(CCalls& c, CommitOp, CommitOp::Adaptor in) {
  return {c.call(KVC_FUNCTION(kvc_manager_commit_tokens),
                 {in.getManager(), in.getRequest(), c.as(c.builder().getI64Type(), in.getCount())})};
}

SmallVector<Value> lookup(CCalls& c, LookupOp, LookupOp::Adaptor in) {
  const Value info = c.record<kvc_probe_info>();
  const Value status =
      c.call(KVC_FUNCTION(kvc_manager_probe), {in.getManager(), prompt_of(c, in.getTokens()), info});
  return {c.as_index(c.get(info, KVC_FIELD(kvc_probe_info, num_cached))), status};
}

SmallVector<Value> free_request(CCalls& c, FreeOp, FreeOp::Adaptor in) {
  return {c.call(KVC_FUNCTION(kvc_manager_free_request), {in.getManager(), in.getRequest()})};
}

SmallVector<Value> export_slots(CCalls& c, SlotsOp, SlotsOp::Adaptor in) {
  const CArray slots = c.array(in.getSlots());
  return {c.call(
      KVC_FUNCTION(kvc_manager_export_slots),
      {in.getManager(), in.getRequest(), c.number(0, 32), c.as(c.builder().getI64Type(), in.getFirst()),
       slots.sizes[0], slots.pointer, c.number(sizeof(int64_t))})};
}

SmallVector<Value> export_table(CCalls& c, BlockTableOp, BlockTableOp::Adaptor in) {
  const CArray table = c.array(in.getTable());
  const Value request = c.memory_of(c.builder().getI64Type());
  c.builder().create<LLVM::StoreOp>(c.loc(), in.getRequest(), request);
  return {
      c.call(KVC_FUNCTION(kvc_manager_export_tables), {in.getManager(), request, c.number(1), c.number(0, 32),
                                                       c.number(-1, 32), table.pointer, table.sizes[0]})};
}

// The kernels of a step run after it and before the next one, so it is retired at once.
SmallVector<Value> step(CCalls& c, StepOp op, StepOp::Adaptor in) {
  const CArray requests = c.array(in.getRequests()), committed = c.array(in.getCommitted());
  const CArray offsets = c.array(in.getOffsets()), tokens = c.array(in.getTokens());
  const CArray tables = c.array(in.getTables()), slots = c.array(in.getSlots());
  const CArray statuses = c.array(in.getStatuses());
  OpBuilder& b = c.builder();
  const auto check = [&](Value a, Value wanted, const char* text) {
    emit_check(b, c.loc(), b.create<arith::CmpIOp>(c.loc(), arith::CmpIPredicate::eq, a, wanted), text);
  };
  const Value count = requests.sizes[0];
  check(committed.sizes[0], count, "kvc.step: committed must have as many entries as requests");
  check(tables.sizes[0], count, "kvc.step: tables must have as many rows as requests");
  check(statuses.sizes[0], count, "kvc.step: statuses must have as many entries as requests");
  check(slots.sizes[0], tokens.sizes[0], "kvc.step: slots must have as many entries as tokens");
  check(offsets.sizes[0], b.create<arith::AddIOp>(c.loc(), count, c.number(1)),
        "kvc.step: offsets must have one entry more than requests");
  check(tables.strides[0], tables.sizes[1], "kvc.step: rows of tables must follow each other without gaps");
  const Value last = b.create<memref::LoadOp>(c.loc(), in.getOffsets(), ValueRange{c.as_index(count)});
  check(last, tokens.sizes[0], "kvc.step: the last of offsets must be the number of tokens");

  const Value record = c.record<kvc_step>();
  c.set(record, KVC_FIELD(kvc_step, fill_id), c.number(-1, 32));
  c.set(record, KVC_FIELD(kvc_step, flags), c.number(KVC_STEP_WHOLE_ROWS, 32));
  c.set(record, KVC_FIELD(kvc_step, num_requests), count);
  c.set(record, KVC_FIELD(kvc_step, num_rows), count);
  c.set(record, KVC_FIELD(kvc_step, row_stride), tables.strides[0]);
  c.set(record, KVC_FIELD(kvc_step, slot_capacity), slots.sizes[0]);
  c.set(record, KVC_FIELD(kvc_step, requests), requests.pointer);
  c.set(record, KVC_FIELD(kvc_step, committed), committed.pointer);
  c.set(record, KVC_FIELD(kvc_step, extend_offsets), offsets.pointer);
  c.set(record, KVC_FIELD(kvc_step, extend_tokens), tokens.pointer);
  c.set(record, KVC_FIELD(kvc_step, status), statuses.pointer);
  c.set(record, KVC_FIELD(kvc_step, block_tables), tables.pointer);
  c.set(record, KVC_FIELD(kvc_step, slots), slots.pointer);
  const Value status = c.call(KVC_FUNCTION(kvc_manager_step), {in.getManager(), record});
  const Value done = b.create<arith::CmpIOp>(c.loc(), arith::CmpIPredicate::eq, status, c.number(0, 32));
  auto retire = b.create<scf::IfOp>(c.loc(), done, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(retire.thenBlock());
  c.must(KVC_FUNCTION(kvc_manager_retire_step),
         {in.getManager(), c.get(record, KVC_FIELD(kvc_step, step_id))});
  return {status};
}

SmallVector<Value> request_id(CCalls&, RequestIdOp, RequestIdOp::Adaptor in) { return {in.getRequest()}; }

SmallVector<Value> require(CCalls& c, RequireOp, RequireOp::Adaptor in) {
  c.require(in.getStatus());
  return {};
}

// ---- storage

// A storage of this shape whose blocks have no gaps; `memory` may be null.
Value create_storage(CCalls& c, PagedCacheType cache, Value memory, uint32_t flags) {
  const Value config = c.record<kvc_storage_config>();
  c.set(config, KVC_FIELD(kvc_storage_config, num_blocks), c.number(cache.getNumBlocks()));
  c.set(config, KVC_FIELD(kvc_storage_config, num_layers), c.number(cache.getLayers(), 32));
  c.set(config, KVC_FIELD(kvc_storage_config, num_heads), c.number(cache.getKvHeads(), 32));
  c.set(config, KVC_FIELD(kvc_storage_config, head_dim), c.number(cache.getHeadDim(), 32));
  c.set(config, KVC_FIELD(kvc_storage_config, block_size), c.number(cache.getBlockSize(), 32));
  c.set(config, KVC_FIELD(kvc_storage_config, dtype), c.number(dtype_of(cache.getElementType()), 32));
  c.set(config, KVC_FIELD(kvc_storage_config, layout), c.number(KVC_LAYOUT_LBHNC, 32));
  c.set(config, KVC_FIELD(kvc_storage_config, flags), c.number(flags, 32));
  c.set(config, KVC_FIELD(kvc_storage_config, alignment), c.number(16, 32));
  if (memory) {
    const MemRefType type = memref_of(cache);
    c.set(config, KVC_FIELD(kvc_storage_config, memory), memory);
    c.set(config, KVC_FIELD(kvc_storage_config, memory_size),
          c.number(type.getNumElements() * (type.getElementTypeBitWidth() / 8)));
  }
  const Value out = c.memory_of(c.pointer_type());
  c.must(KVC_FUNCTION(kvc_storage_create), {config, out});
  return c.load(c.pointer_type(), out);
}

SmallVector<Value> create_cache(CCalls& c, CreateCacheOp op, CreateCacheOp::Adaptor) {
  return {create_storage(c, op.getCache().getType(), {}, op.getTiledKeys() ? KVC_STORAGE_TILED_KEYS : 0)};
}

SmallVector<Value> adopt_memref(CCalls& c, AdoptMemRefOp op, AdoptMemRefOp::Adaptor in) {
  return {create_storage(c, op.getCache().getType(), c.array(in.getMemory()).pointer, 0)};
}

Value properties_of(CCalls& c, Value storage) {
  const Value info = c.record<kvc_storage_info>();
  c.must(KVC_FUNCTION(kvc_storage_properties), {storage, info});
  return info;
}

void check_property(CCalls& c, Value info, CField field, int64_t wanted, const Twine& text) {
  const Value value = c.as(c.builder().getI64Type(), c.get(info, field));
  const Value same =
      c.builder().create<arith::CmpIOp>(c.loc(), arith::CmpIPredicate::eq, value, c.number(wanted));
  emit_check(c.builder(), c.loc(), same, text);
}

SmallVector<Value> export_memref(CCalls& c, ExportMemRefOp op, ExportMemRefOp::Adaptor in) {
  const MemRefType type = memref_of(op.getCache().getType());
  const Value info = properties_of(c, in.getCache());
  const int64_t bytes = type.getNumElements() * (type.getElementTypeBitWidth() / 8);
  check_property(c, info, KVC_FIELD(kvc_storage_info, layout), KVC_LAYOUT_LBHNC,
                 "kvc.export_memref: the layout of the storage must be KVC_LAYOUT_LBHNC");
  check_property(c, info, KVC_FIELD(kvc_storage_info, slab_bytes), bytes,
                 "kvc.export_memref: the storage has gaps; create it with alignment 16");
  const Value flags = c.get(info, KVC_FIELD(kvc_storage_info, flags));
  const Value tiled = c.builder().create<arith::AndIOp>(c.loc(), flags, c.number(KVC_STORAGE_TILED_KEYS, 32));
  const Value plain =
      c.builder().create<arith::CmpIOp>(c.loc(), arith::CmpIPredicate::eq, tiled, c.number(0, 32));
  emit_check(c.builder(), c.loc(), plain, "kvc.export_memref: the keys of the storage must not be tiled");
  const LLVMTypeConverter types(c.builder().getContext());
  const Value data = c.get(info, KVC_FIELD(kvc_storage_info, data));
  const Value descriptor = MemRefDescriptor::fromStaticShape(c.builder(), c.loc(), types, type, data);
  return {c.builder().create<UnrealizedConversionCastOp>(c.loc(), type, descriptor).getResult(0)};
}

SmallVector<Value> cache_of(CCalls& c, CacheOfOp op, CacheOfOp::Adaptor in) {
  const PagedCacheType cache = op.getCache().getType();
  const Value info = properties_of(c, in.getStorage());
  const struct {
    CField field;
    int64_t wanted;
    const char* name;
  } properties[] = {{KVC_FIELD(kvc_storage_info, num_layers), cache.getLayers(), "num_layers"},
                    {KVC_FIELD(kvc_storage_info, num_heads), cache.getKvHeads(), "num_heads"},
                    {KVC_FIELD(kvc_storage_info, head_dim), cache.getHeadDim(), "head_dim"},
                    {KVC_FIELD(kvc_storage_info, v_head_dim), cache.getHeadDim(), "v_head_dim"},
                    {KVC_FIELD(kvc_storage_info, block_size), cache.getBlockSize(), "block_size"},
                    {KVC_FIELD(kvc_storage_info, num_blocks), cache.getNumBlocks(), "num_blocks"},
                    {KVC_FIELD(kvc_storage_info, dtype), dtype_of(cache.getElementType()), "dtype"}};
  for (const auto& it : properties) {
    check_property(c, info, it.field, it.wanted,
                   Twine("kvc.cache_of: ") + it.name + " of the storage must be " + Twine(it.wanted));
  }
  return {in.getStorage()};
}

SmallVector<Value> destroy_cache(CCalls& c, DestroyCacheOp, DestroyCacheOp::Adaptor in) {
  c.call(KVC_FUNCTION(kvc_storage_destroy), {in.getCache()});
  return {};
}

// A stride of 0 means contiguous to C; no rows have it.
void check_strides(CCalls& c, Operation* op, const CArray& array) {
  for (const Value stride : array.strides) {
    if (getConstantIntValue(stride)) continue;
    const Value positive =
        c.builder().create<arith::CmpIOp>(c.loc(), arith::CmpIPredicate::sgt, stride, c.number(0));
    emit_check(c.builder(), c.loc(), positive,
               Twine(op->getName().getStringRef()) + ": strides must be positive");
  }
}

template <typename Op>
Value rows_of(CCalls& c, Op op, typename Op::Adaptor in) {
  const CArray k = c.array(in.getKeys()), v = c.array(in.getValues());
  check_strides(c, op, k);
  check_strides(c, op, v);
  const Value rows = c.record<kvc_rows>();
  c.set(rows, KVC_FIELD(kvc_rows, k), k.pointer);
  c.set(rows, KVC_FIELD(kvc_rows, v), v.pointer);
  c.set(rows, KVC_FIELD(kvc_rows, num_tokens), k.sizes[0]);
  c.set(rows, KVC_FIELD(kvc_rows, first_layer), in.getLayer());
  c.set(rows, KVC_FIELD(kvc_rows, num_layers), c.number(1, 32));
  c.set(rows, KVC_FIELD(kvc_rows, dtype), c.number(dtype_of(op.getKeys()), 32));
  c.set(rows, KVC_FIELD(kvc_rows, k_token_stride), k.strides[0]);
  c.set(rows, KVC_FIELD(kvc_rows, k_head_stride), k.strides[1]);
  c.set(rows, KVC_FIELD(kvc_rows, v_token_stride), v.strides[0]);
  c.set(rows, KVC_FIELD(kvc_rows, v_head_stride), v.strides[1]);
  if (in.getSlots()) {
    c.set(rows, KVC_FIELD(kvc_rows, slots), c.array(in.getSlots()).pointer);
  } else {
    const CArray table = c.array(in.getTable());
    c.set(rows, KVC_FIELD(kvc_rows, block_table), table.pointer);
    c.set(rows, KVC_FIELD(kvc_rows, block_table_size), table.sizes[0]);
    c.set(rows, KVC_FIELD(kvc_rows, first_token), in.getFirst());
  }
  return rows;
}

SmallVector<Value> append_kv(CCalls& c, AppendKvOp op, AppendKvOp::Adaptor in) {
  emit_shape_checks(c.builder(), op);
  c.must(KVC_FUNCTION(kvc_storage_store), {in.getCache(), rows_of(c, op, in), c.null()});
  return {};
}

SmallVector<Value> lookup_kv(CCalls& c, LookupKvOp op, LookupKvOp::Adaptor in) {
  emit_shape_checks(c.builder(), op);
  c.must(KVC_FUNCTION(kvc_storage_gather), {in.getCache(), rows_of(c, op, in), c.null()});
  return {};
}

// Numbers 0 .. count, in memory of their own, for requests of one query each.
Value counting_offsets(CCalls& c, Value count) {
  OpBuilder& b = c.builder();
  const Value zero = c.as_index(c.number(0)), one = c.as_index(c.number(1));
  const Value end = b.create<arith::AddIOp>(c.loc(), c.as_index(count), one);
  const Value memory = b.create<memref::AllocOp>(
      c.loc(), MemRefType::get({ShapedType::kDynamic}, b.getI64Type()), ValueRange{end});
  b.create<scf::ForOp>(c.loc(), zero, end, one, ValueRange{},
                       [&](OpBuilder& inside, Location loc, Value i, ValueRange) {
                         const Value number = inside.create<arith::IndexCastOp>(loc, inside.getI64Type(), i);
                         inside.create<memref::StoreOp>(loc, number, memory, ValueRange{i});
                         inside.create<scf::YieldOp>(loc);
                       });
  return memory;
}

SmallVector<Value> paged_attention(CCalls& c, PagedAttentionOp op, PagedAttentionOp::Adaptor in) {
  emit_shape_checks(c.builder(), op);
  const CArray q = c.array(in.getQueries()), out = c.array(in.getOut()), tables = c.array(in.getTables());
  const CArray lens = c.array(in.getLens());
  check_strides(c, op, q);
  check_strides(c, op, out);
  const Value counted = in.getOffsets() ? Value() : counting_offsets(c, lens.sizes[0]);
  const Value record = c.record<kvc_attention>();
  c.set(record, KVC_FIELD(kvc_attention, q), q.pointer);
  c.set(record, KVC_FIELD(kvc_attention, out), out.pointer);
  c.set(record, KVC_FIELD(kvc_attention, num_requests), lens.sizes[0]);
  c.set(record, KVC_FIELD(kvc_attention, q_offsets), c.array(counted ? counted : in.getOffsets()).pointer);
  c.set(record, KVC_FIELD(kvc_attention, kv_lens), lens.pointer);
  c.set(record, KVC_FIELD(kvc_attention, block_tables), tables.pointer);
  c.set(record, KVC_FIELD(kvc_attention, table_stride), tables.strides[0]);
  c.set(record, KVC_FIELD(kvc_attention, layer), in.getLayer());
  c.set(record, KVC_FIELD(kvc_attention, num_q_heads), q.sizes[1]);
  c.set(record, KVC_FIELD(kvc_attention, dtype), c.number(dtype_of(op.getQueries()), 32));
  c.set(record, KVC_FIELD(kvc_attention, flags),
        c.number(op.getBidirectional() ? KVC_ATTENTION_NOT_CAUSAL : 0, 32));
  c.set(record, KVC_FIELD(kvc_attention, scale), c.real(op.getScale().convertToFloat()));
  c.set(record, KVC_FIELD(kvc_attention, soft_cap), c.real(op.getSoftCap().convertToFloat()));
  c.set(record, KVC_FIELD(kvc_attention, window), c.number(op.getWindow()));
  c.set(record, KVC_FIELD(kvc_attention, sinks), c.number(op.getSinks()));
  c.set(record, KVC_FIELD(kvc_attention, q_token_stride), q.strides[0]);
  c.set(record, KVC_FIELD(kvc_attention, q_head_stride), q.strides[1]);
  c.set(record, KVC_FIELD(kvc_attention, out_token_stride), out.strides[0]);
  c.set(record, KVC_FIELD(kvc_attention, out_head_stride), out.strides[1]);
  if (in.getMask()) {
    c.set(record, KVC_FIELD(kvc_attention, mask), c.array(in.getMask()).pointer);
    c.set(record, KVC_FIELD(kvc_attention, mask_offsets), c.array(in.getMaskOffsets()).pointer);
  }
  if (in.getMaskStarts())
    c.set(record, KVC_FIELD(kvc_attention, mask_starts), c.array(in.getMaskStarts()).pointer);
  if (in.getAlibiSlopes())
    c.set(record, KVC_FIELD(kvc_attention, alibi_slopes), c.array(in.getAlibiSlopes()).pointer);
  if (in.getSinkLogits())
    c.set(record, KVC_FIELD(kvc_attention, sink_logits), c.array(in.getSinkLogits()).pointer);
  c.must(KVC_FUNCTION(kvc_storage_attend), {in.getCache(), record, c.null()});
  if (counted) c.builder().create<memref::DeallocOp>(c.loc(), counted);
  return {};
}

// ---- the pass

struct ToCalls : impl::KvcToCallsBase<ToCalls> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext* context = &getContext();
    const WalkResult tensors = module.walk([](CacheOpInterface op) {
      if (llvm::none_of(op->getOperandTypes(), llvm::IsaPred<TensorType>)) return WalkResult::advance();
      op->emitOpError("has tensors; run one-shot-bufferize before kvc-to-calls");
      return WalkResult::interrupt();
    });
    if (tensors.wasInterrupted() || failed(check_placement(module)) || failed(insert_failure(module)))
      return signalPassFailure();

    TypeConverter types;
    types.addConversion([](Type type) { return type; });
    const auto pointer = LLVM::LLVMPointerType::get(context);
    types.addConversion([=](ManagerType) -> Type { return pointer; });
    types.addConversion([=](StorageType) -> Type { return pointer; });
    types.addConversion([=](PagedCacheType) -> Type { return pointer; });
    types.addConversion([=](RequestType) -> Type { return IntegerType::get(context, 64); });

    RewritePatternSet patterns(context);
    const auto lower = [&]<typename Op>(SmallVector<Value> (*function)(CCalls&, Op, typename Op::Adaptor)) {
      patterns.add(std::make_unique<CallPattern<Op>>(types, context, function));
    };
    lower(create_manager);
    lower(destroy_manager);
    lower(allocate);
    lower(append);
    lower(commit);
    lower(lookup);
    lower(free_request);
    lower(export_slots);
    lower(export_table);
    lower(step);
    lower(request_id);
    lower(require);
    lower(create_cache);
    lower(adopt_memref);
    lower(export_memref);
    lower(cache_of);
    lower(destroy_cache);
    lower(append_kv);
    lower(lookup_kv);
    lower(paged_attention);

    ConversionTarget target(*context);
    add_structural_conversions(types, patterns, target);
    target.addIllegalDialect<KvcDialect>();
    target.addLegalOp<UnrealizedConversionCastOp>();
    if (failed(applyPartialConversion(module, target, std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace
}  // namespace mlir::kvc
