// SPDX-License-Identifier: Apache-2.0
// Calls of the C interface as ops of LLVM's dialect. Names, types and offsets are those that the compiler
// reads from the public headers: a function or a field that is renamed there does not compile here.
#pragma once
#include <kvcache.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>

#include <type_traits>

#include "support.h"

namespace mlir::kvc {

template <typename T>
Type c_type(MLIRContext* context) {
  if constexpr (std::is_void_v<T>) {
    return LLVM::LLVMVoidType::get(context);
  } else if constexpr (std::is_pointer_v<T>) {
    return LLVM::LLVMPointerType::get(context);
  } else if constexpr (std::is_same_v<T, float>) {
    return Float32Type::get(context);
  } else {
    static_assert(std::is_integral_v<T>, "a type that no call here has");
    return IntegerType::get(context, 8 * sizeof(T));
  }
}

// The type of a function of the headers.
template <typename F>
struct Signature;
template <typename Result, typename... Arguments>
struct Signature<Result(Arguments...)> {
  static LLVM::LLVMFunctionType get(MLIRContext* context) {
    return LLVM::LLVMFunctionType::get(c_type<Result>(context), {c_type<Arguments>(context)...});
  }
};

struct CFunction {
  const char* name;
  LLVM::LLVMFunctionType (*type)(MLIRContext*);
};
#define KVC_FUNCTION(name) (::mlir::kvc::CFunction{#name, ::mlir::kvc::Signature<decltype(name)>::get})

struct CField {
  size_t offset;
  Type (*type)(MLIRContext*);
};
#define KVC_FIELD(record, field) \
  (::mlir::kvc::CField{offsetof(record, field), ::mlir::kvc::c_type<decltype(record::field)>})

// Elements of a memref as C takes them.
struct CArray {
  Value pointer;
  SmallVector<Value> sizes, strides;  // i64, in elements
};

// Emits calls in place of one op.
class CCalls {
 public:
  CCalls(ConversionPatternRewriter& rewriter, Operation* op) : b_(rewriter), op_(op), loc_(op->getLoc()) {}

  OpBuilder& builder() { return b_; }
  Location loc() const { return loc_; }
  Type pointer_type() const { return LLVM::LLVMPointerType::get(b_.getContext()); }

  Value number(int64_t value, unsigned bits = 64);
  Value real(float value);
  Value null();
  // An index or an integer as an integer of this type, and back.
  Value as(Type type, Value value);
  Value as_index(Value value) { return as(b_.getIndexType(), value); }

  // Memory of the function for one value, or for a record, whose bytes are 0.
  Value memory_of(Type type);
  Value memory_of_bytes(size_t bytes);
  template <typename Record>
  Value record() {
    const Value memory = memory_of_bytes(sizeof(Record));
    set(memory, KVC_FIELD(Record, struct_size), number(sizeof(Record)));
    return memory;
  }
  void set(Value record, CField field, Value value);
  Value get(Value record, CField field);
  Value load(Type type, Value pointer);

  CArray array(Value memref);

  // The result of the call; null if it has none.
  Value call(CFunction function, ValueRange arguments);
  // Ends the program with the library's text unless the status is 0.
  void require(Value status);
  // The call, which must succeed.
  void must(CFunction function, ValueRange arguments) { require(call(function, arguments)); }

 private:
  ConversionPatternRewriter& b_;
  Operation* op_;
  Location loc_;
};

}  // namespace mlir::kvc
