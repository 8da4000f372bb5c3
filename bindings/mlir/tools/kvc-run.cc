// SPDX-License-Identifier: Apache-2.0
// kvc-run: compiles a program with the kvc dialect in this process and runs it, by calls of libkvcache, by
// the reference, or by both, whose results it compares.
#include <kvcache.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/ExecutionEngine/ExecutionEngine.h>
#include <mlir/ExecutionEngine/OptUtils.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/Parser/Parser.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>
#include <mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h>

#include <cmath>
#include <cstdio>

#include "dialects.h"

namespace {

using namespace mlir;
namespace cl = llvm::cl;

cl::opt<std::string> input(cl::Positional, cl::desc("<program>"), cl::Required);
cl::opt<std::string> entry("entry",
                           cl::desc("Function to run; its arguments are memrefs of static shape, of f32, "
                                    "f64, i32 or i64, which begin with zeros"),
                           cl::init("main"));
cl::opt<std::string> lowering("lowering", cl::desc("calls, reference, or both"), cl::init("both"));
cl::opt<double> bound("bound", cl::desc("Largest difference of two results, relative to max(1, result)"),
                      cl::init(2e-5));
cl::opt<bool> finite_rows("finite-rows",
                          cl::desc("Queries and rows of caches are finite, which kvc-fuse-attention needs "
                                   "for masks"));
cl::opt<bool> print_results("print", cl::desc("Print the results"));

// Optimisations, which the reference goes without; tensors to memrefs; caches to memrefs in the reference;
// handles to calls; then all that is left to LLVM's dialect.
std::string pipeline(bool reference) {
  const std::string optimise =
      reference ? std::string()
                : std::string("kvc-remove-dead-lookups,kvc-fuse-appends,kvc-fuse-attention{") +
                      (finite_rows ? "finite-rows=true" : "") +
                      "},kvc-hoist-lookups,kvc-narrow-caches,kvc-choose-layout,";
  const std::string tensors =
      "kvc-decompose-softmax,func.func(convert-elementwise-to-linalg),one-shot-bufferize{allow-return-allocs-"
      "from-loops=true "
      "bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map},";
  const std::string caches =
      reference ? "kvc-to-reference,kvc-to-calls," : "func.func(kvc-plan-workspace),kvc-to-calls,";
  return optimise + tensors + caches +
         "canonicalize,cse,func.func(convert-linalg-to-loops),memref-expand,expand-strided-metadata,lower-"
         "affine,"
         "convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-"
         "llvm,"
         "finalize-memref-to-llvm,convert-func-to-llvm{index-bitwidth=64},convert-cf-to-llvm,"
         "reconcile-unrealized-casts";
}

// Memory of one argument, with the descriptor that compiled code takes.
struct Result {
  Type element;
  int64_t size = 1;
  std::vector<char> bytes;
  std::vector<int64_t> descriptor;  // pointer, pointer, offset, sizes, strides
  void* pointer = nullptr;

  double at(int64_t i) const {
    const void* p = bytes.data();
    if (element.isF32()) return static_cast<const float*>(p)[i];
    if (element.isF64()) return static_cast<const double*>(p)[i];
    if (element.isInteger(32)) return static_cast<const int32_t*>(p)[i];
    return static_cast<double>(static_cast<const int64_t*>(p)[i]);
  }
  void print(int64_t i) const {  // so that the number can be read back
    const void* p = bytes.data();
    if (element.isInteger(64)) {
      std::printf(" %lld", static_cast<long long>(static_cast<const int64_t*>(p)[i]));
    } else if (element.isInteger(32)) {
      std::printf(" %d", static_cast<const int32_t*>(p)[i]);
    } else {
      std::printf(" %.*g", element.isF64() ? 17 : 9, at(i));
    }
  }
};

bool make_results(func::FuncOp function, std::vector<Result>& results) {
  results.resize(function.getNumArguments());
  for (size_t i = 0; i < results.size(); ++i) {
    Result& r = results[i];
    const auto type = dyn_cast<MemRefType>(function.getArgumentTypes()[i]);
    if (type) r.element = type.getElementType();
    if (!type || !type.hasStaticShape() || !type.getLayout().isIdentity() ||
        !(r.element.isF32() || r.element.isF64() || r.element.isInteger(32) || r.element.isInteger(64))) {
      function.emitError() << "argument " << i << " is " << function.getArgumentTypes()[i]
                           << "; kvc-run passes memrefs of static shape, of f32, f64, i32 or i64";
      return false;
    }
    r.size = type.getNumElements();
    r.bytes.assign(static_cast<size_t>(r.size) * type.getElementTypeBitWidth() / 8, 0);
    r.descriptor = {reinterpret_cast<int64_t>(r.bytes.data()), reinterpret_cast<int64_t>(r.bytes.data()), 0};
    r.descriptor.insert(r.descriptor.end(), type.getShape().begin(), type.getShape().end());
    int64_t stride = r.size;
    for (const int64_t dim : type.getShape()) r.descriptor.push_back(dim == 0 ? 0 : stride /= dim);
    r.pointer = r.descriptor.data();
  }
  return true;
}

// Runs the program in one of the two ways.
bool run(MLIRContext& context, bool reference, std::vector<Result>& results, int32_t& code) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(input, &context);
  if (!module) return false;
  auto function = module->lookupSymbol<func::FuncOp>(entry);
  if (!function || function.isExternal()) {
    llvm::errs() << "kvc-run: " << input << " does not define func.func @" << entry << "\n";
    return false;
  }
  const FunctionType type = function.getFunctionType();
  const bool returns = type.getNumResults() == 1 && type.getResult(0).isInteger(32);
  if (type.getNumResults() != 0 && !returns) {
    function.emitError() << "has results " << type.getResults() << "; kvc-run takes none, or an i32";
    return false;
  }
  if (!make_results(function, results)) return false;
  function->setAttr("llvm.emit_c_interface", UnitAttr::get(&context));

  PassManager passes(&context);
  if (failed(parsePassPipeline(pipeline(reference), passes, llvm::errs())) || failed(passes.run(*module)))
    return false;

  ExecutionEngineOptions options;
  const auto optimise = makeOptimizingTransformer(/*optLevel=*/2, /*sizeLevel=*/0, /*targetMachine=*/nullptr);
  options.transformer = optimise;
  llvm::Expected<std::unique_ptr<ExecutionEngine>> engine = ExecutionEngine::create(*module, options);
  if (!engine) {
    llvm::errs() << "kvc-run: " << llvm::toString(engine.takeError()) << "\n";
    return false;
  }
  std::vector<void*> arguments;
  for (Result& r : results) arguments.push_back(&r.pointer);
  if (returns) arguments.push_back(&code);
  if (llvm::Error error = (*engine)->invokePacked("_mlir_ciface_" + entry, arguments)) {
    llvm::errs() << "kvc-run: " << llvm::toString(std::move(error)) << "\n";
    return false;
  }
  if (code != 0) llvm::errs() << "kvc-run: @" << entry << " returned " << code << "\n";
  return code == 0;
}

void print(const std::vector<Result>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    std::printf("argument %zu:", i);
    for (int64_t j = 0; j < results[i].size; ++j) results[i].print(j);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  cl::ParseCommandLineOptions(argc, argv, "Runs a program with the kvc dialect on libkvcache\n");
  if (lowering != "calls" && lowering != "reference" && lowering != "both") {
    llvm::errs() << "kvc-run: --lowering is " << lowering << "; use calls, reference or both\n";
    return 2;
  }
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  kvc::register_passes();
  DialectRegistry registry;
  kvc::register_dialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry);

  std::vector<Result> results[2];
  for (const bool reference : {false, true}) {
    if (lowering != (reference ? "calls" : "reference")) {
      int32_t code = 0;
      if (!run(context, reference, results[reference], code)) return 1;
      std::printf("%s: ran on %s %d.%d.%d\n", reference ? "reference" : "calls",
                  reference ? "memrefs, its manager on libkvcache" : "libkvcache", KVC_VERSION_MAJOR,
                  KVC_VERSION_MINOR, KVC_VERSION_PATCH);
      if (print_results) print(results[reference]);
    }
  }
  if (lowering != "both") return 0;

  double largest = 0;
  int64_t count = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    for (int64_t j = 0; j < results[0][i].size; ++j, ++count) {
      const double a = results[0][i].at(j), b = results[1][i].at(j);
      const double distance = std::abs(a - b) / std::max(1.0, std::abs(b));
      if (distance > largest || std::isnan(distance)) largest = distance;
    }
  }
  const bool equal = largest <= bound;
  std::printf("%lld results, largest difference %.3g, bound %.3g: %s\n", static_cast<long long>(count),
              largest, bound.getValue(), equal ? "equal" : "DIFFERENT");
  return equal ? 0 : 1;
}
