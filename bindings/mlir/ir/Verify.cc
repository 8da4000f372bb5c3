// SPDX-License-Identifier: Apache-2.0
// The verifiers. A message has the value, what it must be, and the operand's name. What is dynamic is checked
// when the program runs (passes/checks.h).
#include <mlir/IR/Matchers.h>

#include <cmath>

#include "Dialect.h"

namespace mlir::kvc {

static std::string text(int64_t dim) { return ShapedType::isDynamic(dim) ? "?" : std::to_string(dim); }
static bool differ(int64_t a, int64_t b) {
  return !ShapedType::isDynamic(a) && !ShapedType::isDynamic(b) && a != b;
}

// Rows and arrays reach C as a pointer and strides: their last dimension is contiguous, and no two elements
// are one.
static LogicalResult verify_memory(Operation* op, StringRef name, Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref) return success();
  if (memref.getMemorySpace()) {
    return op->emitOpError() << name << " is in memory space " << memref.getMemorySpace()
                             << "; it must be in the default one";
  }
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(getStridesAndOffset(memref, strides, offset))) {
    return op->emitOpError() << name << " has layout " << memref.getLayout() << "; it must have strides";
  }
  if (differ(strides.back(), 1)) {
    return op->emitOpError() << name << " has stride " << strides.back()
                             << " in its last dimension; it must be 1: copy it to a contiguous memref";
  }
  for (const int64_t stride : strides) {
    if (!ShapedType::isDynamic(stride) && stride <= 0) {
      return op->emitOpError() << name << " has stride " << stride << "; strides must be positive";
    }
  }
  return success();
}

static LogicalResult verify_dim(Operation* op, StringRef name, ShapedType type, unsigned dim, int64_t wanted,
                                StringRef meaning) {
  if (!differ(type.getDimSize(dim), wanted)) return success();
  return op->emitOpError() << name << " has " << type.getDimSize(dim) << " " << meaning << "; it must have "
                           << wanted;
}

// What ops on a cache have in common: the layer; tensors alone or memrefs alone; results as destinations.
static LogicalResult verify_cache_op(Operation* op) {
  auto cache_op = cast<CacheOpInterface>(op);
  const int64_t layers = cache_op.getCache().getType().getLayers();
  APInt layer;
  if (matchPattern(cache_op.getLayer(), m_ConstantInt(&layer)) &&
      (layer.isNegative() || layer.getSExtValue() >= layers)) {
    return op->emitOpError() << "layer is " << layer.getSExtValue() << "; it must be 0 .. " << layers - 1;
  }
  bool tensors = false, memrefs = false;
  for (const Type type : op->getOperandTypes()) {
    tensors |= isa<TensorType>(type);
    memrefs |= isa<MemRefType>(type);
  }
  if (tensors && memrefs) {
    return op->emitOpError("has tensors and memrefs as operands; it must have one kind");
  }
  return success();
}

// Keys and values [tokens][kv_heads][head_dim] of a cache.
static LogicalResult verify_rows(Operation* op, PagedCacheType cache, Value keys, Value values) {
  const auto k = cast<ShapedType>(keys.getType()), v = cast<ShapedType>(values.getType());
  if (k.getElementType() != v.getElementType()) {
    return op->emitOpError() << "keys have elements of " << k.getElementType() << " and values of "
                             << v.getElementType() << "; they must be equal";
  }
  if (differ(k.getDimSize(0), v.getDimSize(0))) {
    return op->emitOpError() << "keys have " << k.getDimSize(0) << " tokens and values " << v.getDimSize(0)
                             << "; they must be equal";
  }
  for (const auto& [name, type] : {std::pair("keys", k), std::pair("values", v)}) {
    if (failed(verify_dim(op, name, type, 1, cache.getKvHeads(), "heads")) ||
        failed(verify_dim(op, name, type, 2, cache.getHeadDim(), "elements per head")) ||
        failed(verify_memory(op, name, type))) {
      return failure();
    }
  }
  return success();
}

// Where rows are: slots, or a block table and the position of the first.
template <typename Op>
static LogicalResult verify_places(Op op) {
  if (bool(op.getSlots()) == bool(op.getTable())) {
    return op.emitOpError(op.getSlots() ? "has slots and a table; it must have one of them"
                                        : "has neither slots nor a table; it must have one of them");
  }
  if (bool(op.getFirst()) != bool(op.getTable())) {
    return op.emitOpError(op.getTable() ? "has a table without `from`, the position of its first token"
                                        : "has `from` without a table; slots need none");
  }
  if (op.getTable()) return verify_memory(op, "table", op.getTable().getType());
  const auto keys = cast<ShapedType>(op.getKeys().getType());
  if (failed(verify_dim(op, "slots", cast<ShapedType>(op.getSlots().getType()), 0, keys.getDimSize(0),
                        "entries, the tokens of keys"))) {
    return failure();
  }
  return verify_memory(op, "slots", op.getSlots().getType());
}

LogicalResult AppendKvOp::verify() {
  if (failed(verify_cache_op(*this)) ||
      failed(verify_rows(*this, getCache().getType(), getKeys(), getValues()))) {
    return failure();
  }
  return verify_places(*this);
}

LogicalResult LookupKvOp::verify() {
  if (failed(verify_cache_op(*this)) ||
      failed(verify_rows(*this, getCache().getType(), getKeys(), getValues()))) {
    return failure();
  }
  return verify_places(*this);
}

static LogicalResult verify_attribute(Operation* op, StringRef name, float value, float low, float high) {
  const float size = std::abs(value);
  if (value == 0 || (value >= low && size <= high)) return success();  // false for NaN
  return op->emitOpError() << name << " is " << value << "; it must be 0 or " << low << " .. " << high;
}

static LogicalResult verify_count(Operation* op, StringRef name, int64_t value) {
  if (value >= 0 && value <= INT32_MAX) return success();
  return op->emitOpError() << name << " is " << value << "; it must be 0 .. " << INT32_MAX;
}

LogicalResult PagedAttentionOp::verify() {
  if (failed(verify_cache_op(*this))) return failure();
  const PagedCacheType cache = getCache().getType();
  const auto q = cast<ShapedType>(getQueries().getType()), out = cast<ShapedType>(getOut().getType());
  const auto tables = cast<ShapedType>(getTables().getType()), lens = cast<ShapedType>(getLens().getType());
  const int64_t heads = q.getDimSize(1), requests = lens.getDimSize(0);
  if (ShapedType::isDynamic(heads) || heads == 0 || heads % cache.getKvHeads() != 0) {
    return emitOpError() << "queries have " << text(heads) << " heads; it must be a static multiple of "
                         << cache.getKvHeads() << ", the KV heads of the cache";
  }
  if (failed(verify_dim(*this, "queries", q, 2, cache.getHeadDim(), "elements per head"))) return failure();
  if (q.getElementType() != out.getElementType()) {
    return emitOpError() << "out has elements of " << out.getElementType() << " and queries of "
                         << q.getElementType() << "; they must be equal";
  }
  if (failed(verify_dim(*this, "out", out, 0, q.getDimSize(0), "queries")) ||
      failed(verify_dim(*this, "out", out, 1, heads, "heads")) ||
      failed(verify_dim(*this, "out", out, 2, cache.getHeadDim(), "elements per head")) ||
      failed(verify_dim(*this, "tables", tables, 0, requests, "rows, the requests of lens"))) {
    return failure();
  }
  if (ShapedType::isDynamic(out.getDimSize(1))) return emitOpError("out has ? heads; it must be static");
  if (getOffsets()) {
    const int64_t wanted = ShapedType::isDynamic(requests) ? requests : requests + 1;
    if (failed(verify_dim(*this, "offsets", cast<ShapedType>(getOffsets().getType()), 0, wanted,
                          "entries, the requests of lens and one more"))) {
      return failure();
    }
  } else if (failed(verify_dim(*this, "queries", q, 0, requests, "tokens without offsets, one a request"))) {
    return failure();
  }
  if (bool(getMask()) != bool(getMaskOffsets())) {
    return emitOpError(getMask() ? "has a mask without mask_offsets" : "has mask_offsets without a mask");
  }
  if (getMaskStarts() && !getMask()) return emitOpError("has mask_starts without a mask");
  const std::tuple<const char*, Value, int64_t, const char*> sizes[] = {
      {"mask_offsets", getMaskOffsets(), requests, "entries, the requests of lens"},
      {"mask_starts", getMaskStarts(), requests, "entries, the requests of lens"},
      {"sink_logits", getSinkLogits(), heads, "entries, the heads of queries"},
      {"alibi_slopes", getAlibiSlopes(), heads, "entries, the heads of queries"}};
  for (const auto& [name, value, wanted, meaning] : sizes) {
    if (value && failed(verify_dim(*this, name, cast<ShapedType>(value.getType()), 0, wanted, meaning)))
      return failure();
  }
  const std::pair<const char*, Value> arrays[] = {{"queries", getQueries()},
                                                  {"out", getOut()},
                                                  {"tables", getTables()},
                                                  {"lens", getLens()},
                                                  {"offsets", getOffsets()},
                                                  {"mask", getMask()},
                                                  {"mask_offsets", getMaskOffsets()},
                                                  {"mask_starts", getMaskStarts()},
                                                  {"sink_logits", getSinkLogits()},
                                                  {"alibi_slopes", getAlibiSlopes()}};
  for (const auto& [name, value] : arrays) {
    if (value && failed(verify_memory(*this, name, value.getType()))) return failure();
  }
  if (failed(verify_count(*this, "window", getWindow())) ||
      failed(verify_count(*this, "sinks", getSinks()))) {
    return failure();
  }
  if (getSinks() != 0 && getWindow() == 0) {
    return emitOpError() << "sinks is " << getSinks() << " without a window; set window, or sinks to 0";
  }
  if (failed(verify_attribute(*this, "scale", getScale().convertToFloat(), -1e30f, 1e30f))) return failure();
  return verify_attribute(*this, "soft_cap", getSoftCap().convertToFloat(), 1e-30f, 1e30f);
}

// ---- handles and caches

LogicalResult CreateManagerOp::verify() {
  if (getNumBlocks() < 1 || getNumBlocks() > 2147483582) {
    return emitOpError() << "blocks is " << getNumBlocks() << "; it must be 1 .. 2147483582";
  }
  if (getBlockSize() < 1 || getBlockSize() > 1024) {
    return emitOpError() << "block_size is " << getBlockSize() << "; it must be 1 .. 1024";
  }
  return success();
}

LogicalResult AllocateOp::verify() { return verify_memory(*this, "tokens", getTokens().getType()); }
LogicalResult AppendOp::verify() { return verify_memory(*this, "tokens", getTokens().getType()); }
LogicalResult LookupOp::verify() { return verify_memory(*this, "tokens", getTokens().getType()); }
LogicalResult SlotsOp::verify() { return verify_memory(*this, "slots", getSlots().getType()); }
LogicalResult BlockTableOp::verify() { return verify_memory(*this, "table", getTable().getType()); }

LogicalResult StepOp::verify() {
  const std::pair<const char*, Value> arrays[] = {{"requests", getRequests()}, {"committed", getCommitted()},
                                                  {"offsets", getOffsets()},   {"tokens", getTokens()},
                                                  {"tables", getTables()},     {"slots", getSlots()},
                                                  {"statuses", getStatuses()}};
  for (const auto& [name, value] : arrays) {
    if (failed(verify_memory(*this, name, value.getType()))) return failure();
  }
  const auto size = [](Value value) { return cast<ShapedType>(value.getType()).getDimSize(0); };
  const int64_t requests = size(getRequests());
  const int64_t offsets = ShapedType::isDynamic(requests) ? requests : requests + 1;
  const std::tuple<const char*, Value, int64_t> sizes[] = {{"committed", getCommitted(), requests},
                                                           {"offsets", getOffsets(), offsets},
                                                           {"tables", getTables(), requests},
                                                           {"slots", getSlots(), size(getTokens())},
                                                           {"statuses", getStatuses(), requests}};
  for (const auto& [name, value, wanted] : sizes) {
    if (failed(verify_dim(*this, name, cast<ShapedType>(value.getType()), 0, wanted, "entries")))
      return failure();
  }
  return success();
}

LogicalResult CreateCacheOp::verify() {
  const PagedCacheType cache = getCache().getType();
  if (!getTiledKeys() || cache.takesTiledKeys()) return success();
  return emitOpError()
         << "tiled_keys needs f32, f16 or bf16, a block of a multiple of 16 tokens, and keys of a multiple "
            "of 4 bytes; "
         << cache << " has not";
}

// The memref of a cache: [layers][blocks][key, value][kv_heads][block][head_dim], without gaps.
static LogicalResult verify_memref(Operation* op, PagedCacheType cache, MemRefType memref) {
  const auto wanted = MemRefType::get({cache.getLayers(), cache.getNumBlocks(), 2, cache.getKvHeads(),
                                       cache.getBlockSize(), cache.getHeadDim()},
                                      cache.getElementType());
  if (memref != wanted) {
    return op->emitOpError() << "memory is " << memref << "; for this cache it must be " << wanted;
  }
  const int64_t bytes = cache.getKvHeads() * cache.getBlockSize() * cache.getHeadDim() *
                        cache.getElementType().getIntOrFloatBitWidth() / 8;
  if (bytes % 16 != 0) {
    return op->emitOpError() << "keys of a block and layer have " << bytes
                             << " bytes; it must be a multiple of 16, so that there are no gaps";
  }
  return success();
}

LogicalResult AdoptMemRefOp::verify() {
  return verify_memref(*this, getCache().getType(), cast<MemRefType>(getMemory().getType()));
}
LogicalResult ExportMemRefOp::verify() {
  return verify_memref(*this, getCache().getType(), cast<MemRefType>(getMemory().getType()));
}

}  // namespace mlir::kvc
