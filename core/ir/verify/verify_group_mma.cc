// SPDX-License-Identifier: MIT
#include "core/ir/verify/op_rules.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/ir/group_mma.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {
namespace {

absl::Status BadGroup(const std::string& message) { return absl::InvalidArgumentError(message); }

constexpr int64_t kMostNumber = 1024;

absl::Status VerifyGroupArg(UOp u, Dtype sum, UOp a, UOp b) {
  if (u.ints().size() != GroupMma::kNumbers)
    return BadGroup(Cat("arg of ", Name(u.op()), " is ", GroupMma::kNumbers, " numbers"));
  const GroupMma mma = GroupMma::Of(u);
  for (const int64_t n : {mma.m, mma.n, mma.k, mma.lanes}) {
    if (n < 1 || n > kMostNumber)
      return BadGroup(Cat("a number of the arg of ", Name(u.op()), " is out of range"));
  }
  if (mma.m * mma.n % mma.lanes != 0)
    return BadGroup("lanes of a group have no equal parts of the sum");
  if (!mma.a_matrix.IsValid() || !mma.b_matrix.IsValid())
    return BadGroup(Cat("the operands of ", Name(u.op()), " lie in no such way in shared memory"));
  for (const int64_t number : {mma.a, mma.b}) {
    const auto d = DtypeByWire(static_cast<uint64_t>(number));
    if (!d || *d == Dtype::Void || *d == Dtype::Index || (Bits(*d) > 16 && *d != Dtype::TF32))
      return BadGroup(Cat(Name(u.op()), " of elements of no such dtype"));
    const bool swapped = !mma.a_matrix.along_sum || !mma.b_matrix.along_sum;
    if (swapped && Bits(*d) != 16)
      return BadGroup(Cat(Name(u.op()), " reads only elements of 16 bits across the sum"));
  }
  if (sum != Dtype::F32 && sum != Dtype::I32)
    return BadGroup(Cat(Name(u.op()), " does not give ", Name(sum)));
  for (UOp operand : {a, b}) {
    if (!operand.Is(Op::INDEX) || operand.n_src() != 2 || operand.dtype() != Dtype::U32)
      return BadGroup(Cat(Name(u.op()), " reads words at an INDEX without a gate"));
  }
  return absl::OkStatus();
}

bool IsAccumulator(UOp index, int64_t lanes) {
  return index.Is(Op::INDEX) && index.n_src() == 2 && index.arg().AsInt() == lanes &&
         index.src(1).Is(Op::CONST);
}

uint32_t BaseId(UOp index) {
  const UOp base = MaybeBaseOf(index.src(0));
  return base ? base.id() : 0;
}

class OrderCheck {
 public:
  OrderCheck(std::span<const UOp> lines, UOp* maybe_culprit)
      : lines_(lines), maybe_culprit_(maybe_culprit), end_(lines.size()) {
    std::vector<size_t> open;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].Is(Op::RANGE)) open.push_back(i);
      if (lines[i].Is(Op::GROUP_MMA)) {
        for (size_t k : {1, 2}) read_.insert(BaseId(lines[i].src(k)));
      }
      if (!lines[i].Is(Op::END)) continue;
      for (size_t k = 1; k < lines[i].n_src() && !open.empty(); ++k) {
        end_[open.back()] = i;
        open.pop_back();
      }
    }
  }

  absl::Status Run() {
    absl::Status status = Walk(0, lines_.size());
    if (!status.ok()) return status;
    return InFlight(0, true) ? BadGroup("the kernel ends before its GROUP_MMAs do")
                             : absl::OkStatus();
  }

 private:
  absl::Status Walk(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (absl::Status s = Line(lines_[i]); !s.ok()) {
        if (maybe_culprit_ != nullptr) *maybe_culprit_ = lines_[i];
        return s;
      }
      if (!lines_[i].Is(Op::RANGE) || end_[i] == 0) continue;
      for (int turn = 0; turn < 2; ++turn) UOPD_TRY(Walk(i + 1, end_[i]));
      i = end_[i];
    }
    return absl::OkStatus();
  }

  // Whether a GROUP_MMA may still change the accumulator, or any accumulator.
  bool InFlight(uint32_t id, bool any) const {
    const auto has = [&](const std::set<uint32_t>& batch) {
      return any ? !batch.empty() : batch.contains(id);
    };
    return has(batch_) || std::ranges::any_of(batches_, has);
  }

  absl::Status Line(UOp u) {
    switch (u.op()) {
      case Op::LOAD:
      case Op::STORE: {
        const uint32_t id = BaseId(u.src(0));
        if (InFlight(id, false))
          return BadGroup(
              Cat(Name(u.op()), " of an accumulator that a GROUP_MMA may still change"));
        if (!u.Is(Op::STORE)) break;
        begun_.erase(id);
        if (read_.contains(id)) stored_.insert(id), fenced_.erase(id);
        break;
      }
      case Op::ASYNC_COPY:
        if (read_.contains(BaseId(u.src(0)))) copied_.insert(BaseId(u.src(0)));
        break;
      case Op::ASYNC_WAIT:
        for (const uint32_t id : copied_) stored_.insert(id), fenced_.erase(id);
        break;
      case Op::SHARED_FENCE:
        fenced_.insert(stored_.begin(), stored_.end());
        stored_.clear();
        break;
      case Op::BARRIER:
        fenced_.clear();
        break;
      case Op::MMA_BEGIN:
        for (UOp s : u.srcs()) begun_.insert(BaseId(s));
        break;
      case Op::GROUP_MMA:
        if (!begun_.contains(BaseId(u.src(0))))
          return BadGroup("GROUP_MMA of an accumulator without an MMA_BEGIN");
        for (size_t k : {1, 2}) {
          const uint32_t id = BaseId(u.src(k));
          if (stored_.contains(id)) return BadGroup("GROUP_MMA of an array without a SHARED_FENCE");
          if (fenced_.contains(id)) return BadGroup("GROUP_MMA of an array without a BARRIER");
        }
        batch_.insert(BaseId(u.src(0)));
        break;
      case Op::MMA_COMMIT:
        batches_.push_back(std::move(batch_));
        batch_.clear();
        break;
      case Op::MMA_WAIT:
        while (batches_.size() > static_cast<size_t>(u.arg().AsInt()))
          batches_.erase(batches_.begin());
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  const std::span<const UOp> lines_;
  UOp* maybe_culprit_;
  std::vector<size_t> end_;  // RANGE -> its END
  // Ids of BUFFERs. Shared arrays: those that GROUP_MMAs read; of them those that copies go to,
  // those that were stored to since the last fence, and those that were fenced since the last
  // barrier.
  std::set<uint32_t> read_, copied_, stored_, fenced_;
  std::set<uint32_t> begun_, batch_;         // accumulators
  std::vector<std::set<uint32_t>> batches_;  // the oldest first
};

}  // namespace

absl::Status VerifyGroupProduct(UOp u) {
  if (u.n_src() == 3 && u.src(2).dtype() != u.dtype())
    return BadGroup(Cat("GROUP_PRODUCT adds to ", Name(u.src(2).dtype())));
  return VerifyGroupArg(u, u.dtype(), u.src(0), u.src(1));
}

absl::Status VerifyGroupMma(UOp u) {
  UOPD_TRY(VerifyGroupArg(u, u.src(0).dtype(), u.src(1), u.src(2)));
  if (!IsAccumulator(u.src(0), GroupMma::Of(u).results()))
    return BadGroup("GROUP_MMA adds to something that is no accumulator of its size");
  return absl::OkStatus();
}

absl::Status VerifyAccumulators(UOp u) {
  for (UOp s : u.srcs()) {
    if (!s.Is(Op::INDEX) || !IsAccumulator(s, s.arg().AsInt()))
      return BadGroup(Cat(Name(u.op()), " of something that is no accumulator"));
  }
  return absl::OkStatus();
}

absl::Status VerifyGroupOrder(UOp linear, UOp* maybe_culprit) {
  const auto lines = linear.srcs();
  if (std::ranges::none_of(lines, [](UOp u) { return u.Is(Op::GROUP_MMA); }))
    return absl::OkStatus();
  return OrderCheck(lines, maybe_culprit).Run();
}

}  // namespace uopd::ir
