// SPDX-License-Identifier: Apache-2.0
// kvc-plan-workspace: buffers that a function uses one after the other share one allocation, whose size is
// computed when the function begins.
//
// A buffer of static size has a place that first fit finds. Behind these lie those of dynamic size, in slots:
// buffers that are never in use together are in one slot, as large as the largest. Only buffers that are
// certainly allocated count, so that no branch that is not taken makes the workspace large.
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
constexpr int64_t kNoMemory = int64_t{1} << 48;  // more than a process can address
constexpr size_t kMaxDynamic = 4096;             // their sum, each at most kNoMemory, is a number of 64 bits

// A buffer, the ops (numbered in the order of the text) from its allocation to its last use, and its place.
struct Buffer {
  memref::AllocOp alloc;
  int64_t first, last, bytes, offset = 0;  // bytes of one element of each dynamic dimension
  SmallVector<memref::DeallocOp> frees;

  bool dynamic() const { return !alloc->getOperands().empty(); }
  bool meets(const Buffer& other) const { return other.first <= last && first <= other.last; }
};

// Buffers of dynamic size of which no two are in use together.
struct Slot {
  SmallVector<Buffer*> buffers;
  Value offset;
};

struct Planner {
  func::FuncOp function;
  BufferViewFlowAnalysis views;
  DenseMap<Operation*, int64_t> number;
  SmallVector<Buffer> buffers;
  SmallVector<Slot> slots;
  DenseMap<Value, Value> at_beginning;

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

  // Whether the op runs whenever the function does, unless the program ends before.
  bool certain(Operation* op) {
    if (!function.getBody().hasOneBlock()) return false;
    for (Operation* parent = op->getParentOp(); parent != function; parent = parent->getParentOp()) {
      auto loop = dyn_cast<scf::ForOp>(parent);
      if (!loop) return false;
      const auto first = getConstantIntValue(loop.getLowerBound()),
                 end = getConstantIntValue(loop.getUpperBound());
      if (!first || !end || *first >= *end) return false;
    }
    return true;
  }

  // A size of a memref that this function allocates; null for another value.
  static OpFoldResult allocated_size(Value value) {
    auto dim = value.getDefiningOp<memref::DimOp>();
    auto alloc = dim ? dim.getSource().getDefiningOp<memref::AllocOp>() : memref::AllocOp();
    const std::optional<int64_t> at = alloc ? dim.getConstantIndex() : std::nullopt;
    if (!at || *at < 0 || *at >= alloc.getType().getRank()) return {};
    if (alloc.getType().isDynamicDim(*at))
      return OpFoldResult(alloc.getDynamicSizes()[alloc.getType().getDynamicDimIndex(*at)]);
    return OpFoldResult(Builder(alloc.getContext()).getIndexAttr(alloc.getType().getDimSize(*at)));
  }

  // Whether a number can be computed when the function begins.
  bool known(Value value, int depth = 0) {
    if (auto argument = dyn_cast<BlockArgument>(value)) return argument.getOwner() == &function.front();
    if (const OpFoldResult size = allocated_size(value))
      return isa<Attribute>(size) || known(cast<Value>(size), depth);
    Operation* op = value.getDefiningOp();
    return depth < 16 && op->getNumRegions() == 0 && isPure(op) &&
           llvm::all_of(op->getOperands(), [&](Value it) { return known(it, depth + 1); });
  }

  // The number, computed there.
  Value compute(OpBuilder& b, Value value) {
    if (isa<BlockArgument>(value)) return value;
    if (const Value found = at_beginning.lookup(value)) return found;
    Value result;
    if (const OpFoldResult size = allocated_size(value)) {
      result = isa<Attribute>(size) ? getValueOrCreateConstantIndexOp(b, value.getLoc(), size)
                                    : compute(b, cast<Value>(size));
    } else {
      IRMapping mapping;
      Operation* op = value.getDefiningOp();
      for (const Value operand : op->getOperands()) mapping.map(operand, compute(b, operand));
      result = b.clone(*op, mapping)->getResult(cast<OpResult>(value).getResultNumber());
    }
    at_beginning[value] = result;
    return result;
  }

  bool fits(memref::AllocOp alloc) {
    const MemRefType type = alloc.getType();
    if (!type.getLayout().isIdentity() || type.getMemorySpace()) return false;
    if (!type.hasStaticShape() && (!certain(alloc) || !llvm::all_of(alloc.getDynamicSizes(), [&](Value it) {
          return known(it);
        }) || buffers.size() >= kMaxDynamic))
      return false;
    if (!type.getElementType().isIntOrFloat() || type.getElementTypeBitWidth() % 8 != 0) return false;
    if (alloc.getAlignment().value_or(1) > kAlignment) return false;
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    for (const int64_t size : type.getShape()) {
      if (ShapedType::isDynamic(size)) continue;
      if (size == 0 || bytes > kMaxBytes / size) return false;
      bytes *= size;
    }
    return true;
  }

  // Whether the op reads or writes the memory while it runs, and neither frees it nor keeps it.
  static bool only_uses(Operation* user) {
    if (isa<memref::DimOp>(user)) return true;
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
    int64_t bytes = alloc.getType().getElementTypeBitWidth() / 8;
    for (const int64_t size : alloc.getType().getShape()) bytes *= ShapedType::isDynamic(size) ? 1 : size;
    Buffer buffer{alloc, number[alloc], 0, bytes, 0, {}};
    Operation* last = last_use(buffer);
    if (!last) return;
    // What is in the last op belongs to it.
    last->walk([&](Operation* op) { buffer.last = std::max(buffer.last, number[op]); });
    buffers.push_back(std::move(buffer));
  }

  // The lowest place that is free as long as the buffer is used; for one of dynamic size the first such slot.
  // Returns the size of those of static size.
  int64_t place() {
    int64_t size = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].dynamic()) {
        auto* slot = llvm::find_if(slots, [&](const Slot& it) {
          return llvm::none_of(it.buffers, [&](const Buffer* other) { return buffers[i].meets(*other); });
        });
        if (slot == slots.end()) slot = &slots.emplace_back();
        slot->buffers.push_back(&buffers[i]);
        continue;
      }
      SmallVector<std::pair<int64_t, int64_t>> taken;
      for (size_t j = 0; j < i; ++j) {
        const Buffer& other = buffers[j];
        if (!other.dynamic() && buffers[i].meets(other))
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

  // Bytes of a buffer, as a multiple of the alignment: at most kNoMemory, whatever the sizes are.
  Value bytes_of(OpBuilder& b, Buffer& buffer) {
    const Location loc = buffer.alloc.getLoc();
    const auto number = [&](int64_t value) -> Value { return b.create<arith::ConstantIndexOp>(loc, value); };
    const Value most = number(kNoMemory);
    Value bytes = number(buffer.bytes);
    for (const Value size : buffer.alloc.getDynamicSizes()) {
      auto product = b.create<arith::MulUIExtendedOp>(loc, bytes, compute(b, size));
      const Value fits_one =
          b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, product.getHigh(), number(0));
      const Value least = b.create<arith::MinUIOp>(loc, product.getLow(), most);
      bytes = b.create<arith::SelectOp>(loc, fits_one, least, most);
    }
    const Value more = b.create<arith::AddIOp>(loc, bytes, number(kAlignment - 1));
    const Value units = b.create<arith::DivUIOp>(loc, more, number(kAlignment));
    return b.create<arith::MulIOp>(loc, units, number(kAlignment));
  }

  // The size of the workspace; slots get their offsets.
  Value total(OpBuilder& b, int64_t static_size) {
    const Location loc = function.getLoc();
    Value size = b.create<arith::ConstantIndexOp>(loc, llvm::alignTo(static_size, kAlignment));
    for (Slot& slot : slots) {
      Value largest;
      for (Buffer* buffer : slot.buffers) {
        const Value bytes = bytes_of(b, *buffer);
        largest = largest ? b.create<arith::MaxUIOp>(loc, largest, bytes).getResult() : bytes;
      }
      slot.offset = size;
      size = b.create<arith::AddIOp>(loc, size, largest);
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
    const auto bytes = MemRefType::get({slots.empty() ? size : ShapedType::kDynamic}, b.getI8Type());
    SmallVector<Value> sizes;
    if (!slots.empty()) sizes.push_back(total(b, size));
    const Value workspace =
        b.create<memref::AllocOp>(function.getLoc(), bytes, sizes, b.getI64IntegerAttr(kAlignment));
    DenseMap<Buffer*, Value> offsets;
    for (Slot& slot : slots) {
      for (Buffer* buffer : slot.buffers) offsets[buffer] = slot.offset;
    }
    for (Buffer& buffer : buffers) {
      b.setInsertionPoint(buffer.alloc);
      Value at = offsets.lookup(&buffer);
      if (!at) at = b.create<arith::ConstantIndexOp>(buffer.alloc.getLoc(), buffer.offset);
      const Value view = b.create<memref::ViewOp>(buffer.alloc.getLoc(), buffer.alloc.getType(), workspace,
                                                  at, buffer.alloc.getDynamicSizes());
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
