// SPDX-License-Identifier: MIT
// Assignments to some elements of a tensor, which are no view of it. The tensor becomes a new
// value; what it is a view of keeps its own elements at the places that nothing was written to,
// which need not be those of the tensor.
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/indexing.h"

namespace uopd::client::fn {

absl::Status AssignChanged(Tensor& x, const Tensor& value, const Tensor& written, Site site) {
  UOPD_TRY(x.status());
  if (!x.is_view()) return x.TryAssign({value, site});
  UOPD_TRY(value.status());
  UOPD_TRY(written.status());
  NoteUse(x);
  GraphState& graph = *x.state()->graph;
  const auto wrong = [&](std::string_view what, const Tensor& t) {
    return Located("AssignChanged", site,
                   absl::InvalidArgumentError(Cat(what, " is a tensor of ", ir::Name(t.dtype()),
                                                  " ", ShapeText(t), " for a tensor of ",
                                                  ir::Name(x.dtype()), " ", ShapeText(x))));
  };
  const auto fits = [&](const Tensor& t, Dtype dtype) {
    return t.state()->graph == x.state()->graph && t.dtype() == dtype &&
           ir::SameShape(ShapeOf(t), ShapeOf(x));
  };
  if (!fits(value, x.dtype())) return wrong("the value", value);
  if (!fits(written, Dtype::Bool)) return wrong("what is written", written);
  const absl::Status status = graph.Assign(*x.state(), Value(value), Value(written));
  return status.ok() ? status : Located("AssignChanged", site, status);
}

absl::Status AssignSelected(Tensor& x, int64_t axis, const Tensor& positions, Operand value) {
  const Site site = value.site();
  UOPD_TRY(x.status());
  UOPD_TRY(positions.status());
  const auto a = Axis(axis, x.rank());
  if (!a || !ir::IsInt(positions.dtype())) {
    return Located(
        "AssignSelected", site,
        absl::InvalidArgumentError(Cat("positions of ", ir::Name(positions.dtype()), " on axis ",
                                       axis, " of a tensor ", ShapeText(x))));
  }
  ir::SymbolicDims sizes, part;
  for (size_t i = 0; i < x.dims().size(); ++i) {
    sizes.push_back(ShapeOf(x)[i]);
    if (static_cast<int64_t>(i) != *a) {
      part.push_back(sizes.back());
    } else {
      for (ir::UOp d : ShapeOf(positions)) part.push_back(d);
    }
  }
  if (value.tensor() == nullptr) UOPD_TRY(CheckNumber(x.dtype(), value));
  const Tensor given = value.tensor() != nullptr ? value.tensor()->Cast(x.dtype(), site)
                                                 : NumberLike(x, x.dtype(), value);
  const Tensor from = Boxed(ExpandTo(given, part, "AssignSelected", site), site);
  const Tensor box = Boxed(x, site);
  // Positions that the box adds are beyond the axis, where nothing is written.
  const Tensor inside = FromStart(positions, x, *a, site);
  const Tensor beyond =
      ScalarLike(x, inside.dtype(), static_cast<double>(x.dims()[static_cast<size_t>(*a)]));
  const Tensor at = Boxed(inside, site, &beyond);
  std::vector<IndexItem> items(static_cast<size_t>(*a), IndexItem(Range{}));
  items.emplace_back(at);
  const auto put = [&](const Tensor& to, Operand what) {
    return Cornered(IndexPut(to, items, what), sizes, site);
  };
  return AssignChanged(x, put(box, {from, site}), put(TrueLike(box).Not(site), {1.0, site}), site);
}

}  // namespace uopd::client::fn
