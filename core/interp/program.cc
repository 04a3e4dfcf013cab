// SPDX-License-Identifier: MIT
#include "core/interp/program.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/dtype.h"
#include "core/ir/mma.h"
#include "core/ir/shape.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::interp {

using ir::Dtype;
using ir::Op;
using ir::UOp;

class ProgramMaker {
 public:
  ProgramMaker(ir::UOpContext& ctx, std::span<const std::string> variables,
               std::span<const MatrixInstruction> matrix_instructions)
      : ctx_(ctx), variables_(variables) {
    out_.matrix_.assign(matrix_instructions.begin(), matrix_instructions.end());
  }

  absl::StatusOr<Program> Run(UOp linear) {
    out_.variables_ = variables_.size();
    for (UOp u : linear.srcs()) {
      absl::Status status = Line(u);
      if (!status.ok()) return WithFrame(std::move(status), Cat("line ", line_, " of the kernel"));
      ++line_;
    }
    if (!open_.empty()) return Bad("a RANGE has no END");
    if (in_role_) return Bad("a ROLE has no ROLE_END");
    out_.stored_.resize(out_.arrays_.size());
    for (const Instruction& in : out_.instructions_) {
      if (in.kind == Kind::kStore || in.kind == Kind::kAsyncCopy || in.kind == Kind::kBulkCopy)
        out_.stored_[in.array] = true;
      if (in.kind == Kind::kWmmaBlock) out_.stored_[in.arrays[0]] = true;
    }
    return std::move(out_);
  }

 private:
  static absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

  uint32_t Lanes(UOp u) {
    const ir::Shape* shape = ctx_.ShapeOf(u);
    return shape == nullptr || shape->empty() ? 0 : static_cast<uint32_t>((*shape)[0].const_int());
  }

  absl::StatusOr<Operand> Source(UOp u) {
    if (const auto it = values_.find(u.id()); it != values_.end()) return it->second;
    if (!u.Is(Op::CONST)) return Bad(Cat("a source, ", Name(u.op()), ", is no earlier line"));
    Value v;
    if (ir::IsFloat(u.dtype())) {
      v.f = u.const_float();
    } else {
      v.i = u.const_int();
    }
    const Operand made = NewRegister(0);
    out_.constants_.push_back({made.reg, v});
    values_[u.id()] = made;
    return made;
  }

  Operand NewRegister(uint32_t lanes) {
    const Operand out{static_cast<uint32_t>(out_.registers_), lanes};
    out_.registers_ += std::max<uint32_t>(1, lanes);
    return out;
  }

  absl::Status AddSources(Instruction& in, std::span<const UOp> srcs) {
    for (UOp s : srcs) {
      UOPD_ASSIGN(const Operand made, Source(s));
      in.src.push_back(made);
      in.src_dtypes.push_back(s.dtype());
    }
    return absl::OkStatus();
  }

  // The array below `u`, a PARAM, BUFFER or AFTER.
  absl::StatusOr<uint32_t> ArrayOf(UOp u) {
    const UOp base = ir::MaybeBaseOf(u);
    const auto it = base ? arrays_.find(base.id()) : arrays_.end();
    if (it == arrays_.end()) return Bad("an INDEX is of no array that an earlier line declares");
    return it->second;
  }

  absl::Status AddIndex(Instruction& in, UOp index) {
    UOPD_ASSIGN(in.array, ArrayOf(index.src(0)));
    in.number = index.arg().AsInt();
    in.gated = index.n_src() == 3;
    return AddSources(in, index.srcs().subspan(1, 1));
  }

  void Declare(UOp u, ir::AddrSpace space) {
    arrays_[u.id()] = static_cast<uint32_t>(out_.arrays_.size());
    const int64_t elements = ir::Product(ir::MaxDims(ctx_, *ctx_.ShapeOf(u)));
    out_.arrays_.push_back({space, u.dtype(), elements, u.slot()});
    if (ir::IsShared(u)) out_.arrays_.back().offset = shared_.Place(ctx_, u);
  }

  // One line as text: its op, dtype, arg and the numbers of its sources' lines.
  std::string TextOf(UOp u) {
    std::string out = Cat(Name(u.op()), "<", Name(u.dtype()), ">");
    for (UOp s : u.srcs()) {
      const auto it = lines_.find(s.id());
      if (it != lines_.end()) {
        Append(out, " %", it->second);
      } else if (s.Is(Op::CONST)) {
        Append(out, " ", ir::IsFloat(s.dtype()) ? Cat(s.const_float()) : Cat(s.const_int()));
      }
    }
    return out;
  }

  absl::Status Line(UOp u) {
    out_.texts_.push_back(TextOf(u));
    lines_[u.id()] = line_;
    Instruction in;
    in.op = u.op();
    in.dtype = u.dtype();
    in.line = line_;
    if (!out_.roles_.empty() && !in_role_ && !u.Is(Op::ROLE)) return Bad("a line behind a role");
    switch (u.op()) {
      case Op::PARAM:
      case Op::BUFFER:
        Declare(u, u.Is(Op::PARAM) ? ir::AddrSpace::GLOBAL : u.addrspace());
        return absl::OkStatus();
      case Op::INDEX:
      case Op::GROUP:
        return absl::OkStatus();  // its LOADs and STOREs compute the address
      case Op::AFTER:
        if (!u.src(0).Is({Op::PARAM, Op::BUFFER, Op::AFTER})) {
          UOPD_ASSIGN(values_[u.id()], Source(u.src(0)));
        }
        return absl::OkStatus();
      case Op::DEFINE_VAR: {
        const auto it = std::ranges::find(variables_, u.text());
        if (it == variables_.end()) return Bad(Cat("variable ", u.text(), " is not listed"));
        in.kind = Kind::kVariable;
        in.number = it - variables_.begin();
        break;
      }
      case Op::SPECIAL: {
        in.kind = Kind::kSpecial;
        in.numbers.assign(u.ints().begin(), u.ints().end());
        if (in.numbers[1] < 0 || in.numbers[1] > 2) return Bad("a SPECIAL has no such dimension");
        const auto type = static_cast<ir::AxisType>(in.numbers[0]);
        if (type == ir::AxisType::GLOBAL || type == ir::AxisType::LOCAL) {
          out_.has_blocks_ = true;
          if (type == ir::AxisType::LOCAL && u.src(0).Is(Op::CONST))
            out_.block_size_[in.numbers[1]] = u.src(0).const_int();
        } else if (type != ir::AxisType::THREAD) {
          return Bad("a SPECIAL is of no known kind");
        }
        break;
      }
      case Op::RANGE:
        in.kind = Kind::kRange;
        in.number = u.tag();
        UOPD_TRY(AddSources(in, u.srcs().first(1)));
        open_.push_back(static_cast<uint32_t>(out_.instructions_.size()));
        break;
      case Op::END: {
        if (u.n_src() != 2 || open_.empty()) return Bad("an END closes other than one loop");
        in.kind = Kind::kEnd;
        in.end = open_.back();
        open_.pop_back();
        out_.instructions_[in.end].end = static_cast<uint32_t>(out_.instructions_.size());
        out_.instructions_.push_back(std::move(in));
        return absl::OkStatus();
      }
      case Op::BARRIER:
        in.kind = Kind::kBarrier;
        out_.has_barriers_ = true;
        break;
      case Op::LOAD:
        in.kind = Kind::kLoad;
        UOPD_TRY(AddIndex(in, u.src(0)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(0).srcs().subspan(2, 1)));
        break;
      case Op::STORE:
        in.kind = Kind::kStore;
        UOPD_TRY(AddIndex(in, u.src(0)));
        UOPD_TRY(AddSources(in, u.srcs().subspan(1, 1)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(0).srcs().subspan(2, 1)));
        break;
      case Op::STACK:
        in.kind = Kind::kStack;
        UOPD_TRY(AddSources(in, u.srcs()));
        break;
      case Op::GEP:
        in.kind = Kind::kLane;
        in.number = u.arg().AsInt();
        UOPD_TRY(AddSources(in, u.srcs()));
        break;
      case Op::SHUFFLE:
        in.kind = Kind::kShuffle;
        in.number = u.arg().AsInt();
        UOPD_TRY(AddSources(in, u.srcs()));
        break;
      case Op::WMMA_BLOCK:
        in.kind = Kind::kWmmaBlock;
        in.numbers.assign(u.ints().begin(), u.ints().end());
        for (UOp index : u.srcs()) {
          UOPD_TRY(AddIndex(in, index));
          in.arrays.push_back(in.array);
        }
        break;
      case Op::MMA: {
        in.kind = Kind::kMma;
        const ir::Mma mma = ir::Mma::Of(u);
        const auto same = [&](const MatrixInstruction& i) {
          return i.of_warp() && i.m == mma.m && i.n == mma.n && i.k == mma.k &&
                 static_cast<int64_t>(i.a) == mma.a && static_cast<int64_t>(i.b) == mma.b &&
                 i.sum == ir::NumberOf(u.dtype()) && i.sum_place.lanes() == mma.lanes;
        };
        const auto it = std::ranges::find_if(out_.matrix_, same);
        if (it == out_.matrix_.end()) return Bad("the target has no such matrix instruction");
        in.matrix = it - out_.matrix_.begin();
        out_.group_lanes_ = std::max(out_.group_lanes_, mma.lanes);
        UOPD_TRY(AddSources(in, u.srcs()));
        break;
      }
      case Op::GROUP_MMA: {
        in.kind = Kind::kGroupMma;
        in.group = ir::GroupMma::Of(u);
        in.dtype = u.src(0).dtype();
        const auto same = [&](const MatrixInstruction& i) {
          return i.in_shared() && i.m == in.group.m && i.n == in.group.n && i.k == in.group.k &&
                 static_cast<int64_t>(i.a) == in.group.a &&
                 static_cast<int64_t>(i.b) == in.group.b && i.sum == ir::NumberOf(in.dtype) &&
                 i.sum_place.lanes() == in.group.lanes;
        };
        const auto it = std::ranges::find_if(out_.matrix_, same);
        if (it == out_.matrix_.end()) return Bad("the target has no such matrix instruction");
        in.matrix = it - out_.matrix_.begin();
        out_.group_lanes_ = std::max(out_.group_lanes_, in.group.lanes);
        for (UOp index : u.srcs()) {
          UOPD_TRY(AddIndex(in, index));
          in.arrays.push_back(in.array);
        }
        break;
      }
      case Op::MMA_BEGIN:
      case Op::MMA_WAIT:
        in.kind = u.Is(Op::MMA_BEGIN) ? Kind::kMmaBegin : Kind::kMmaWait;
        for (UOp index : u.srcs()) {
          UOPD_ASSIGN(const uint32_t array, ArrayOf(index.src(0)));
          in.arrays.push_back(array);
        }
        if (u.Is(Op::MMA_WAIT)) in.number = u.arg().AsInt();
        break;
      case Op::MMA_COMMIT:
        in.kind = Kind::kMmaCommit;
        break;
      case Op::SHARED_FENCE:
        in.kind = Kind::kSharedFence;
        break;
      case Op::MATRIX_LOAD:
        in.kind = Kind::kMatrixLoad;
        in.numbers.assign(u.ints().begin(), u.ints().end());
        UOPD_TRY(AddIndex(in, u.src(0)));
        break;
      case Op::ASYNC_COPY: {
        in.kind = Kind::kAsyncCopy;
        UOPD_TRY(AddIndex(in, u.src(1)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(1).srcs().subspan(2, 1)));
        in.from = std::move(in.src);
        in.from_array = in.array;
        in.from_gated = in.gated;
        in.src.clear();
        in.src_dtypes.clear();
        UOPD_TRY(AddIndex(in, u.src(0)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(0).srcs().subspan(2, 1)));
        break;
      }
      case Op::BULK_INIT:
      case Op::BULK_EXPECT:
      case Op::BULK_ARRIVE:
        in.kind = u.Is(Op::BULK_INIT)     ? Kind::kBulkInit
                  : u.Is(Op::BULK_EXPECT) ? Kind::kBulkExpect
                                          : Kind::kBulkArrive;
        UOPD_TRY(AddIndex(in, u.src(0)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(0).srcs().subspan(2, 1)));
        if (u.Is(Op::BULK_EXPECT)) in.numbers.assign(u.ints().begin(), u.ints().end());
        if (u.Is(Op::BULK_INIT)) in.numbers = {u.arg().AsInt()};
        break;
      case Op::BULK_COPY: {
        in.kind = Kind::kBulkCopy;
        in.map = *ir::MaybeTensorMap(u);
        UOPD_ASSIGN(in.from_array, ArrayOf(u.src(1)));
        UOPD_TRY(AddIndex(in, u.src(2)));
        UOPD_TRY(AddSources(in, u.srcs().subspan(3)));
        in.arrays = {in.array};
        in.from = std::move(in.src);
        in.src.clear();
        in.src_dtypes.clear();
        UOPD_TRY(AddIndex(in, u.src(0)));
        if (in.gated) UOPD_TRY(AddSources(in, u.src(0).srcs().subspan(2, 1)));
        break;
      }
      case Op::BULK_WAIT:
        in.kind = Kind::kBulkWait;
        UOPD_TRY(AddIndex(in, u.src(0)));
        UOPD_TRY(AddSources(in, u.srcs().subspan(1, 1)));
        break;
      case Op::ROLE:
        if (in_role_ || !open_.empty()) return Bad("a ROLE in a loop or in another one");
        in.kind = Kind::kRole;
        in.role = ir::WarpRole::Of(u);
        out_.roles_.push_back(static_cast<uint32_t>(out_.instructions_.size()));
        in_role_ = true;
        break;
      case Op::ROLE_END:
        if (!in_role_ || !open_.empty()) return Bad("a ROLE_END closes no ROLE");
        in.kind = Kind::kRoleEnd;
        in.end = out_.roles_.back();
        out_.instructions_[in.end].end = static_cast<uint32_t>(out_.instructions_.size());
        in_role_ = false;
        break;
      case Op::ASYNC_COMMIT:
        in.kind = Kind::kAsyncCommit;
        break;
      case Op::ASYNC_WAIT:
        in.kind = Kind::kAsyncWait;
        in.number = u.arg().AsInt();
        break;
      case Op::WMMA:
        in.numbers.assign(u.ints().begin(), u.ints().end());
        UOPD_TRY(AddSources(in, u.srcs()));
        in.alu = AluOf(in);
        break;
      default:
        if (!u.Is(ir::kElementwiseOps))
          return absl::UnimplementedError(Cat("the interpreter does not know ", Name(u.op())));
        UOPD_TRY(AddSources(in, u.srcs()));
        in.alu = AluOf(in);
    }
    if (u.dtype() != Dtype::Void || u.Is(Op::RANGE)) {
      in.out = NewRegister(Lanes(u));
      values_[u.id()] = in.out;
    }
    out_.instructions_.push_back(std::move(in));
    return absl::OkStatus();
  }

  ir::UOpContext& ctx_;
  const std::span<const std::string> variables_;
  Program out_;
  ir::SharedLayout shared_;
  uint32_t line_ = 0;
  absl::flat_hash_map<uint32_t, Operand> values_;
  absl::flat_hash_map<uint32_t, uint32_t> arrays_, lines_;
  std::vector<uint32_t> open_;  // RANGEs without END so far
  bool in_role_ = false;
};

absl::StatusOr<Program> Program::Make(ir::UOpContext& ctx, UOp linear,
                                      std::span<const std::string> variables,
                                      std::span<const MatrixInstruction> matrix_instructions) {
  return ProgramMaker(ctx, variables, matrix_instructions).Run(linear);
}

}  // namespace uopd::interp
