// SPDX-License-Identifier: MIT
#include "client/cpp/onnx/run/fold.h"

#include <algorithm>
#include <functional>
#include <map>

#include "client/cpp/onnx/run/axis_part.h"
#include "client/cpp/onnx/run/broadcast.h"

namespace uopd::client::onnx {
namespace {

// A known tensor of integers. Values are those of its dtype, which is at most 64 bits wide and not
// u64.
struct KnownTensor {
  Dims dims;
  std::vector<int64_t> v;
};

using Inputs = std::vector<KnownTensor>;
constexpr size_t kMostInputElements = 4 * kMostFoldedElements;  // of all inputs of a node
using Fold = std::optional<KnownTensor> (*)(Call&, const Inputs&);

std::optional<int64_t> AxisIn(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return axis < 0 ? axis + n : axis;
}

// The tensor broadcast to these sizes.
KnownTensor Spread(const KnownTensor& t, const Dims& dims) {
  KnownTensor out{dims, {}};
  for (const int64_t at : SpreadPlaces(t.dims, dims)) out.v.push_back(t.v[static_cast<size_t>(at)]);
  return out;
}

template <auto F>
std::optional<KnownTensor> FoldBinary(Call& c, const Inputs& in) {
  if (in.size() != 2 || c.opset() < 7 || c.In(0).type != c.In(1).type) return std::nullopt;
  const auto dims = BroadcastDims(in[0].dims, in[1].dims);
  if (!dims) return std::nullopt;
  KnownTensor a = Spread(in[0], *dims);
  const KnownTensor b = Spread(in[1], *dims);
  for (size_t i = 0; i < a.v.size(); ++i) {
    const std::optional<int64_t> r = F(a.v[i], b.v[i]);
    if (!r) return std::nullopt;
    a.v[i] = *r;
  }
  return a;
}

using Number = std::optional<int64_t>;
// Overflow wraps, as it does on the daemon.
constexpr auto kAdd = [](int64_t a, int64_t b) -> Number {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
};
constexpr auto kSub = [](int64_t a, int64_t b) -> Number {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
};
constexpr auto kMul = [](int64_t a, int64_t b) -> Number {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
};
constexpr auto kDiv = [](int64_t a, int64_t b) -> Number {
  if (b == 0 || b == -1) return b == 0 ? Number() : kSub(0, a);
  return a / b;
};
constexpr auto kMod = [](int64_t a, int64_t b) -> Number {
  if (b == 0 || b == -1) return b == 0 ? Number() : Number(0);
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
};
constexpr auto kMax = [](int64_t a, int64_t b) -> Number { return std::max(a, b); };
constexpr auto kMin = [](int64_t a, int64_t b) -> Number { return std::min(a, b); };
constexpr auto kAnd = [](int64_t a, int64_t b) -> Number { return a & b; };
constexpr auto kOr = [](int64_t a, int64_t b) -> Number { return a | b; };
constexpr auto kEqual = [](int64_t a, int64_t b) -> Number { return a == b ? 1 : 0; };
constexpr auto kLess = [](int64_t a, int64_t b) -> Number { return a < b ? 1 : 0; };
constexpr auto kGreater = [](int64_t a, int64_t b) -> Number { return a > b ? 1 : 0; };
constexpr auto kLessOrEqual = [](int64_t a, int64_t b) -> Number { return a <= b ? 1 : 0; };
constexpr auto kGreaterOrEqual = [](int64_t a, int64_t b) -> Number { return a >= b ? 1 : 0; };

std::optional<KnownTensor> FoldMod(Call& c, const Inputs& in) {
  return c.Int("fmod", 0) != 0 ? std::nullopt : FoldBinary<kMod>(c, in);
}

std::optional<KnownTensor> FoldNot(Call&, const Inputs& in) {
  KnownTensor out = in[0];
  for (int64_t& v : out.v) v = v == 0 ? 1 : 0;
  return out;
}

std::optional<KnownTensor> FoldWhere(Call& c, const Inputs& in) {
  if (in.size() != 3 || c.In(1).type != c.In(2).type || c.DtypeOf(0) != Dtype::Bool)
    return std::nullopt;
  const auto both = BroadcastDims(in[1].dims, in[2].dims);
  const auto dims = both ? BroadcastDims(in[0].dims, *both) : std::nullopt;
  if (!dims) return std::nullopt;
  const KnownTensor condition = Spread(in[0], *dims), a = Spread(in[1], *dims);
  KnownTensor out = Spread(in[2], *dims);
  for (size_t i = 0; i < out.v.size(); ++i)
    if (condition.v[i] != 0) out.v[i] = a.v[i];
  return out;
}

std::optional<KnownTensor> FoldConcat(Call& c, const Inputs& in) {
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].dims.size() != 1 || c.In(i).type != c.In(0).type) return std::nullopt;
  if (!AxisIn(c.Int("axis", 0), 1)) return std::nullopt;
  KnownTensor out{{0}, {}};
  for (const KnownTensor& t : in) out.v.insert(out.v.end(), t.v.begin(), t.v.end());
  out.dims[0] = static_cast<int64_t>(out.v.size());
  return out;
}

std::optional<KnownTensor> FoldGather(Call& c, const Inputs& in) {
  if (in.size() != 2 || in[0].dims.size() != 1 || !AxisIn(c.Int("axis", 0), 1)) return std::nullopt;
  KnownTensor out{in[1].dims, {}};
  for (const int64_t i : in[1].v) {
    const auto at = AxisIn(i, in[0].v.size());
    if (!at) return std::nullopt;
    out.v.push_back(in[0].v[static_cast<size_t>(*at)]);
  }
  return out;
}

// The elements of t from `begin` on, `steps` apart along each axis, as a tensor of the shape
// `dims`.
KnownTensor Strided(const KnownTensor& t, const Dims& dims, int64_t begin, const Dims& steps) {
  KnownTensor out{dims, {}};
  const int64_t n = ir::Product(dims);
  Dims index(dims.size(), 0);
  int64_t at = begin;
  for (int64_t i = 0; i < n; ++i) {
    out.v.push_back(t.v[static_cast<size_t>(at)]);
    for (size_t axis = dims.size(); axis-- > 0;) {
      at += steps[axis];
      if (++index[axis] < dims[axis]) break;
      at -= steps[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return out;
}

// How far apart neighbours along each axis lie.
Dims StepsOf(const Dims& dims) {
  Dims out(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) out[axis - 1] = out[axis] * dims[axis];
  return out;
}

// With inputs for all of starts, ends, axes and steps that are there.
std::optional<KnownTensor> FoldSlice(Call& c, const Inputs& in) {
  if (c.opset() < 10 || in.size() < 3 || in.size() != c.inputs()) return std::nullopt;
  const size_t count = in[1].v.size();
  for (size_t i = 2; i < in.size(); ++i)
    if (in[i].v.size() != count) return std::nullopt;
  Dims dims = in[0].dims, steps = StepsOf(dims);
  std::vector<bool> is_cut(dims.size(), false);
  int64_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto axis = AxisIn(in.size() > 3 ? in[3].v[i] : static_cast<int64_t>(i), dims.size());
    const int64_t step = in.size() > 4 ? in[4].v[i] : 1;
    if (!axis || step == 0 || is_cut[static_cast<size_t>(*axis)]) return std::nullopt;
    const auto a = static_cast<size_t>(*axis);
    const AxisPart part = PartOfAxis(in[1].v[i], in[2].v[i], step, dims[a]);
    is_cut[a] = true;
    begin += part.begin * steps[a];
    dims[a] = part.count;
    steps[a] *= part.step;
  }
  return Strided(in[0], dims, begin, steps);
}

std::optional<KnownTensor> FoldTranspose(Call& c, const Inputs& in) {
  const size_t rank = in[0].dims.size();
  Dims order;
  for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int64_t>(i));
  order = c.IntList("perm", order);
  const Dims all = StepsOf(in[0].dims);
  Dims dims, steps, seen = order;
  std::ranges::sort(seen);
  for (size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != static_cast<int64_t>(i)) return std::nullopt;
  if (order.size() != rank) return std::nullopt;
  for (const int64_t from : order) {
    dims.push_back(in[0].dims[static_cast<size_t>(from)]);
    steps.push_back(all[static_cast<size_t>(from)]);
  }
  return Strided(in[0], dims, 0, steps);
}

std::optional<KnownTensor> FoldRange(Call&, const Inputs& in) {
  if (in.size() != 3 || in[0].v.size() != 1 || in[1].v.size() != 1 || in[2].v.size() != 1)
    return std::nullopt;
  const auto begin = static_cast<ir::Int128>(in[0].v[0]), end = static_cast<ir::Int128>(in[1].v[0]);
  const int64_t step = in[2].v[0];
  if (step == 0) return std::nullopt;
  KnownTensor out{{0}, {}};
  for (ir::Int128 v = begin; step > 0 ? v < end : v > end; v += step) {
    if (static_cast<int64_t>(out.v.size()) >= kMostFoldedElements) return std::nullopt;
    out.v.push_back(static_cast<int64_t>(v));
  }
  out.dims[0] = static_cast<int64_t>(out.v.size());
  return out;
}

std::optional<KnownTensor> FoldExpand(Call&, const Inputs& in) {
  if (in.size() != 2) return std::nullopt;
  for (const int64_t d : in[1].v)
    if (d < 0) return std::nullopt;
  const auto dims = BroadcastDims(in[0].dims, Dims(in[1].v.begin(), in[1].v.end()));
  return dims ? std::optional(Spread(in[0], *dims)) : std::nullopt;
}

// A reduction of one axis, which is all there is.
template <auto F>
std::optional<KnownTensor> FoldReduce(Call& c, const Inputs& in) {
  if (in[0].dims.size() != 1 || in[0].v.empty() || c.Int("noop_with_empty_axes", 0) != 0)
    return std::nullopt;
  for (const int64_t a : in.size() > 1 ? Dims(in[1].v.begin(), in[1].v.end()) : c.IntList("axes"))
    if (!AxisIn(a, 1)) return std::nullopt;
  int64_t r = in[0].v[0];
  for (size_t i = 1; i < in[0].v.size(); ++i) r = *F(r, in[0].v[i]);
  return KnownTensor{c.Int("keepdims", 1) != 0 ? Dims{1} : Dims{}, {r}};
}

struct FoldRow {
  Fold fold;
  std::string_view type = "";  // of the result; "": that of input `like`
  size_t like = 0;
};

const std::map<std::string_view, FoldRow>& Folds() {
  static const auto* const all = new std::map<std::string_view, FoldRow>{
      {"Add", {FoldBinary<kAdd>}},
      {"Sub", {FoldBinary<kSub>}},
      {"Mul", {FoldBinary<kMul>}},
      {"Div", {FoldBinary<kDiv>}},
      {"Mod", {FoldMod}},
      {"Max", {FoldBinary<kMax>}},
      {"Min", {FoldBinary<kMin>}},
      {"And", {FoldBinary<kAnd>}},
      {"Or", {FoldBinary<kOr>}},
      {"Equal", {FoldBinary<kEqual>, "BOOL"}},
      {"Less", {FoldBinary<kLess>, "BOOL"}},
      {"Greater", {FoldBinary<kGreater>, "BOOL"}},
      {"LessOrEqual", {FoldBinary<kLessOrEqual>, "BOOL"}},
      {"GreaterOrEqual", {FoldBinary<kGreaterOrEqual>, "BOOL"}},
      {"Not", {FoldNot}},
      {"Where", {FoldWhere, "", 1}},
      {"Concat", {FoldConcat}},
      {"Gather", {FoldGather}},
      {"Slice", {FoldSlice}},
      {"Transpose", {FoldTranspose}},
      {"Range", {FoldRange}},
      {"Expand", {FoldExpand}},
      {"ReduceSum", {FoldReduce<kAdd>}},
      {"ReduceProd", {FoldReduce<kMul>}},
      {"ReduceMax", {FoldReduce<kMax>}},
      {"ReduceMin", {FoldReduce<kMin>}},
  };
  return *all;
}

std::optional<KnownTensor> KnownInput(const Value& v) {
  if (v.kind != Value::Kind::kTensor || v.bytes == nullptr || !v.type->dtype) return std::nullopt;
  const Dtype dtype = *v.type->dtype;
  if (ir::IsFloat(dtype) || dtype == Dtype::U64 || ir::Product(v.dims) > kMostFoldedElements)
    return std::nullopt;
  return KnownTensor{v.dims, IntsIn(dtype, *v.bytes)};
}

// Whole numbers of one type as those of another.
std::optional<Value> FoldedCast(Call& c) {
  const auto in = KnownInput(c.In(0));
  const auto to = c.TypeOf("to", nullptr);
  if (!in || !to.ok() || *to == nullptr || !(*to)->dtype) return std::nullopt;
  if (ir::IsFloat(*(*to)->dtype) || *(*to)->dtype == Dtype::U64) return std::nullopt;
  return KnownInts(*to, in->dims, in->v);
}

}  // namespace

std::optional<Value> Folded(Call& c) {
  if (!c.node().domain.empty() || c.inputs() == 0 || c.outputs() != 1) return std::nullopt;
  for (size_t i = 0; i < c.inputs(); ++i)
    if (!c.Has(i)) return std::nullopt;
  if (c.node().op_type == "Cast") return FoldedCast(c);
  const auto row = Folds().find(c.node().op_type);
  if (row == Folds().end()) return std::nullopt;
  Inputs in;
  size_t elements = 0;
  for (size_t i = 0; i < c.inputs(); ++i) {
    std::optional<KnownTensor> known = KnownInput(c.In(i));
    if (!known) return std::nullopt;
    // Many inputs that are one value take no bytes of the file, but memory here.
    elements += known->v.size();
    if (elements > kMostInputElements) return std::nullopt;
    in.push_back(*std::move(known));
  }
  const auto result = row->second.fold(c, in);
  if (!result || ir::Product(result->dims) != static_cast<int64_t>(result->v.size()))
    return std::nullopt;
  const OnnxElementType* type =
      row->second.type.empty() ? c.In(row->second.like).type : ElementType(row->second.type);
  return KnownInts(type, result->dims, result->v);
}

}  // namespace uopd::client::onnx
