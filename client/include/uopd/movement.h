// SPDX-License-Identifier: MIT
// Functions that rearrange, repeat or surround elements. Axes, errors and promotion are as in
// tensor.h, and so are symbolic dimensions. All have gradients.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "uopd/client.h"
#include "uopd/tensor.h"

namespace uopd::client::fn {

// Moves elements along axes; those that leave at one end come in at the other. One shift for each
// axis. Without axes: along the flattened tensor, by a single shift.
Tensor Roll(const Tensor& x, const Dims& shifts, const Dims& axes = {},
            Site site = Site::current());
// Roll by shifts that may be made of variables.
Tensor Roll(const Tensor& x, std::span<const Size> shifts, const Dims& axes = {},
            Site site = Site::current());

// kConstant: `value`. kReflect: mirrored at the outermost element, which is not repeated.
// kReplicate: the outermost element. kCircular: from the other end.
enum class PadMode { kConstant, kReflect, kReplicate, kCircular };
// Padding before and after each axis. A negative entry cuts elements off: first, but for kReflect
// and kReplicate, whose mirror and edge are those of the whole axis.
Tensor Pad(const Tensor& x, const Dims& before, const Dims& after,
           PadMode mode = PadMode::kConstant, double value = 0, Site site = Site::current());

// Constant padding of sizes that may be made of variables.
Tensor Pad(const Tensor& x, std::span<const Size> before, std::span<const Size> after,
           double value = 0, Site site = Site::current());
// Elements begin to end of one axis, whose ends may be made of variables, as Python's slices: what
// is negative counts from the end, and what is beyond is cut off. An end that fits now has to fit
// in replays, too.
Tensor Slice(const Tensor& x, int64_t axis, std::optional<Size> begin, std::optional<Size> end,
             Site site = Site::current());

// Each element `times` times, next to each other. Without an axis the tensor is flattened first.
Tensor RepeatInterleave(const Tensor& x, int64_t times, std::optional<int64_t> axis = {},
                        Site site = Site::current());
// The whole tensor several times along each axis; missing leading counts are 1.
Tensor Tile(const Tensor& x, Dims times, Site site = Site::current());

// The elements x[.., i, .., i + offset, ..], along a new last axis.
Tensor Diagonal(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
                Site site = Site::current());
// The last axis as diagonals of square matrices, which become the last two axes.
Tensor DiagEmbed(const Tensor& x, int64_t offset = 0, Site site = Site::current());
// A vector as the diagonal of a matrix; of a matrix its diagonal.
Tensor Diag(const Tensor& x, int64_t offset = 0, Site site = Site::current());

// The coordinates of all points of a grid, one tensor for each of these vectors. xy exchanges the
// first two axes, as NumPy does.
std::vector<Tensor> MeshGrid(std::span<const Tensor> vectors, bool xy = false,
                             Site site = Site::current());

// Divides an axis; one size may be -1.
Tensor Unflatten(const Tensor& x, int64_t axis, const Dims& sizes, Site site = Site::current());
// Joins the axes from one to another, both included.
Tensor FlattenAxes(const Tensor& x, int64_t first = 0, int64_t last = -1,
                   Site site = Site::current());
// Divides, exchanges and joins axes by a formula: "b (h w) c -> b c h w" with {{"h", 4}}. Names in
// parentheses are one axis of x, or become one axis. "1" is an axis of size 1, "..." stands for all
// axes that have no name. Of each axis all sizes but one must be given; the last one follows from
// x. A. Rogozhnikov, Einops, 2022.
Tensor Rearrange(const Tensor& x, std::string_view formula,
                 std::span<const std::pair<std::string, int64_t>> sizes = {},
                 Site site = Site::current());
// Moves axes to new places; the others keep their order.
Tensor MoveAxis(const Tensor& x, const Dims& from, const Dims& to, Site site = Site::current());
// Windows of `size` elements along an axis, every `step` elements, in a new last axis.
Tensor Unfold(const Tensor& x, int64_t axis, int64_t size, int64_t step,
              Site site = Site::current());

// Tensors of the shape of x, on its devices and in pieces as it is; of its dtype if none is given.
Tensor FullLike(const Tensor& x, Operand value, std::optional<Dtype> dtype = {},
                Site site = Site::current());
inline Tensor ZerosLike(const Tensor& x, std::optional<Dtype> dtype = {},
                        Site site = Site::current()) {
  return FullLike(x, 0, dtype, site);
}
inline Tensor OnesLike(const Tensor& x, std::optional<Dtype> dtype = {},
                       Site site = Site::current()) {
  return FullLike(x, 1, dtype, site);
}
// `count` values from `begin` to `end`, both included. Computed in f64 and rounded once.
Tensor Linspace(Client& client, double begin, double end, int64_t count, Dtype dtype = Dtype::F32,
                Site site = Site::current());
// Linspace with a count that may be made of variables. The values are those for a number.
Tensor Linspace(Client& client, double begin, double end, const Size& count,
                Dtype dtype = Dtype::F32, Site site = Site::current());

}  // namespace uopd::client::fn
