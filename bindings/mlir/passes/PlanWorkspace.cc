// SPDX-License-Identifier: Apache-2.0
// kvc-plan-workspace: buffers of static size that a function uses one after the other share one allocation.
#include <mlir/Dialect/Bufferization/Transforms/BufferViewFlowAnalysis.h>
#include <mlir/Interfaces/CallInterfaces.h>
#include <mlir/Interfaces/ViewLikeInterface.h>

#include "Passes.h"

namespace mlir::kvc {

#define GEN_PASS_DEF_KVCPLANWORKSPACE
#include "Kvc.passes.h.inc"

namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 40;

// A buffer, the ops (numbered in the order of the text) from its allocation to its last use, and its place.
struct Buffer {
  memref::AllocOp alloc;
  int64_t first, last, bytes, offset = 0;
  SmallVector<memref::DeallocOp> frees;
};

struct Planner {
  func::FuncOp function;
  BufferViewFlowAnalysis views;
  DenseMap<Operation*, int64_t> number;
  SmallVector<Buffer> buffers;

  explicit Planner(func::FuncOp f) : function(f), views(f) {
    int64_t count = 0;
    function->walk<WalkOrder::PreOrder>([&](Operation* op) { number[op] = count++; });
  }

  // Loops and branches that run in one thread, one iteration after the other, straight down to the function.
  bool in_sequence(Operation* op) const {
    for (Operation* parent = op->getParentOp(); parent != function; parent = parent->getParentOp()) {
      if (!isa<scf::ForOp, scf::IfOp, scf::WhileOp>(parent)) return false;
    }
    return true;
  }

  static bool fits(memref::AllocOp alloc) {
    const MemRefType type = alloc.getType();
    if (!type.hasStaticShape() || !type.getLayout().isIdentity() || type.getMemorySpace()) return false;
    if (!type.getElementType().isIntOrFloat() || type.getElementTypeBitWidth() % 8 != 0) return false;
    if (alloc.getAlignment().value_or(1) > kAlignment) return false;
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    for (const int64_t size : type.getShape()) {
      if (size == 0 || bytes > kMaxBytes / size) return false;
      bytes *= size;
    }
    return true;
  }

  // Whether the op reads or writes the memory while it runs, and neither frees it nor keeps it.
  static bool only_uses(Operation* user) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(user);
    if (!effects || isa<CallOpInterface, memref::ExtractAlignedPointerAsIndexOp>(user)) return false;
    if (!llvm::all_of(user->getResultTypes(), [](Type type) {
          return isa<VectorType, RequestType>(type) || type.isIntOrIndexOrFloat();
        })) {
      return false;
    }
    SmallVector<MemoryEffects::EffectInstance> found;
    effects.getEffects(found);
    return !found.empty() && llvm::all_of(found, [](const MemoryEffects::EffectInstance& effect) {
      return isa<MemoryEffects::Read, MemoryEffects::Write>(effect.getEffect());
    });
  }

  // The last op of the allocation's block that contains a use of the buffer or of a view; null if the memory
  // outlives the block, or may be seen by others.
  Operation* last_use(Buffer& buffer) {
    Block* block = buffer.alloc->getBlock();
    Operation* last = buffer.alloc;
    for (const Value view : views.resolve(buffer.alloc.getResult())) {
      Operation* owner = view.getDefiningOp();
      if (!owner || !block->findAncestorOpInBlock(*owner)) return nullptr;
      for (Operation* user : view.getUsers()) {
        if (auto store = dyn_cast<memref::StoreOp>(user); store && store.getValueToStore() == view)
          return nullptr;
        if (auto free = dyn_cast<memref::DeallocOp>(user)) {
          buffer.frees.push_back(free);
        } else if (!isa<ViewLikeOpInterface>(user) && !only_uses(user)) {
          return nullptr;
        }
        Operation* at = block->findAncestorOpInBlock(*user);
        if (!at) return nullptr;
        if (last->isBeforeInBlock(at)) last = at;
      }
    }
    return last;
  }

  void collect(memref::AllocOp alloc) {
    if (!fits(alloc) || !in_sequence(alloc) || alloc->getBlock()->getParent()->getBlocks().size() != 1)
      return;
    const MemRefType type = alloc.getType();
    Buffer buffer{alloc, number[alloc], 0, type.getNumElements() * (type.getElementTypeBitWidth() / 8), 0,
                  {}};
    Operation* last = last_use(buffer);
    if (!last) return;
    // What is in the last op belongs to it.
    last->walk([&](Operation* op) { buffer.last = std::max(buffer.last, number[op]); });
    buffers.push_back(std::move(buffer));
  }

  // The lowest place that is free as long as the buffer is used. Returns the size of the workspace.
  int64_t place() {
    int64_t size = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      SmallVector<std::pair<int64_t, int64_t>> taken;
      for (size_t j = 0; j < i; ++j) {
        const Buffer& other = buffers[j];
        if (other.first <= buffers[i].last && buffers[i].first <= other.last)
          taken.push_back({other.offset, other.offset + other.bytes});
      }
      llvm::sort(taken);
      int64_t offset = 0;
      for (const auto& [begin, end] : taken) {
        if (offset + buffers[i].bytes <= begin) break;
        offset = std::max(offset, static_cast<int64_t>(llvm::alignTo(end, kAlignment)));
      }
      buffers[i].offset = offset;
      size = std::max(size, offset + buffers[i].bytes);
    }
    return size;
  }

  void run() {
    function->walk<WalkOrder::PreOrder>([&](memref::AllocOp alloc) { collect(alloc); });
    const bool in_a_loop =
        llvm::any_of(buffers, [&](Buffer& it) { return it.alloc->getParentOp() != function; });
    if (buffers.size() < 2 && !in_a_loop) return;
    const int64_t size = place();
    OpBuilder b = OpBuilder::atBlockBegin(&function.getBody().front());
    const auto bytes = MemRefType::get({size}, b.getI8Type());
    const Value workspace =
        b.create<memref::AllocOp>(function.getLoc(), bytes, b.getI64IntegerAttr(kAlignment));
    for (Buffer& buffer : buffers) {
      b.setInsertionPoint(buffer.alloc);
      const Value at = b.create<arith::ConstantIndexOp>(buffer.alloc.getLoc(), buffer.offset);
      const Value view = b.create<memref::ViewOp>(buffer.alloc.getLoc(), buffer.alloc.getType(), workspace,
                                                  at, ValueRange{});
      for (memref::DeallocOp free : buffer.frees) free->erase();
      buffer.alloc->replaceAllUsesWith(ValueRange{view});
      buffer.alloc->erase();
    }
    for (Block& block : function.getBody()) {
      if (!isa<func::ReturnOp>(block.getTerminator())) continue;
      b.setInsertionPoint(block.getTerminator());
      b.create<memref::DeallocOp>(function.getLoc(), workspace);
    }
  }
};

struct PlanWorkspace : impl::KvcPlanWorkspaceBase<PlanWorkspace> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isExternal()) Planner(function).run();
  }
};

}  // namespace
}  // namespace mlir::kvc
