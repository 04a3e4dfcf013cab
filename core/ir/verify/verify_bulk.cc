// SPDX-License-Identifier: MIT
#include "core/ir/verify/op_rules.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/text.h"
#include "core/ir/shared_array.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {
namespace {

constexpr OpSet kBulkOps = {Op::BULK_INIT, Op::BULK_EXPECT, Op::BULK_COPY, Op::BULK_WAIT,
                            Op::BULK_ARRIVE};

absl::Status BadBulk(const std::string& message) { return absl::InvalidArgumentError(message); }

constexpr int64_t kMostArrivals = (1 << 20) - 1;  // of a phase, by the hardware

bool IsBulkIndex(Dtype d) { return d == Dtype::Index || d == Dtype::I32 || d == Dtype::I64; }

uint32_t BulkArray(UOp index) {
  const UOp base = index.Is(Op::INDEX) ? MaybeBaseOf(index.src(0)) : UOp();
  return base ? base.id() : 0;
}

UOp BarrierOf(UOp u) { return u.src(u.Is(Op::BULK_COPY) ? 2 : 0); }

absl::Status VerifyBarrier(UOp u) {
  const UOp index = BarrierOf(u);
  const UOp base = index.Is(Op::INDEX) ? MaybeBaseOf(index.src(0)) : UOp();
  if (!base || !IsShared(base) || base.dtype() != Dtype::U64)
    return BadBulk(Cat(Name(u.op()), " of a barrier that is no shared u64"));
  const int64_t lanes = index.arg().AsInt();
  if (lanes != 0 && !u.Is(Op::BULK_INIT))
    return BadBulk(Cat(Name(u.op()), " of ", lanes, " barriers"));
  if (index.n_src() == 3 && u.Is({Op::BULK_COPY, Op::BULK_WAIT}))
    return BadBulk(Cat(Name(u.op()), " of a barrier with a gate"));
  return absl::OkStatus();
}

absl::Status VerifyBulkCopy(UOp u) {
  const auto map = MaybeTensorMap(u);
  if (!map) return BadBulk("BULK_COPY of no tensor in a buffer");
  if (const std::string wrong = map->MaybeWrong(); !wrong.empty())
    return BadBulk(Cat("BULK_COPY, where ", wrong));
  const UOp to = u.src(0);
  if (!to.Is(Op::INDEX) || to.dtype() != Dtype::U32 || to.arg().AsInt() != 0 ||
      !MaybeBaseOf(to.src(0)) || !IsShared(MaybeBaseOf(to.src(0))))
    return BadBulk("BULK_COPY to something that is no word of a shared array");
  if (u.n_src() != 3 + map->rank())
    return BadBulk(Cat("BULK_COPY of a tensor of ", map->rank(), " dimensions at ", u.n_src() - 3,
                       " coordinates"));
  for (UOp s : u.srcs().subspan(3)) {
    if (!IsBulkIndex(s.dtype()))
      return BadBulk(Cat("BULK_COPY at a coordinate of dtype ", Name(s.dtype())));
  }
  return absl::OkStatus();
}

class BulkOrder {
 public:
  BulkOrder(std::span<const UOp> lines, UOp* maybe_culprit)
      : lines_(lines), maybe_culprit_(maybe_culprit), end_(lines.size()) {
    std::vector<size_t> open;
    for (size_t i = 0; i < lines.size(); ++i) {
      const UOp u = lines[i];
      if (u.Is(Op::RANGE)) open.push_back(i);
      if (u.Is(kBulkOps)) {
        barriers_.insert(BulkArray(BarrierOf(u)));
        if (first_ == kNone) first_ = i;
        last_ = i;
      }
      if (u.Is(Op::BULK_COPY)) {
        auto& of = barriers_of_[BulkArray(u.src(0))];
        of.insert(BulkArray(u.src(2)));
      }
      if (!u.Is(Op::END)) continue;
      for (size_t k = 1; k < u.n_src() && !open.empty(); ++k) {
        end_[open.back()] = i;
        open.pop_back();
      }
    }
  }

  absl::Status Run() {
    if (first_ == kNone) return absl::OkStatus();
    std::vector<size_t> loops;
    for (size_t i = 0; i < lines_.size(); ++i) {
      for (; !loops.empty() && end_[loops.back()] < i; loops.pop_back()) {
        ForgetWaits(loops.back());  // it may have had no iteration
      }
      if (absl::Status s = Line(i, loops.empty()); !s.ok()) {
        if (maybe_culprit_ != nullptr) *maybe_culprit_ = lines_[i];
        return s;
      }
      if (lines_[i].Is(Op::RANGE)) loops.push_back(i);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // The barriers that the lines of a loop wait for, or that its copies signal, are waited for anew
  // in each iteration and behind the loop.
  void ForgetWaits(size_t range) {
    for (size_t i = range + 1; i < end_[range]; ++i) {
      if (lines_[i].Is({Op::BULK_COPY, Op::BULK_WAIT}))
        waited_.erase(BulkArray(BarrierOf(lines_[i])));
    }
  }

  absl::Status Line(size_t i, bool in_no_loop) {
    const UOp u = lines_[i];
    if (u.Is(kBulkOps)) return Bulk(u, in_no_loop);
    if (u.Is(Op::RANGE)) {
      // [RANGE, END] and the lines of copies have one in common.
      if (u.tag() != 0 && i <= last_ && end_[i] >= first_)
        return BadBulk("a loop polls, and may end the kernel while copies run");
      ForgetWaits(i);
    }
    if (u.Is(Op::BARRIER)) ready_.insert(made_.begin(), made_.end());
    if (!u.Is({Op::LOAD, Op::STORE, Op::MATRIX_LOAD, Op::ASYNC_COPY, Op::GROUP_MMA}))
      return absl::OkStatus();
    for (size_t k = 0; k < u.n_src(); ++k) {
      const uint32_t array = BulkArray(u.src(k));
      if (array == 0) continue;
      if (barriers_.contains(array)) return BadBulk(Cat(Name(u.op()), " of a barrier of copies"));
      const auto it = barriers_of_.find(array);
      if (it == barriers_of_.end()) continue;
      if (k == 0 && u.Is({Op::STORE, Op::ASYNC_COPY}))
        return BadBulk(Cat(Name(u.op()), " to an array that BULK_COPYs fill"));
      if (!waited_.contains(*it->second.begin()))
        return BadBulk(Cat(Name(u.op()), " of what a BULK_COPY fills without a BULK_WAIT"));
    }
    return absl::OkStatus();
  }

  absl::Status Bulk(UOp u, bool in_no_loop) {
    const uint32_t array = BulkArray(BarrierOf(u));
    if (u.Is(Op::BULK_INIT)) {
      if (!in_no_loop) return BadBulk("BULK_INIT in a loop");
      made_.insert(array);
      return absl::OkStatus();
    }
    if (!made_.contains(array)) return BadBulk(Cat(Name(u.op()), " without a BULK_INIT"));
    if (!ready_.contains(array))
      return BadBulk(Cat(Name(u.op()), " without a BARRIER after the BULK_INIT"));
    if (u.Is(Op::BULK_WAIT)) waited_.insert(array);
    if (u.Is(Op::BULK_COPY) && barriers_of_.at(BulkArray(u.src(0))).size() > 1)
      return BadBulk("BULK_COPYs to one array have barriers of several arrays");
    return absl::OkStatus();
  }

  const std::span<const UOp> lines_;
  UOp* maybe_culprit_;
  std::vector<size_t> end_;                                        // RANGE -> its END
  size_t first_ = kNone, last_ = 0;                                // lines of kBulkOps
  std::set<uint32_t> barriers_;                                    // arrays of barriers
  absl::flat_hash_map<uint32_t, std::set<uint32_t>> barriers_of_;  // by array that copies fill
  std::set<uint32_t> made_, ready_, waited_;                       // arrays of barriers
};

}  // namespace

absl::Status VerifyBulk(UOp u) {
  UOPD_TRY(VerifyBarrier(u));
  switch (u.op()) {
    case Op::BULK_INIT:
      return u.arg().AsInt() >= 1 && u.arg().AsInt() <= kMostArrivals
                 ? absl::OkStatus()
                 : BadBulk("arg of BULK_INIT is no number of arrivals");
    case Op::BULK_EXPECT: {
      const bool fits =
          u.ints().size() == 1 && u.ints()[0] >= 1 && u.ints()[0] < TensorMap::kMostBytes;
      return fits ? absl::OkStatus() : BadBulk("arg of BULK_EXPECT is no number of bytes");
    }
    case Op::BULK_COPY:
      return VerifyBulkCopy(u);
    case Op::BULK_WAIT:
      return IsBulkIndex(u.src(1).dtype())
                 ? absl::OkStatus()
                 : BadBulk(Cat("BULK_WAIT for a parity of dtype ", Name(u.src(1).dtype())));
    default:
      return absl::OkStatus();
  }
}

absl::Status VerifyBulkOrder(UOp linear, UOp* maybe_culprit) {
  return BulkOrder(linear.srcs(), maybe_culprit).Run();
}

}  // namespace uopd::ir
