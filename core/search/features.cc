// SPDX-License-Identifier: MIT
#include "core/search/features.h"

#include <algorithm>
#include <cmath>

#include "core/codegen/machine.h"
#include "core/codegen/passes/lane_counter.h"
#include "core/ir/group_mma.h"
#include "core/ir/mma.h"
#include "core/ir/verify/spec.h"
#include "core/ir/wmma_block.h"

namespace uopd::search {
namespace {

using ir::Op;
using ir::UOp;

constexpr double kSymbolicSize = 64;
constexpr size_t kAxes = 10;  // of FeaturesOf(opts): those behind them share the last place

double Log(double count) { return std::log2(1 + std::max(count, 0.0)); }

// The registers that a value of so many lanes takes.
double Registers(UOp value, int64_t lanes, const Target& target) {
  const auto bytes = static_cast<double>(lanes * std::max<int64_t>(1, ir::ByteSize(value.dtype())));
  return std::max(1.0, std::ceil(bytes / target.vector_bytes));
}

Feature KindOf(UOp u, int64_t lanes) {
  switch (u.op()) {
    case Op::MUL:
    case Op::MULACC:
      return u.dtype() == ir::Dtype::I64 && lanes == 1 ? Feature::kAddresses : Feature::kProducts;
    case Op::CDIV:
    case Op::CMOD:
    case Op::FDIV:
    case Op::SQRT:
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::EXP:
    case Op::LOG:
    case Op::COS:
    case Op::POW:
      return Feature::kSlow;
    case Op::STACK:
    case Op::GEP:
    case Op::SHUFFLE:
      return Feature::kShuffles;
    case Op::CAST:
      return Feature::kCasts;
    default:
      return u.dtype() == ir::Dtype::I64 && lanes == 1 ? Feature::kAddresses : Feature::kArithmetic;
  }
}

// Products of a matrix instruction; 0: u is none.
double Products(UOp u, int64_t lanes) {
  if (u.Is(Op::WMMA_BLOCK)) {
    const ir::WmmaBlock block = ir::WmmaBlock::Of(u);
    return static_cast<double>(block.rows * block.columns * block.words);
  }
  if (u.Is(Op::MMA)) {
    const ir::Mma mma = ir::Mma::Of(u);
    return static_cast<double>(mma.m * mma.n * mma.k);
  }
  if (u.Is(Op::GROUP_MMA)) {
    const ir::GroupMma mma = ir::GroupMma::Of(u);
    return static_cast<double>(mma.m * mma.n * mma.k);
  }
  return u.Is(Op::WMMA) ? static_cast<double>(2 * lanes) : 0;
}

class Counter {
 public:
  Counter(const ir::UOpContext& ctx, const Target& target)
      : target_(target), lanes_(ctx), last_(ctx.size(), -1) {}

  void Walk(UOp linear) {
    const std::span<const UOp> lines = linear.srcs();
    for (size_t i = 0; i < lines.size(); ++i) {
      for (UOp s : lines[i].srcs()) last_[s.id()] = static_cast<int32_t>(i);
    }
    std::vector<std::vector<std::pair<UOp, double>>> ends(lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      const UOp u = lines[i];
      Count(u);
      // A value is live until its last use, or the end of the kernel if that is in another
      // iteration.
      if (IsValue(u) && last_[u.id()] > static_cast<int32_t>(i)) {
        const double registers = Registers(u, lanes_of_, target_);
        live_ += registers;
        ends[static_cast<size_t>(last_[u.id()])].emplace_back(u, registers);
      }
      most_live_ = std::max(most_live_, live_);
      for (const auto& [value, registers] : ends[i]) live_ -= registers;
    }
  }

  double operator[](Feature f) const { return counts_[static_cast<size_t>(f)]; }
  double most_live() const { return most_live_; }
  double inner() const { return inner_; }

 private:
  static bool IsValue(UOp u) { return u.Is(ir::kElementwiseOps) || u.Is({Op::LOAD, Op::STACK}); }

  void Add(Feature f, double count) { counts_[static_cast<size_t>(f)] += count * times_; }

  void Count(UOp u) {
    if (u.Is(Op::RANGE)) {
      const UOp size = u.src(0);
      const double n = size.Is(Op::CONST) ? static_cast<double>(size.const_int()) : kSymbolicSize;
      sizes_.push_back(std::max(n, 0.0));
      times_ *= sizes_.back();
      Add(Feature::kLoops, 1);
      if (times_ > most_times_) {
        most_times_ = times_;
        inner_ = n;
      }
      return;
    }
    if (u.Is(Op::END)) {
      for (size_t i = 1; i < u.n_src() && !sizes_.empty(); ++i) sizes_.pop_back();
      times_ = 1;
      for (const double n : sizes_) times_ *= n;
      return;
    }
    lanes_of_ = lanes_.Count(u);
    if (u.Is(Op::BARRIER)) return Add(Feature::kBarriers, 1);
    if (const double products = Products(u, lanes_of_); products > 0)
      return Add(Feature::kMatrix, products);
    if (u.Is({Op::LOAD, Op::STORE})) {
      const UOp value = u.Is(Op::STORE) ? u.src(1) : u;
      const double registers = Registers(value, lanes_of_, target_);
      if (!ir::MaybeBaseOf(u.src(0).src(0)).Is(Op::PARAM)) return Add(Feature::kPrivate, registers);
      if (u.Is(Op::STORE)) return Add(Feature::kStores, registers);
      return Add(lanes_of_ > 1 ? Feature::kVectorLoads : Feature::kScalarLoads, registers);
    }
    if (u.Is(ir::kElementwiseOps) || u.Is({Op::GEP, Op::STACK, Op::SHUFFLE}))
      Add(KindOf(u, lanes_of_), Registers(u, lanes_of_, target_));
  }

  const Target& target_;
  codegen::LaneCounter lanes_;
  std::vector<int32_t> last_;  // by id: the last line that uses the node
  std::array<double, static_cast<size_t>(Feature::kCount)> counts_{};
  std::vector<double> sizes_;  // of the open loops
  double times_ = 1, most_times_ = 0, inner_ = 1, live_ = 0, most_live_ = 0;
  int64_t lanes_of_ = 1;
};

}  // namespace

Features FeaturesOf(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                    const Target& target) {
  Counter counter(ctx, target);
  counter.Walk(kernel.linear);
  Features out{};
  const auto set = [&](Feature f, double count) {
    out[static_cast<size_t>(f)] = static_cast<float>(Log(count));
  };
  for (size_t i = 0; i <= static_cast<size_t>(Feature::kBarriers); ++i)
    set(static_cast<Feature>(i), counter[static_cast<Feature>(i)]);
  set(Feature::kLines, static_cast<double>(kernel.linear.n_src()));
  set(Feature::kLive, counter.most_live());
  set(Feature::kSpilled, counter.most_live() - target.vector_registers);
  const std::vector<int64_t> values(kernel.variables.size(), static_cast<int64_t>(kSymbolicSize));
  double blocks = 1, threads = 1;
  for (const auto& size : kernel.launch.grid) blocks *= static_cast<double>(size.Evaluate(values));
  for (const auto& size : kernel.launch.block)
    threads *= static_cast<double>(size.Evaluate(values));
  set(Feature::kThreads, blocks * threads);
  const auto parallel = static_cast<double>(codegen::MachineOf(target).parallel(target));
  set(Feature::kRounds, std::ceil(blocks / parallel));
  set(Feature::kEstimate, kernel.estimate_ns);
  set(Feature::kInner, counter.inner());
  return out;
}

std::vector<float> FeaturesOf(const SearchSpace& kernel, const Opts& opts) {
  constexpr size_t kKinds = 24;
  std::vector<float> out(kKinds * kAxes);
  for (const codegen::Opt& opt : opts) {
    const auto axis = static_cast<size_t>(std::clamp<int64_t>(opt.axis, 0, kAxes - 1));
    double amount = static_cast<double>(std::max<int64_t>(codegen::Stored(opt).amount, 0));
    if (opt.amount == 0) {
      const bool sized = axis < kernel.axes.size() && kernel.axes[axis].size > 0;
      amount = sized ? static_cast<double>(kernel.axes[axis].size) : 1;
    }
    out[std::min(static_cast<size_t>(opt.kind), kKinds - 1) * kAxes + axis] +=
        static_cast<float>(Log(amount));
  }
  return out;
}

}  // namespace uopd::search
