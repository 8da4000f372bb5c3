// SPDX-License-Identifier: Apache-2.0
// The dialect, its types, and what interfaces ask of its ops: effects and destinations.
#include "Dialect.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>

#include "Kvc.dialect.cc.inc"
#define GET_TYPEDEF_CLASSES
#include "Kvc.interfaces.cc.inc"
#include "Kvc.types.cc.inc"
#define GET_OP_CLASSES
#include "Kvc.ops.cc.inc"

namespace mlir::kvc {

void KvcDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "Kvc.types.cc.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Kvc.ops.cc.inc"
      >();
}

LogicalResult PagedCacheType::verify(function_ref<InFlightDiagnostic()> error, Type element, int64_t layers,
                                     int64_t kv_heads, int64_t head_dim, int64_t block, int64_t blocks) {
  if (!element.isF32() && !element.isF16() && !element.isBF16() && !element.isFloat8E4M3FN() &&
      !element.isFloat8E5M2() && !element.isSignlessInteger(8) && !element.isSignlessInteger(4)) {
    return error() << "element type is " << element << "; use f32, f16, bf16, f8E4M3FN, f8E5M2, i8 or i4";
  }
  const struct {
    const char* name;
    int64_t value, limit;
  } parameters[] = {{"layers", layers, 65536},
                    {"kv_heads", kv_heads, 65536},
                    {"head_dim", head_dim, 8192},
                    {"block", block, 1024},
                    {"blocks", blocks, 2147483582}};
  for (const auto& it : parameters) {
    if (it.value < 1 || it.value > it.limit) {
      return error() << it.name << " is " << it.value << "; it must be 1 .. " << it.limit;
    }
  }
  // So that sizes in bytes, and strides, are numbers of 64 bits wherever they are computed.
  constexpr int64_t kMaxElements = int64_t{1} << 58;
  int64_t elements = 2;
  for (const auto& it : parameters) {
    if (elements > kMaxElements / it.value) {
      return error()
             << "the cache has more than 2^58 elements; reduce layers, kv_heads, head_dim, block or blocks";
    }
    elements *= it.value;
  }
  return success();
}

bool PagedCacheType::takesTiledKeys() const {
  const Type element = getElementType();  // the library quantizes narrower floats
  return (element.isF32() || element.isF16() || element.isBF16()) && getBlockSize() % 16 == 0 &&
         getHeadDim() * getElementType().getIntOrFloatBitWidth() % 32 == 0;
}

// ---- effects and destinations

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

// A cache op reads or writes its cache, reads its other memrefs, and writes those of its results. Tensors
// have no effects.
static void add_effects(Operation* op, Effects& effects) {
  auto cache_op = cast<CacheOpInterface>(op);
  auto style = cast<DestinationStyleOpInterface>(op);
  for (OpOperand& operand : op->getOpOperands()) {
    const bool cache = operand.get() == cache_op.getCache();
    if (!cache && !isa<MemRefType>(operand.get().getType())) continue;
    const bool writes = cache ? cache_op.writesCache() : style.isDpsInit(&operand);
    if (writes) {
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    } else {
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    }
  }
}

void AppendKvOp::getEffects(Effects& effects) { add_effects(*this, effects); }
void LookupKvOp::getEffects(Effects& effects) { add_effects(*this, effects); }
void PagedAttentionOp::getEffects(Effects& effects) { add_effects(*this, effects); }

// An append has no destination but its cache.
MutableOperandRange AppendKvOp::getDpsInitsMutable() { return MutableOperandRange(*this, 0, 0); }
MutableOperandRange LookupKvOp::getDpsInitsMutable() {
  return MutableOperandRange(*this, getNumOperands() - 2, 2);
}
MutableOperandRange PagedAttentionOp::getDpsInitsMutable() { return getOutMutable(); }

}  // namespace mlir::kvc
