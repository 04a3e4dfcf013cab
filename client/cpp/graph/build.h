// SPDX-License-Identifier: MIT
// Helpers with which the operations of Tensor make their results. Internal to the library.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "client/cpp/graph/graph_state.h"
#include "core/base/text.h"
#include "uopd/tensor.h"

namespace uopd::client {

// "what: message (at file:line)"
absl::Status Located(std::string_view what, Site site, const absl::Status& error);
// A tensor that carries an error.
Tensor Poisoned(std::shared_ptr<GraphState> graph, absl::Status error);
inline Tensor Wrong(const Tensor& t, std::string_view what, Site site, std::string message) {
  return Poisoned(t.state() == nullptr ? nullptr : t.state()->graph,
                  Located(what, site, absl::InvalidArgumentError(message)));
}
// The result of a movement operation that moves nothing: a view of the whole tensor. REQUIRES:
// t.status() is OK.
Tensor Same(const Tensor& t);
// The result of an operation that has nothing to compute: another tensor of the same value, or t if
// it has an error. An assignment to one does not change the other.
inline Tensor Another(const Tensor& t) { return t.Snapshot(); }
// t in another dtype; t itself, the same tensor, if it has the dtype. For values that an operation
// does not return.
Tensor As(const Tensor& t, Dtype dtype, Site site);
// A tensor of value u that an operation made from t, on t's device. It is a view of t if u is one
// of t's value (view.h). REQUIRES: t.status() is OK.
Tensor Made(const Tensor& t, ir::UOp u, std::string_view what, Site site);

std::string Text(const Dims& dims);
// The shape with symbolic sizes, and the values of their variables. REQUIRES: no error.
std::string ShapeText(const Tensor& t);
// The name of a device as the daemon says it: "cpu" and "CPU:0" are one device.
std::string DeviceName(std::string_view name);
// The axis counted from the front; nullopt if it is outside [-rank, rank).
std::optional<int64_t> Axis(int64_t axis, int64_t rank);

// For operations along an axis that keep the shape or drop the axis: a tensor without axes takes
// the axes 0 and -1, as NumPy's reductions and PyTorch have it, and has one element along them. f
// gets x with an axis of size 1; its result has no axes. Nullopt: x has axes or an error, or the
// axis is another one.
template <class F>
auto AlongNoAxis(const Tensor& x, int64_t axis, Site site, F f) -> std::optional<decltype(f(x))> {
  if (!x.status().ok() || x.rank() != 0 || (axis != 0 && axis != -1)) return std::nullopt;
  auto out = f(x.Reshape({1}, site));
  if constexpr (std::is_same_v<decltype(out), Tensor>)
    return out.Reshape({}, site);
  else
    return std::pair(out.first.Reshape({}, site), out.second.Reshape({}, site));
}

// The context of t's graph. REQUIRES: t.status() is OK.
inline ir::UOpContext& Ctx(const Tensor& t) { return t.state()->graph->ctx(); }
// Tells recordings that the caller computes something from t, or assigns to t.
inline void NoteUse(const Tensor& t) {
  const TensorState& state = *t.state();
  if (state.watchers != 0) [[unlikely]]
    state.graph->NoteUse(t);
}
// The value of t, which the caller is about to use.
inline ir::UOp Value(const Tensor& t) {
  NoteUse(t);
  return t.state()->uop;
}

inline ir::Shape ShapeOf(const Tensor& t) { return *Ctx(t).ShapeOf(t.state()->uop); }

// A size as index arithmetic in t's graph. INVALID_ARGUMENT if it is not made of numbers and
// variables.
absl::StatusOr<ir::UOp> IndexOf(const Tensor& t, Size size);
// True if t is a size: a scalar i64 that is computed from variables. Beside other tensors it is
// like a C++ integer.
bool IsSize(const Tensor& t);
// t with other dimensions of the same product. Symbolic dimensions stay symbolic.
Tensor ReshapeTo(const Tensor& t, const ir::SymbolicDims& dims, std::string_view what, Site site);
// For an operation that needs concrete dimensions: nullopt, or the error with which it refuses t.
std::optional<Tensor> Symbolic(const Tensor& t, std::string_view what, Site site);

Tensor UnaryOp(const Tensor& t, ir::Op op, std::string_view what,
               Site site);  // floats; integers become f32
// `tag`: of the node, for gradients (core/rules/gradient.h).
Tensor BinaryOp(Operand a, Operand b, ir::Op op, std::string_view what, int64_t tag = 0);
// INVALID_ARGUMENT if v is no value of an integer dtype: infinity, NaN or out of range. A fraction
// is cut off and is no error.
absl::Status CheckNumber(Dtype dtype, double v);
// As above, for an operand that is a number. Integers are compared exactly.
absl::Status CheckNumber(Dtype dtype, const Operand& number);
// A number as a scalar tensor of this dtype; integers exactly.
Tensor NumberLike(const Tensor& t, Dtype dtype, const Operand& number);
ir::UOp NumberOf(ir::UOpContext& ctx, Dtype dtype, const Operand& number);
// v as a scalar tensor of this dtype.
Tensor ScalarLike(const Tensor& t, Dtype dtype, double v);
// The dtype of positions in n elements, and of counts of them: i32 if it holds n, else i64.
inline Dtype PositionDtype(int64_t n) { return n > INT32_MAX ? Dtype::I64 : Dtype::I32; }
// 0, 1, 2, ... along the last axis of a new 1-D tensor.
Tensor IotaLike(const Tensor& t, int64_t n, Dtype dtype);

}  // namespace uopd::client
