// SPDX-License-Identifier: MIT
#include "core/ir/analysis/layout.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/build.h"

namespace uopd::ir {
namespace {

// The product of some dimensions: a number and symbolic factors.
struct Extent {
  Int128 number = 1;
  std::vector<uint32_t> symbols;  // ids, ascending

  void Add(UOp d) {
    if (d.Is(Op::CONST)) {
      number *= d.const_int();
    } else {
      symbols.insert(std::upper_bound(symbols.begin(), symbols.end(), d.id()), d.id());
    }
  }
  static Extent Of(Shape dims) {
    Extent e;
    for (UOp d : dims) e.Add(d);
    return e;
  }
  bool operator==(const Extent&) const = default;
};

// The layout after a RESHAPE if every element stays in its piece. That is possible if the result
// has an axis that begins where the sharded axis begins, and all boundaries of pieces are
// boundaries on it.
std::optional<Layout> Reshaped(Shape in, Shape out, const Layout& from) {
  const auto axis = static_cast<size_t>(from.axis);
  if (Extent::Of(in).number == 0) return std::nullopt;
  const Extent before = Extent::Of(in.first(axis)), after = Extent::Of(in.subspan(axis + 1));
  for (size_t b = 0; b < out.size(); ++b) {
    const Extent stride = Extent::Of(out.subspan(b + 1));
    if (!out[b].Is(Op::CONST) || Extent::Of(out.first(b)) != before ||
        stride.symbols != after.symbols)
      continue;
    Layout to = from;
    to.axis = static_cast<int64_t>(b);
    bool fits = true;
    for (int64_t& size : to.sizes) {
      fits &= size * after.number % stride.number == 0;
      size = static_cast<int64_t>(size * after.number / stride.number);
    }
    if (fits) return to;
  }
  return std::nullopt;
}

class Rule {
 public:
  Rule(UOpContext& ctx, UOp u, std::span<const Layout* const> sources,
       std::string_view default_device)
      : ctx_(ctx), u_(u), sources_(sources), default_device_(default_device) {}

  absl::StatusOr<LayoutRule> Run() {
    out_.sources.resize(u_.n_src());
    if (u_.Is(OpSet{Op::PARAM, Op::BUFFER})) {
      out_.result.devices = {u_.text().empty() ? default_device_ : u_.text()};
      return out_;
    }
    if (u_.n_src() == 0 || u_.dtype() == Dtype::Index || u_.Is(OpSet{Op::SINK, Op::IOTA}))
      return out_;
    for (const Layout* s : sources_) pieces_ |= s->pieces;
    const bool all = u_.Is(kElementwiseOps) || u_.Is(Op::STACK);
    if (!u_.Is(Op::MULTI) && !pieces_) return OneDevice(all);
    // By default a node has the layout of its first source.
    out_.sources[0] = *sources_[0];
    out_.result = *sources_[0];
    if (all) {
      Together();
    } else if (u_.Is(Op::MULTI)) {
      return Multi();
    } else if (u_.Is(Op::COPY)) {
      out_.sources[0] = Replicated({u_.text()});
      out_.result = out_.sources[0];
      out_.result.pieces = false;
    } else if (u_.Is(Op::STORE)) {
      out_.sources[1] = *sources_[0];
    } else if (u_.Is(Op::REDUCE)) {
      const auto axes = u_.reduce_axes();
      if (std::find(axes.begin(), axes.end(), out_.result.axis) != axes.end())
        out_.result = Replicated(out_.result.devices);
    } else if (u_.Is(Op::SCAN)) {
      if (u_.reduce_axes()[0] == out_.result.axis) Whole();
    } else if (u_.Is(kMovementOps) && sources_[0]->sharded()) {
      Move();
    }
    return out_;
  }

 private:
  int64_t DimOf(UOp x, size_t axis) const {
    return static_cast<int64_t>(ctx_.BoundsOf((*ctx_.ShapeOf(x))[axis]).max);
  }
  void Whole() { out_.result = out_.sources[0] = Replicated(sources_[0]->devices); }

  // No source is in pieces.
  absl::StatusOr<LayoutRule> OneDevice(bool all) {
    for (size_t i = 0; i < (all ? u_.n_src() : 1); ++i) {
      const Layout& s = *sources_[i];
      out_.sources[i] = s;
      if (s.anywhere()) continue;
      if (!out_.result.anywhere() && out_.result.devices != s.devices) {
        return Invalid(Cat(Name(u_.op()), " mixes values on ", out_.result.devices[0], " and ",
                           s.devices[0], "; a COPY moves them to one device"));
      }
      out_.result = s;
    }
    if (u_.Is(Op::COPY)) out_.result.devices = {u_.text()};
    if (u_.Is(Op::STORE)) out_.sources[1] = *sources_[1];
    return out_;
  }

  absl::StatusOr<LayoutRule> Multi() {
    Layout& to = out_.result;
    to = Layout();
    to.axis = u_.ints().empty() ? -1 : u_.ints()[0];
    to.pieces = true;
    for (size_t i = 0; i < u_.n_src(); ++i) {
      const Layout& s = *sources_[i];
      if (s.pieces)
        return Invalid(Cat("source ", i, " of MULTI is in pieces itself; a COPY gathers it"));
      out_.sources[i] = s.anywhere() ? Replicated({default_device_}) : Replicated({s.devices[0]});
      out_.sources[i].pieces = false;
      const int64_t size = to.sharded() ? DimOf(u_.src(i), static_cast<size_t>(to.axis)) : 1;
      const bool only = to.devices.empty() && i + 1 == u_.n_src();
      if (size == 0 && !only) continue;
      to.devices.push_back(out_.sources[i].devices[0]);
      if (to.sharded()) to.sizes.push_back(size);
    }
    return out_;
  }

  // Elementwise ops and STACK: the layout of the largest source that is sharded along an axis of
  // the result. If there is none, the value is whole on all devices of the MULTI source with most
  // devices.
  void Together() {
    const size_t rank = ctx_.ShapeOf(u_)->size();
    const bool stack = u_.Is(Op::STACK);
    // Axis of the result minus axis of source i.
    auto shift = [&](size_t i) {
      return stack ? 1 : static_cast<int64_t>(rank - ctx_.ShapeOf(u_.src(i))->size());
    };
    auto repeats = [&](size_t i, int64_t axis) {
      return !stack && DimOf(u_.src(i), static_cast<size_t>(axis - shift(i))) !=
                           DimOf(u_, static_cast<size_t>(axis));
    };
    Layout to;
    double most = -1;
    for (size_t i = 0; i < u_.n_src(); ++i) {
      const Layout& s = *sources_[i];
      if (!s.sharded() || repeats(i, s.axis + shift(i))) continue;
      double elements = 1;
      for (int64_t d : MaxDims(ctx_, *ctx_.ShapeOf(u_.src(i)))) elements *= static_cast<double>(d);
      if (elements <= most) continue;
      most = elements;
      to = s;
      to.axis += shift(i);
    }
    for (size_t i = 0; i < u_.n_src() && most < 0; ++i) {
      if (sources_[i]->pieces && sources_[i]->devices.size() > to.devices.size())
        to = Replicated(sources_[i]->devices);
    }
    out_.result = to;
    for (size_t i = 0; i < u_.n_src(); ++i) {
      Layout& s = out_.sources[i];
      s = to;
      if (!to.sharded()) continue;
      if (to.axis < shift(i) || repeats(i, to.axis))
        s = Replicated(to.devices);
      else
        s.axis -= shift(i);
    }
  }

  // Movement of a source that is sharded.
  void Move() {
    const Layout& from = *sources_[0];
    const Shape in = *ctx_.ShapeOf(u_.src(0)), shape = *ctx_.ShapeOf(u_);
    const auto axis = static_cast<size_t>(from.axis);
    Layout& to = out_.result;
    switch (u_.op()) {
      case Op::PERMUTE:
        to.axis = std::find(u_.ints().begin(), u_.ints().end(), from.axis) - u_.ints().begin();
        return;
      case Op::EXPAND:
        to.axis += static_cast<int64_t>(shape.size() - in.size());
        if (in[axis] != shape[static_cast<size_t>(to.axis)]) Whole();
        return;
      case Op::FLIP:
        if (std::find(u_.ints().begin(), u_.ints().end(), from.axis) == u_.ints().end()) return;
        std::reverse(to.devices.begin(), to.devices.end());
        std::reverse(to.sizes.begin(), to.sizes.end());
        return;
      case Op::PAD: {
        const UOp before = u_.src(1).src(axis);
        if (!before.Is(Op::CONST) || !shape[axis].Is(Op::CONST)) return Whole();
        const int64_t after = shape[axis].const_int() - before.const_int() - in[axis].const_int();
        to.sizes.front() += before.const_int();
        to.sizes.back() += after;
        return;
      }
      case Op::SHRINK: {
        const UOp start = u_.src(1).src(axis);
        if (!start.Is(Op::CONST) || !shape[axis].Is(Op::CONST)) return Whole();
        to.devices.clear();
        to.sizes.clear();
        for (const Overlap& o : Overlaps(from, start.const_int(), shape[axis].const_int())) {
          to.devices.push_back(from.devices[o.piece]);
          to.sizes.push_back(o.length);
        }
        return;
      }
      default:
        return Reshape(in, shape);
    }
  }

  // If elements would leave their pieces, the source is sharded along another axis for which they
  // do not; if there is none, the value is whole on every device.
  void Reshape(Shape in, Shape shape) {
    Layout from = *sources_[0];
    if (auto to = Reshaped(in, shape, from)) {
      out_.result = *to;
      return;
    }
    const auto n = static_cast<int64_t>(from.devices.size());
    for (size_t axis = 0; axis < in.size(); ++axis) {
      if (!in[axis].Is(Op::CONST) || in[axis].const_int() < n) continue;
      from.axis = static_cast<int64_t>(axis);
      from.sizes = EvenSizes(in[axis].const_int(), n);
      if (auto to = Reshaped(in, shape, from)) {
        out_.sources[0] = from;
        out_.result = *to;
        return;
      }
    }
    Whole();
  }

  UOpContext& ctx_;
  const UOp u_;
  const std::span<const Layout* const> sources_;
  const std::string_view default_device_;
  bool pieces_ = false;
  LayoutRule out_;
};

}  // namespace

Layout Replicated(std::vector<std::string_view> devices) {
  Layout out;
  out.devices = std::move(devices);
  out.pieces = true;
  return out;
}

absl::StatusOr<LayoutRule> RuleOf(UOpContext& ctx, UOp u, std::span<const Layout* const> sources,
                                  std::string_view default_device) {
  return Rule(ctx, u, sources, default_device).Run();
}

UOp Divided(UOpContext& ctx, UOp value, const Layout& to) {
  const Shape shape = *ctx.ShapeOf(value);
  SymbolicDims starts(shape.size(), ctx.Idx(0)), box(shape.begin(), shape.end());
  std::vector<UOp> pieces;
  int64_t begin = 0;
  for (size_t i = 0; i < to.devices.size(); ++i) {
    UOp piece = value;
    if (to.sharded()) {
      const auto axis = static_cast<size_t>(to.axis);
      starts[axis] = ctx.Idx(begin);
      box[axis] = ctx.Idx(to.sizes[i]);
      begin += to.sizes[i];
      piece = Shrink(ctx, value, ShapeArg(ctx, Shape(starts)), ShapeArg(ctx, Shape(box)));
    }
    pieces.push_back(ctx.Make(Op::COPY, value.dtype(), {piece}, ctx.Data({}, to.devices[i])));
  }
  return ctx.Make(Op::MULTI, value.dtype(), pieces,
                  ctx.Data(to.sharded() ? Dims{to.axis} : Dims{}, ""));
}

std::vector<Overlap> Overlaps(const Layout& layout, int64_t begin, int64_t length) {
  std::vector<Overlap> out;
  int64_t at = 0;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    const int64_t from = std::max(begin, at);
    const int64_t to = std::min(begin + length, at + layout.sizes[i]);
    if (from < to) out.push_back({i, from - at, to - from});
    at += layout.sizes[i];
  }
  if (out.empty()) out.push_back({0, 0, 0});
  return out;
}

Dims EvenSizes(int64_t n, int64_t pieces) {
  Dims out(static_cast<size_t>(pieces), n / pieces);
  for (int64_t i = 0; i < n % pieces; ++i) ++out[static_cast<size_t>(i)];
  return out;
}

}  // namespace uopd::ir
