// SPDX-License-Identifier: MIT
#include "tests/support/schedule_interpreter.h"

#include <unordered_map>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/wire.h"

namespace uopd::testing {
namespace {

using ir::Op;
using ir::Scalar;
using ir::UOp;

// Evaluates one kernel by walking its ranges; a value is computed anew for every iteration it depends on.
class KernelRunner {
 public:
  KernelRunner(ir::UOpContext& ctx, std::vector<std::string*> buffers, const std::map<std::string, int64_t>& variables)
      : ctx_(ctx), buffers_(std::move(buffers)), variables_(variables) {}

  absl::Status Run(UOp sink) {
    for (UOp root : sink.srcs()) {
      const bool loops = root.Is(Op::END);
      const UOp store = loops ? root.src(0) : root;
      std::vector<UOp> ranges;
      for (size_t i = 1; loops && i < root.n_src(); ++i) ranges.push_back(root.src(i));
      UOPD_TRY(Loop(ranges, 0, [&] { return Store(store); }));
    }
    return absl::OkStatus();
  }

 private:
  template <class F>
  absl::Status Loop(const std::vector<UOp>& ranges, size_t depth, F body) {
    if (depth == ranges.size()) {
      memo_.clear();
      return body();
    }
    UOPD_ASSIGN(const Scalar size, Eval(ranges[depth].src(0)));
    for (int64_t i = 0; i < size.i; ++i) {
      at_[ranges[depth].id()] = i;
      UOPD_TRY(Loop(ranges, depth + 1, body));
    }
    return absl::OkStatus();
  }

  absl::Status Store(UOp store) {
    if (store.Is(Op::GROUP)) return absl::OkStatus();
    UOPD_ASSIGN(char* at, Address(store.src(0)));
    if (at == nullptr) return absl::OkStatus();
    UOPD_ASSIGN(const Scalar v, Eval(store.src(1)));
    const uint64_t bits = ir::IsFloat(v.dtype) ? ir::EncodeFloat(v.dtype, v.f) : static_cast<uint64_t>(v.i);
    std::memcpy(at, &bits, static_cast<size_t>(ir::ByteSize(v.dtype)));
    return absl::OkStatus();
  }

  // Null where the gate is false.
  absl::StatusOr<char*> Address(UOp index) {
    if (index.n_src() == 3) {
      UOPD_ASSIGN(const Scalar gate, Eval(index.src(2)));
      if (gate.i == 0) return nullptr;
    }
    UOPD_ASSIGN(const Scalar element, Eval(index.src(1)));
    std::string& buffer = *buffers_[static_cast<size_t>(index.src(0).slot())];
    const int64_t width = ir::ByteSize(index.dtype());
    if (element.i < 0 || (element.i + 1) * width > static_cast<int64_t>(buffer.size())) {
      return absl::InternalError(Cat("kernel accesses element ", element.i, " of a buffer of ", buffer.size(), " bytes"));
    }
    return buffer.data() + element.i * width;
  }

  absl::StatusOr<Scalar> Eval(UOp u) {
    if (auto it = memo_.find(u.id()); it != memo_.end()) return it->second;
    UOPD_ASSIGN(const Scalar v, Compute(u));
    if (!u.Is(Op::RANGE)) memo_[u.id()] = v;
    return v;
  }

  absl::StatusOr<Scalar> Compute(UOp u) {
    switch (u.op()) {
      case Op::CONST: return Scalar::Of(u);
      case Op::RANGE: return Scalar::Int(u.dtype(), at_.at(u.id()));
      case Op::DEFINE_VAR: return Scalar::Int(u.dtype(), variables_.at(std::string(u.text())));
      case Op::LOAD: {
        UOPD_ASSIGN(const char* at, Address(u.src(0)));
        uint64_t bits = 0;
        if (at != nullptr) std::memcpy(&bits, at, static_cast<size_t>(ir::ByteSize(u.dtype())));
        if (ir::IsFloat(u.dtype())) return Scalar::Float(u.dtype(), ir::DecodeFloat(u.dtype(), bits));
        return Scalar::Int(u.dtype(), static_cast<ir::Int128>(bits));
      }
      case Op::REDUCE: {
        Scalar sum = ir::ReduceIdentity(u.reduce_op(), u.dtype());
        const std::vector<UOp> ranges(u.srcs().begin() + 1, u.srcs().end());
        const auto outer = memo_;
        UOPD_TRY(Loop(ranges, 0, [&]() -> absl::Status {
          UOPD_ASSIGN(const Scalar v, Eval(u.src(0)));
          const Scalar both[] = {sum, v};
          sum = *ir::EvalAlu(u.reduce_op(), u.dtype(), both);
          return absl::OkStatus();
        }));
        memo_ = outer;
        return sum;
      }
      default: break;
    }
    std::vector<Scalar> operands;
    for (UOp s : u.srcs()) {
      UOPD_ASSIGN(operands.emplace_back(), Eval(s));
    }
    const auto out = ir::EvalAlu(u.op(), u.dtype(), operands);
    if (!out) return absl::InternalError(Cat("op ", ir::Name(u.op()), " in a kernel"));
    return *out;
  }

  ir::UOpContext& ctx_;
  std::vector<std::string*> buffers_;
  const std::map<std::string, int64_t>& variables_;
  std::unordered_map<uint32_t, int64_t> at_;
  std::unordered_map<uint32_t, Scalar> memo_;  // of the current iteration of all open loops
};

}  // namespace

absl::StatusOr<std::vector<HostArray>> RunSchedule(const schedule::Schedule& s, std::vector<HostArray> slots,
                                                   const std::map<std::string, int64_t>& variables) {
  std::vector<std::string> memory;
  for (const HostArray& a : slots) memory.push_back(a.ToBytes());
  std::map<std::string, std::string> arenas;
  for (const auto& [device, bytes] : s.arenas) arenas[device] = std::string(static_cast<size_t>(bytes), '\xa5');
  for (const schedule::Item& item : s.items) {
    // Kernels get copies of the bytes and give them back: overlapping temporaries then show as lost writes.
    std::vector<std::string> held(item.buffers.size());
    std::vector<std::string*> buffers;
    for (size_t i = 0; i < item.buffers.size(); ++i) {
      const schedule::BufferRef& b = item.buffers[i];
      if (b.kind == schedule::BufferRef::kArgument) {
        held[i] = memory[static_cast<size_t>(b.index)];
      } else {
        const schedule::Temporary& t = s.temporaries[static_cast<size_t>(b.index)];
        held[i] = arenas[t.device].substr(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes));
      }
      buffers.push_back(&held[i]);
    }
    if (item.kind == schedule::Item::kCopy) {
      held[0] = held[1];
    } else {
      ir::UOpContext ctx;
      UOPD_ASSIGN(const UOp sink, ir::Decode(ctx, item.graph, ir::Stage::kKernel));
      UOPD_TRY(KernelRunner(ctx, buffers, variables).Run(sink));
    }
    const schedule::BufferRef& out = item.buffers[0];
    if (out.kind == schedule::BufferRef::kArgument) {
      memory[static_cast<size_t>(out.index)] = held[0];
    } else {
      const schedule::Temporary& t = s.temporaries[static_cast<size_t>(out.index)];
      arenas[t.device].replace(static_cast<size_t>(t.offset), static_cast<size_t>(t.bytes), held[0]);
    }
  }
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = HostArray::FromBytes(slots[i].dtype, slots[i].dims, memory[i]);
  return slots;
}

}  // namespace uopd::testing
