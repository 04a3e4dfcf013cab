// SPDX-License-Identifier: MIT
#include "tests/support/bank_conflicts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/codegen/gpu/product/shared_rows.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/dtype.h"
#include "core/ir/shared_array.h"
#include "core/ir/verify/spec.h"

namespace uopd::tests {
namespace {

using ir::Op;
using ir::Scalar;
using ir::UOp;

// The values of integer lines in one thread. Lines that depend on memory have none.
class ThreadValues {
 public:
  explicit ThreadValues(int64_t thread) : thread_(thread) {}

  void Line(UOp u) {
    if (u.Is(Op::SPECIAL)) {
      const bool local = u.ints()[0] == static_cast<int64_t>(ir::AxisType::LOCAL);
      values_[u.id()] = Scalar::Int(u.dtype(), local && u.ints()[1] == 0 ? thread_ : 0);
    } else if (u.Is({Op::RANGE, Op::DEFINE_VAR})) {
      values_[u.id()] = Scalar::Int(u.dtype(), 0);
    } else if (u.Is(ir::kElementwiseOps)) {
      std::vector<Scalar> operands;
      for (UOp s : u.srcs()) {
        const auto x = MaybeValue(s);
        if (!x) return;
        operands.push_back(*x);
      }
      if (const auto out = ir::EvalAlu(u.op(), u.dtype(), operands)) values_[u.id()] = *out;
    }
  }

  std::optional<Scalar> MaybeValue(UOp u) const {
    if (u.Is(Op::CONST)) return Scalar::Of(u);
    const auto it = values_.find(u.id());
    return it == values_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  const int64_t thread_;
  std::map<uint32_t, Scalar> values_;
};

}  // namespace

std::vector<SharedAccess> SharedAccesses(ir::UOpContext& ctx, UOp linear, int64_t lanes) {
  std::vector<ThreadValues> threads;
  for (int64_t t = 0; t < lanes; ++t) threads.emplace_back(t);
  std::vector<SharedAccess> out;
  ir::SharedLayout layout;
  std::map<uint32_t, int64_t> start;  // of an array, in bytes
  for (UOp u : linear.srcs()) {
    for (ThreadValues& t : threads) t.Line(u);
    if (ir::IsShared(u)) start[u.id()] = layout.Place(ctx, u);
    for (UOp index : u.srcs()) {
      if (!u.Is({Op::LOAD, Op::STORE, Op::MATRIX_LOAD}) || !index.Is(Op::INDEX)) continue;
      const UOp base = ir::MaybeBaseOf(index.src(0));
      if (!base || !ir::IsShared(base)) continue;
      const int64_t bytes = ir::ByteSize(base.dtype()),
                    width = std::max<int64_t>(1, index.arg().AsInt()) * bytes;
      const auto together = static_cast<size_t>(std::clamp<int64_t>(128 / width, 1, lanes));
      SharedAccess access{u};
      std::vector<int64_t> words;
      for (size_t lane = 0; lane < threads.size(); ++lane) {
        const auto at = threads[lane].MaybeValue(index.src(1));
        const auto gate = index.n_src() == 3 ? threads[lane].MaybeValue(index.src(2)) : Scalar{};
        if (at && (index.n_src() < 3 || (gate && gate->i != 0))) {
          const int64_t first = start.at(base.id()) + at->i * bytes;
          for (int64_t b = first; b < first + width; b += 4) words.push_back(b / 4);
        }
        if ((lane + 1) % together != 0 && lane + 1 != threads.size()) continue;
        if (!words.empty())
          access.words_of_one_bank =
              std::max(access.words_of_one_bank, codegen::WordsOfOneBank(words));
        words.clear();
      }
      out.push_back(access);
    }
  }
  return out;
}

}  // namespace uopd::tests
