// SPDX-License-Identifier: Apache-2.0
#include "c_abi.h"

#include <mlir/Conversion/LLVMCommon/MemRefBuilder.h>
#include <mlir/Conversion/LLVMCommon/TypeConverter.h>
#include <mlir/Interfaces/FunctionInterfaces.h>

namespace mlir::kvc {

Value CCalls::number(int64_t value, unsigned bits) {
  return b_.create<arith::ConstantIntOp>(loc_, value, bits);
}

Value CCalls::real(float value) {
  return b_.create<arith::ConstantFloatOp>(loc_, APFloat(value), b_.getF32Type());
}

Value CCalls::null() { return b_.create<LLVM::ZeroOp>(loc_, pointer_type()); }

Value CCalls::as(Type type, Value value) {
  const Type from = value.getType();
  if (from == type) return value;
  if (isa<IndexType>(from) || isa<IndexType>(type)) return b_.create<arith::IndexCastOp>(loc_, type, value);
  if (type.getIntOrFloatBitWidth() < from.getIntOrFloatBitWidth())
    return b_.create<arith::TruncIOp>(loc_, type, value);
  return b_.create<arith::ExtUIOp>(loc_, type, value);
}

// At the function's beginning, so that a loop takes its memory once.
Value CCalls::memory_of(Type type) {
  OpBuilder::InsertionGuard guard(b_);
  auto function = op_->getParentOfType<FunctionOpInterface>();
  b_.setInsertionPointToStart(&function.getFunctionBody().front());
  const Value one = number(1);
  return b_.create<LLVM::AllocaOp>(loc_, pointer_type(), type, one, /*alignment=*/8);
}

Value CCalls::memory_of_bytes(size_t bytes) {
  const Value memory = memory_of(LLVM::LLVMArrayType::get(b_.getI8Type(), bytes));
  b_.create<LLVM::MemsetOp>(loc_, memory, number(0, 8), number(static_cast<int64_t>(bytes)),
                            /*isVolatile=*/false);
  return memory;
}

static Value address(OpBuilder& b, Location loc, Value record, CField field) {
  return b.create<LLVM::GEPOp>(loc, record.getType(), b.getI8Type(), record,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(field.offset)});
}

void CCalls::set(Value record, CField field, Value value) {
  b_.create<LLVM::StoreOp>(loc_, as(field.type(b_.getContext()), value), address(b_, loc_, record, field));
}

Value CCalls::get(Value record, CField field) {
  return load(field.type(b_.getContext()), address(b_, loc_, record, field));
}

Value CCalls::load(Type type, Value pointer) { return b_.create<LLVM::LoadOp>(loc_, type, pointer); }

CArray CCalls::array(Value memref) {
  const auto type = cast<MemRefType>(memref.getType());
  auto parts = b_.create<memref::ExtractStridedMetadataOp>(loc_, memref);
  // From the descriptor itself: MLIR 19 takes the pointer of a memref.view for that of its source.
  const LLVMTypeConverter types(b_.getContext());
  const Type form = types.convertType(type);
  MemRefDescriptor descriptor(b_.create<UnrealizedConversionCastOp>(loc_, form, memref).getResult(0));
  const Value offset = as(b_.getI64Type(), parts.getOffset());
  CArray array{b_.create<LLVM::GEPOp>(loc_, pointer_type(), types.convertType(type.getElementType()),
                                      descriptor.alignedPtr(b_, loc_), ArrayRef<LLVM::GEPArg>{offset}),
               {},
               {}};
  for (const Value size : parts.getSizes()) array.sizes.push_back(as(b_.getI64Type(), size));
  for (const Value stride : parts.getStrides()) array.strides.push_back(as(b_.getI64Type(), stride));
  emit_contiguous_check(b_, op_, memref, parts.getStrides().back());
  return array;
}

Value CCalls::call(CFunction function, ValueRange arguments) {
  auto module = op_->getParentOfType<ModuleOp>();
  const LLVM::LLVMFunctionType type = function.type(b_.getContext());
  if (!module.lookupSymbol(function.name)) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(module.getBody());
    b_.create<LLVM::LLVMFuncOp>(loc_, function.name, type);
  }
  auto call = b_.create<LLVM::CallOp>(loc_, type, function.name, arguments);
  return call.getNumResults() == 0 ? Value() : call.getResult();
}

void CCalls::require(Value status) {
  const Value bad = b_.create<arith::CmpIOp>(loc_, arith::CmpIPredicate::ne, status, number(0, 32));
  auto branch = b_.create<scf::IfOp>(loc_, bad, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b_);
  b_.setInsertionPointToStart(branch.thenBlock());
  const Value text = call(KVC_FUNCTION(kvc_last_error), {});
  const auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b_.getContext()), {pointer_type()});
  b_.create<LLVM::CallOp>(loc_, type, "kvc_failure", ValueRange{text});
}

}  // namespace mlir::kvc
