// SPDX-License-Identifier: MIT
#include "tests/support/graph_generator.h"

#include <algorithm>
#include <numeric>

#include "core/ir/build.h"

namespace uopd::testing {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

class Generator {
 public:
  Generator(UOpContext& ctx, uint64_t seed) : ctx_(ctx), random_(seed) {}

  GeneratedGraph Run(int ops) {
    const int inputs = Pick(1, 3);
    for (int i = 0; i < inputs; ++i)
      pool_.push_back(NewSlot(RandomDims(), Pick(0, 3) ? Dtype::F32 : Dtype::I32));
    for (int i = 0; i < ops; ++i) Grow();
    std::vector<UOp> roots;
    // Outputs into fresh slots, and sometimes assignments to inputs that other outputs also read.
    const int outputs = Pick(1, 3);
    for (int i = 0; i < outputs; ++i) {
      const UOp v = i == 0 ? pool_.back() : Any();
      roots.push_back(ir::Store(ctx_, NewSlot(DimsOf(v), v.dtype()), v));
    }
    for (UOp p : std::vector<UOp>(params_.begin(), params_.begin() + inputs)) {
      if (Pick(0, 2)) continue;
      for (UOp v : pool_) {
        if (v.dtype() == p.dtype() && DimsOf(v) == DimsOf(p) && v != p && Pick(0, 1)) {
          const UOp store = ir::Store(ctx_, p, v);
          roots.push_back(store);
          if (Pick(0, 1)) {  // read the new value
            const UOp after = ir::After(ctx_, p, {store});
            const UOp twice = ir::Add(
                ctx_, after,
                pool_[0].dtype() == p.dtype() && DimsOf(pool_[0]) == DimsOf(p) ? pool_[0] : after);
            roots.push_back(ir::Store(ctx_, NewSlot(DimsOf(p), p.dtype()), twice));
          }
          break;
        }
      }
    }
    return {ir::Sink(ctx_, roots), slots_};
  }

 private:
  int Pick(int lo, int hi) {
    return lo + static_cast<int>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }
  UOp Any() { return pool_[static_cast<size_t>(Pick(0, static_cast<int>(pool_.size()) - 1))]; }
  Dims DimsOf(UOp u) { return *ir::StaticDims(*ctx_.ShapeOf(u)); }
  int64_t Elements(UOp u) { return ir::Product(DimsOf(u)); }

  Dims RandomDims() {
    Dims dims;
    for (int i = Pick(0, 3); i-- > 0;) dims.push_back(Pick(0, 9) ? Pick(1, 5) : 1);
    return dims;
  }

  UOp NewSlot(const Dims& dims, Dtype dtype) {
    const UOp p =
        ir::Param(ctx_, static_cast<int64_t>(slots_.size()), dtype, ir::ShapeArg(ctx_, dims));
    std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
    for (double& v : values) v = Pick(-3, 3);
    slots_.push_back(HostArray::Of(dtype, dims, values));
    params_.push_back(p);
    return p;
  }

  UOp As(UOp u, Dtype dtype) { return ir::Cast(ctx_, u, dtype); }

  void Grow() {
    const UOp x = Any();
    UOp y = Made(x);
    if (y && Elements(y) <= 400) pool_.push_back(y);
  }

  UOp Made(UOp x) {
    const Dims dims = DimsOf(x);
    switch (Pick(0, 15)) {
      case 0: {  // permute
        Dims order(dims.size());
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_);
        return ir::Permute(ctx_, x, order);
      }
      case 1: {  // reshape: merge two axes, or split off a factor, or add ones
        Dims out = dims;
        if (out.size() >= 2 && Pick(0, 1)) {
          const auto i = static_cast<size_t>(Pick(0, static_cast<int>(out.size()) - 2));
          out[i] *= out[i + 1];
          out.erase(out.begin() + static_cast<int>(i) + 1);
        } else if (!out.empty() && Pick(0, 1)) {
          const auto i = static_cast<size_t>(Pick(0, static_cast<int>(out.size()) - 1));
          for (int64_t f : {2, 3, 5}) {
            if (out[i] % f == 0) {
              out[i] /= f;
              out.insert(out.begin() + static_cast<int>(i), f);
              break;
            }
          }
        } else {
          out.insert(out.begin() + Pick(0, static_cast<int>(out.size())), 1);
        }
        return ir::Reshape(ctx_, x, out);
      }
      case 2: {  // expand ones and a new axis
        Dims out = dims;
        for (int64_t& d : out) {
          if (d == 1 && Pick(0, 1)) d = Pick(1, 4);
        }
        if (Pick(0, 1)) out.insert(out.begin(), Pick(1, 4));
        return ir::Expand(ctx_, x, out);
      }
      case 3: {  // pad
        Dims before(dims.size()), out(dims.size());
        for (size_t i = 0; i < dims.size(); ++i)
          before[i] = Pick(0, 2), out[i] = dims[i] + before[i] + Pick(0, 2);
        return ir::Pad(ctx_, x, ir::ShapeArg(ctx_, before), ir::ShapeArg(ctx_, out));
      }
      case 4: {  // shrink
        Dims start(dims.size()), out(dims.size());
        for (size_t i = 0; i < dims.size(); ++i)
          start[i] = Pick(0, static_cast<int>(dims[i]) - 1),
          out[i] = Pick(1, static_cast<int>(dims[i] - start[i]));
        return ir::Shrink(ctx_, x, ir::ShapeArg(ctx_, start), ir::ShapeArg(ctx_, out));
      }
      case 5: {  // flip
        Dims axes;
        for (size_t i = 0; i < dims.size(); ++i) {
          if (Pick(0, 1)) axes.push_back(static_cast<int64_t>(i));
        }
        return ir::Flip(ctx_, x, axes);
      }
      case 6:
      case 7: {  // reduce
        Dims axes;
        for (size_t i = 0; i < dims.size(); ++i) {
          if (Pick(0, 1)) axes.push_back(static_cast<int64_t>(i));
        }
        if (axes.empty()) return UOp();
        return ir::ReduceAxes(ctx_, Pick(0, 2) ? Op::ADD : Op::MAX, x, axes);
      }
      case 8:
        return ir::ReduceAxes(ctx_, Op::ADD, x, AllAxes(dims));
      case 9:
        return ir::Add(ctx_, x, ctx_.Const(x.dtype(), Pick(-2, 2)));
      case 10:
        return ir::Alu(ctx_, Op::MAX, {x, ctx_.Const(x.dtype(), 0)});
      case 11:
        return ctx_.Make(Op::CONTIGUOUS, x.dtype(), {x});
      case 12: {  // where
        const UOp c = ir::Lt(ctx_, x, ctx_.Const(x.dtype(), Pick(-1, 1)));
        return ir::Where(ctx_, c, x, ctx_.Const(x.dtype(), 1));
      }
      case 13: {
        const UOp i = ir::Iota(ctx_, Dtype::I32, ir::ShapeArg(ctx_, dims.empty() ? Dims{3} : dims),
                               dims.empty() ? 0 : Pick(0, static_cast<int>(dims.size()) - 1));
        return ir::Add(ctx_, As(i, x.dtype()), x);
      }
      default: {  // binary with anything that broadcasts
        const UOp y = As(Any(), x.dtype());
        if (!ir::BroadcastShapes(*ctx_.ShapeOf(x), *ctx_.ShapeOf(y))) return UOp();
        const Op ops[] = {Op::ADD, Op::SUB, Op::MAX, Op::ADD};
        const UOp sum = ir::Alu(ctx_, ops[Pick(0, 3)], {x, y});
        return Elements(sum) <= 400 ? sum : UOp();
      }
    }
  }

  static Dims AllAxes(const Dims& dims) {
    Dims axes(dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }

  UOpContext& ctx_;
  std::mt19937_64 random_;
  std::vector<UOp> pool_, params_;
  std::vector<HostArray> slots_;
};

}  // namespace

GeneratedGraph GenerateGraph(UOpContext& ctx, uint64_t seed, int ops) {
  return Generator(ctx, seed).Run(ops);
}

}  // namespace uopd::testing
