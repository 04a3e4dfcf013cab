// SPDX-License-Identifier: MIT
// Reading and writing parts of tensors by Python's index expressions, and by tensors of positions.
// Errors are as in tensor.h. Index and IndexPut refuse symbolic dimensions. Positions in tensors
// may be negative: they count from the end. Positions out of range read 0 and write nothing: no
// daemon can report them.
#pragma once
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "uopd/tensor.h"

namespace uopd::client::fn {

// One entry of x[...]: an integer, a Range (begin:end:step), None (a new axis), an ellipsis, or a
// tensor of integers. The tensor of an item must outlive the item.
class IndexItem {
 public:
  struct NewAxis {};
  struct Rest {};
  // NOLINTBEGIN(google-explicit-constructor)
  IndexItem(int64_t position) : item_(position) {}
  IndexItem(Range range) : item_(range) {}
  IndexItem(const Tensor& positions) : item_(&positions) {}
  // NOLINTEND(google-explicit-constructor)
  static IndexItem None() { return IndexItem(Item(NewAxis{})); }
  static IndexItem Ellipsis() { return IndexItem(Item(Rest{})); }

  using Item = std::variant<int64_t, Range, const Tensor*, NewAxis, Rest>;
  const Item& item() const { return item_; }

 private:
  explicit IndexItem(Item item) : item_(item) {}
  Item item_;
};

// x[items]. Integers, ranges and new axes are applied first. Then tensors of positions select:
// their shapes broadcast, and the common shape replaces their axes, in their place if they are
// neighbours, else in front. (NumPy counts integers among the tensors when it looks for neighbours;
// PyTorch and tinygrad do as it is here.) A tensor of bools is refused, because its number of
// elements is not known: MaskedSelect, Where and MaskedFill take masks.
Tensor Index(const Tensor& x, std::span<const IndexItem> items, Site site = Site::current());
// x with x[items] replaced by the value, which broadcasts and takes the dtype of x. Of several
// values for one element the last one counts; with `accumulate` all of them are added. Has
// gradients in x and in the value.
Tensor IndexPut(const Tensor& x, std::span<const IndexItem> items, Operand value,
                bool accumulate = false);
// x[items] = value, as Tensor::Assign.
// An error leaves x as it was.
absl::Status AssignIndex(Tensor& x, std::span<const IndexItem> items, Operand value);
// x.IndexSelect(axis, positions) = value, also where sizes are made of variables. The value
// broadcasts and takes the dtype of x; of several values for one element the last one counts. An
// error leaves x as it was.
absl::Status AssignSelected(Tensor& x, int64_t axis, const Tensor& positions, Operand value);
// Several axes of x as one, the first one, which is a view; and the positions in it of the elements
// that tensors of positions in each of these axes, whose shapes broadcast, lead to. Sizes may be
// made of variables.
std::pair<Tensor, Tensor> JoinAxes(const Tensor& x, const Dims& axes,
                                   std::span<const Tensor> positions, Site site = Site::current());
// As x.Assign(value) for a value that is x but where `written` is true (bools of the shape of x):
// what x is a view of changes only there, also where x does not have its newest elements. An error
// leaves x as it was.
absl::Status AssignChanged(Tensor& x, const Tensor& value, const Tensor& written,
                           Site site = Site::current());

// x with out[index[i][j][k]][j][k] = src[i][j][k] for axis 0; likewise for other axes. The index is
// at most as long as src along each axis, and as x along all other axes. Of several values the last
// one counts. Takes time proportional to the size of x times the length of the index along the
// axis.
Tensor Scatter(const Tensor& x, int64_t axis, const Tensor& index, Operand src);
enum class ScatterMode { kSum, kProd, kMean, kAmax, kAmin };
// As Scatter, but all values for one element are combined with each other, and with that of x if
// include_self. Elements without a value stay. The mean of integers is rounded down.
Tensor ScatterReduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src,
                     ScatterMode mode, bool include_self = true, Site site = Site::current());

// The first `size` elements (in row-major order) for which the mask is true, then `fill`. The mask
// broadcasts to the shape of x.
Tensor MaskedSelect(const Tensor& x, const Tensor& mask, int64_t size, double fill = 0,
                    Site site = Site::current());
// x with x[mask] = values: the mask has the leading axes of x; values (m, the other axes of x) take
// their places in order, where the mask is true for the first, second, ... time. Values that are
// left over are not used; places beyond m stay.
Tensor MaskedPut(const Tensor& x, const Tensor& mask, const Tensor& values,
                 Site site = Site::current());
// The positions of the first `size` elements other than 0, as rows of a tensor (size, rank), then
// `fill`. They are i32, or i64 in tensors of more than 2^31 elements.
Tensor Nonzero(const Tensor& x, int64_t size, int64_t fill = -1, Site site = Site::current());
// Elements of the flattened tensor.
Tensor Take(const Tensor& x, const Tensor& index, Site site = Site::current());

// x with other sizes, which may be symbolic as those of x may be.
Tensor Reshape(const Tensor& x, std::span<const Size> sizes, Site site = Site::current());
// Tensor::Expand to sizes that may be symbolic.
Tensor Expand(const Tensor& x, std::span<const Size> sizes, Site site = Site::current());

}  // namespace uopd::client::fn
