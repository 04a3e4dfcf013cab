// SPDX-License-Identifier: MIT
#include "uopd/einsum.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

// Axes have labels: the code of a letter; for axes of an ellipsis kEllipsis + the number from the
// right.
using Labels = std::vector<int>;
constexpr int kEllipsis = 1000;

struct Factor {
  Tensor value;
  Labels labels;  // one for each axis, all different
};

bool Holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Equal labels of a factor become one axis, the diagonal.
Factor WithoutRepeats(Factor f, Site site) {
  for (size_t i = 0; i < f.labels.size(); ++i) {
    for (size_t k = i + 1; k < f.labels.size(); ++k) {
      if (f.labels[i] != f.labels[k]) continue;
      const int label = f.labels[i];
      f.value = Diagonal(f.value, 0, static_cast<int64_t>(i), static_cast<int64_t>(k), site);
      f.labels.erase(f.labels.begin() + static_cast<ptrdiff_t>(k));
      f.labels.erase(f.labels.begin() + static_cast<ptrdiff_t>(i));
      f.labels.push_back(label);  // Diagonal makes a new last axis
      return WithoutRepeats(std::move(f), site);
    }
  }
  return f;
}

// Sums over all labels but those in `kept`.
Factor SummedTo(Factor f, const std::set<int>& kept, Site site) {
  Dims axes;
  Labels left;
  for (size_t i = 0; i < f.labels.size(); ++i) {
    if (kept.contains(f.labels[i]))
      left.push_back(f.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) f.value = f.value.Sum(axes, false, site);
  f.labels = left;
  return f;
}

// The axes in the order of these labels.
Tensor Ordered(const Factor& f, const Labels& labels, Site site) {
  Dims order;
  for (int label : labels) {
    order.push_back(std::find(f.labels.begin(), f.labels.end(), label) - f.labels.begin());
  }
  return f.value.Permute(order, site);
}

using Sizes = std::map<int, ir::UOp>;

ir::UOp SizeOf(ir::UOpContext& ctx, const Labels& labels, const Sizes& sizes) {
  ir::UOp n = ctx.Idx(1);
  for (int label : labels) n = ProductOf(ctx, n, sizes.at(label));
  return n;
}

// The product of two factors, summed over the labels that are not in `kept`.
Factor Product(Factor a, Factor b, const std::set<int>& kept, const Sizes& sizes, Site site) {
  std::set<int> for_a = kept, for_b = kept;
  for_a.insert(b.labels.begin(), b.labels.end());
  for_b.insert(a.labels.begin(), a.labels.end());
  a = SummedTo(std::move(a), for_a, site);
  b = SummedTo(std::move(b), for_b, site);
  Labels batch, summed, left, right;
  for (int label : a.labels) {
    const bool both = Holds(b.labels, label);
    (both ? (kept.contains(label) ? batch : summed) : left).push_back(label);
  }
  for (int label : b.labels) {
    if (!Holds(a.labels, label)) right.push_back(label);
  }
  auto joined = [](Labels x, const Labels& y, const Labels& z) {
    x.insert(x.end(), y.begin(), y.end());
    x.insert(x.end(), z.begin(), z.end());
    return x;
  };
  const Labels labels = joined(batch, left, right);
  if (!a.value.status().ok()) return {a.value, labels};
  if (!b.value.status().ok()) return {b.value, labels};
  ir::UOpContext& ctx = Ctx(a.value);
  const ir::UOp n = SizeOf(ctx, batch, sizes), k = SizeOf(ctx, summed, sizes),
                l = SizeOf(ctx, left, sizes), r = SizeOf(ctx, right, sizes), one = ctx.Idx(1);
  ir::SymbolicDims shape;
  for (int label : labels) shape.push_back(sizes.at(label));
  const auto as = [&](const Tensor& t, std::initializer_list<ir::UOp> to) {
    return ReshapeTo(t, ir::SymbolicDims(to), "Einsum", site);
  };
  const Tensor x = Ordered(a, joined(batch, left, summed), site);
  const Tensor y = Ordered(b, joined(batch, summed, right), site);
  Tensor product;
  if (summed.empty())  // nothing to add up
    product = Operand(as(x, {n, l, one}), site) * as(y, {n, one, r});
  else
    product = as(x, {n, l, k}).MatMul({as(y, {n, k, r}), site});
  if (!product.status().ok()) return {product, labels};
  return {ReshapeTo(product, shape, "Einsum", site), labels};
}

// Multiplies all factors and sums over the labels that the result lacks.
Tensor Contracted(std::vector<Factor> factors, const Labels& result, Dtype dtype, Site site) {
  Sizes sizes;
  std::map<int, int64_t> largest;
  for (const Factor& f : factors) {
    if (!f.value.status().ok()) return f.value;
    for (size_t i = 0; i < f.labels.size(); ++i) {
      const ir::UOp size = ShapeOf(f.value)[i];
      ir::UOp& n = sizes.try_emplace(f.labels[i], size).first->second;
      if (n.IsConstInt(1)) n = size;
      int64_t& most = largest[f.labels[i]];
      most = std::max(most, f.value.dims()[i]);
    }
  }
  for (Factor& f : factors) {
    ir::SymbolicDims to;
    for (int label : f.labels) to.push_back(sizes.at(label));
    f.value = ExpandTo(f.value, to, "Einsum", site);
  }
  auto kept_without = [&](size_t a, size_t b) {
    std::set<int> kept(result.begin(), result.end());
    for (size_t i = 0; i < factors.size(); ++i) {
      if (i != a && i != b) kept.insert(factors[i].labels.begin(), factors[i].labels.end());
    }
    return kept;
  };
  while (factors.size() > 1) {
    size_t first = 0, second = 1;
    double least = INFINITY;
    for (size_t a = 0; a < factors.size(); ++a) {
      for (size_t b = a + 1; b < factors.size(); ++b) {
        std::set<int> all(factors[a].labels.begin(), factors[a].labels.end());
        all.insert(factors[b].labels.begin(), factors[b].labels.end());
        double products = 1;
        for (int label : all) products *= static_cast<double>(largest.at(label));
        if (products < least) least = products, first = a, second = b;
      }
    }
    factors[first] =
        Product(factors[first], factors[second], kept_without(first, second), sizes, site);
    factors.erase(factors.begin() + static_cast<ptrdiff_t>(second));
    if (!factors[first].value.status().ok()) return factors[first].value;
  }
  const std::set<int> kept(result.begin(), result.end());
  return Ordered(SummedTo(factors[0], kept, site), result, site).Cast(dtype, site);
}

// The labels of one operand, or of the result, whose dots stand for `dots` axes.
std::optional<Labels> Read(std::string_view text, int64_t dots) {
  Labels out;
  bool seen = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      if (seen || dots < 0) return std::nullopt;
      for (int64_t k = dots; k-- > 0;) out.push_back(kEllipsis + static_cast<int>(k));
      seen = true;
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      out.push_back(text[i]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

Tensor Einsum(std::string_view formula, std::span<const Tensor> operands, Site site) {
  if (operands.empty())
    return Poisoned(nullptr,
                    Located("Einsum", site, absl::InvalidArgumentError("there are no operands")));
  Dtype dtype = Dtype::Void;
  for (const Tensor& t : operands) {
    if (auto error = FirstError("Einsum", {&operands[0], &t}, site)) return *error;
    dtype = dtype == Dtype::Void ? t.dtype() : ir::Promote(dtype, t.dtype());
  }
  auto wrong = [&](std::string_view why) {
    std::string shapes;
    for (const Tensor& t : operands) Append(shapes, shapes.empty() ? "" : ", ", Text(t.dims()));
    return Wrong(operands[0], "Einsum", site,
                 Cat("\"", formula, "\" for shapes ", shapes, ": ", why));
  };
  std::string text;
  for (char c : formula) {
    if (c != ' ') text += c;
  }
  const size_t arrow = text.find("->");
  std::vector<std::string> parts(1);
  for (char c : text.substr(0, arrow)) {
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (parts.size() != operands.size()) return wrong(Cat(parts.size(), " operands are named"));
  std::vector<Factor> factors;
  int64_t most_dots = 0;
  std::map<int, int64_t> sizes;
  std::map<int, int> times;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool dotted = parts[i].find("...") != std::string::npos;
    const int64_t dots = operands[i].rank() - static_cast<int64_t>(parts[i].size()) + 3;
    const auto labels = Read(parts[i], dotted ? dots : 0);
    if (!labels || labels->size() != operands[i].dims().size())
      return wrong(Cat("\"", parts[i], "\" does not name ", operands[i].rank(), " axes"));
    if (dotted) most_dots = std::max(most_dots, dots);
    for (size_t k = 0; k < labels->size(); ++k) {
      ++times[(*labels)[k]];
      const int64_t n = operands[i].dims()[k];
      int64_t& size = sizes.try_emplace((*labels)[k], n).first->second;
      if (size == 1) size = n;
      if (n != 1 && n != size) return wrong("sizes of one letter differ");
    }
    factors.push_back({operands[i], *labels});
  }
  Labels result;
  if (arrow != std::string::npos) {
    const auto named = Read(text.substr(arrow + 2), most_dots);
    if (!named) return wrong("the result is not a list of letters");
    result = *named;
  } else {
    for (int64_t k = most_dots; k-- > 0;) result.push_back(kEllipsis + static_cast<int>(k));
    for (const auto& [label, count] : times) {
      if (label < kEllipsis && count == 1) result.push_back(label);
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!times.contains(result[i]) || std::count(result.begin(), result.end(), result[i]) > 1)
      return wrong("a letter of the result comes twice or in no operand");
  }
  for (Factor& f : factors) {
    // A diagonal of a size-1 axis and a longer one is that of the longer one.
    ir::SymbolicDims to = SizesOf(f.value);
    for (size_t i = 0; i < f.labels.size(); ++i) {
      const bool repeated = std::count(f.labels.begin(), f.labels.end(), f.labels[i]) > 1;
      if (repeated && !to[i].Is(ir::Op::CONST)) return wrong("a diagonal of a symbolic axis");
      if (repeated) to[i] = Ctx(f.value).Idx(sizes.at(f.labels[i]));
    }
    f.value = ExpandTo(f.value, to, "Einsum", site);
    f = WithoutRepeats(std::move(f), site);
  }
  return Contracted(std::move(factors), result, dtype, site);
}

Tensor TensorDot(const Tensor& a, const Tensor& b, const Dims& axes_of_a, const Dims& axes_of_b,
                 Site site) {
  if (auto error = FirstError("TensorDot", {&a, &b}, site)) return *error;
  auto wrong = [&] {
    return Wrong(a, "TensorDot", site,
                 Cat("axes ", Text(axes_of_a), " of shape ", Text(a.dims()), " and ",
                     Text(axes_of_b), " of shape ", Text(b.dims())));
  };
  if (axes_of_a.size() != axes_of_b.size()) return wrong();
  Labels of_a, of_b, result;
  for (int i = 0; i < a.rank(); ++i) of_a.push_back(i);
  for (int i = 0; i < b.rank(); ++i) of_b.push_back(static_cast<int>(a.rank()) + i);
  for (size_t i = 0; i < axes_of_a.size(); ++i) {
    const auto x = Axis(axes_of_a[i], a.rank()), y = Axis(axes_of_b[i], b.rank());
    if (!x || !y) return wrong();
    const auto p = static_cast<size_t>(*x), q = static_cast<size_t>(*y);
    // An axis that was paired before has a label of another one.
    if (!ir::SameShape(ShapeOf(a).subspan(p, 1), ShapeOf(b).subspan(q, 1)) || of_b[q] < a.rank() ||
        Holds(of_b, of_a[p]))
      return wrong();
    of_b[q] = of_a[p];
  }
  for (int label : of_a) {
    if (!Holds(of_b, label)) result.push_back(label);
  }
  for (int label : of_b) {
    if (!Holds(of_a, label)) result.push_back(label);
  }
  return Contracted({{a, of_a}, {b, of_b}}, result, ir::Promote(a.dtype(), b.dtype()), site);
}

Tensor TensorDotLast(const Tensor& a, const Tensor& b, int64_t axes, Site site) {
  if (auto error = FirstError("TensorDotLast", {&a, &b}, site)) return *error;
  if (axes < 0 || axes > a.rank() || axes > b.rank())
    return Wrong(a, "TensorDotLast", site,
                 Cat(axes, " axes of shapes ", Text(a.dims()), " and ", Text(b.dims())));
  Dims of_a, of_b;
  for (int64_t i = 0; i < axes; ++i) of_a.push_back(a.rank() - axes + i), of_b.push_back(i);
  return TensorDot(a, b, of_a, of_b, site);
}

Tensor Outer(const Tensor& a, const Tensor& b, Site site) {
  if (auto error = FirstError("Outer", {&a, &b}, site)) return *error;
  return Operand(a.Flatten(0, site).Unsqueeze(-1, site), site) * b.Flatten(0, site);
}

}  // namespace uopd::client::fn
