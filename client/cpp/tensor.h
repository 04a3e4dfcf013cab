// SPDX-License-Identifier: MIT
// Tensor: a lazy value. Operations build graph; Realize, or reading, sends it to the daemon.
//
// A Tensor is a handle; copies are the same tensor. It belongs to the Client that made it, is used
// by one thread at a time with it, and may outlive it. The daemon's memory behind it is freed, with
// the next request, when the last handle goes.
//
// Errors do not throw and need no check on the way: an operation that cannot be built gives a
// tensor that carries the first error, with the operation and the caller's file and line, and so
// does everything computed from it. status() shows it; Realize and reads return it.
//
// Elementwise operations broadcast as NumPy does and promote dtypes (ir::Promote). A C++ number
// takes the dtype of the tensor it meets, except that a floating-point one makes integers f32 and
// an integer makes bools i32. Axes count from the end when negative.
//
// A dimension may be symbolic: an expression over variables (Client::Variable), made by Narrow.
// Elementwise operations, reductions, Softmax, MatMul, Pad, Concat and the movement operations that
// leave it whole take such tensors; the others refuse them. Only tensors of fixed shape can be
// realised.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ir/dtype.h"
#include "core/ir/shape.h"

namespace uopd::client {

using ir::Dims;
using ir::Dtype;
using Site = std::source_location;

struct TensorState;
class Tensor;

// A tensor or a number, with the place in the caller's code that passed it.
class Operand {
 public:
  // Implicit, so that x + 1 reads as it should.
  // NOLINTBEGIN(google-explicit-constructor)
  Operand(const Tensor& t, Site site = Site::current()) : tensor_(&t), site_(site) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T v, Site site = Site::current())
      : number_(static_cast<double>(v)),
        integer_(IntegerOf(v)),
        is_integer_(std::is_integral_v<T>),
        is_bool_(std::is_same_v<T, bool>),
        site_(site) {}
  // NOLINTEND(google-explicit-constructor)

  const Tensor* tensor() const { return tensor_; }
  double number() const { return number_; }
  int64_t integer() const { return integer_; }  // 0 if it is none
  bool is_integer() const { return is_integer_; }
  bool is_bool() const { return is_bool_; }
  Site site() const { return site_; }

 private:
  // Of a floating-point number it is not asked for, and infinity has none.
  template <class T>
  static constexpr int64_t IntegerOf(T v) {
    if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(v);
    return 0;
  }

  const Tensor* tensor_ = nullptr;
  double number_ = 0;
  int64_t integer_ = 0;
  bool is_integer_ = false, is_bool_ = false;
  Site site_;
};

// A length or position along an axis: a number, or a scalar integer tensor computed by + - * from
// numbers and variables (Client::Variable), whose value is then no part of the graph.
class Size {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  Size(int64_t v) : number_(v) {}
  Size(const Tensor& t) : tensor_(&t) {}
  // NOLINTEND(google-explicit-constructor)
  const Tensor* tensor() const { return tensor_; }
  int64_t number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  int64_t number_ = 0;
};

// begin:end:step as in Python: negative positions count from the end, positions outside are
// clamped, a negative step reverses.
struct Range {
  std::optional<int64_t> begin, end;
  int64_t step = 1;
};

template <class T>
constexpr Dtype DtypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return Dtype::F32;
  else if constexpr (std::is_same_v<T, double>)
    return Dtype::F64;
  else if constexpr (std::is_same_v<T, bool>)
    return Dtype::Bool;
  else if constexpr (std::is_same_v<T, int8_t>)
    return Dtype::I8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return Dtype::U8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return Dtype::I16;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return Dtype::U16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return Dtype::I32;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return Dtype::U32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return Dtype::I64;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return Dtype::U64;
  else
    static_assert(sizeof(T) == 0, "no dtype for this type");
}

class Tensor {
 public:
  Tensor() = default;  // empty: every use of it is an error
  explicit Tensor(std::shared_ptr<TensorState> state) : state_(std::move(state)) {}

  absl::Status status() const;
  const Dims& dims() const;  // the largest values of symbolic dimensions
  bool is_symbolic() const;  // some dimension is
  int64_t rank() const { return static_cast<int64_t>(dims().size()); }
  int64_t size() const { return ir::Product(dims()); }
  Dtype dtype() const;
  const std::string& device() const;  // empty: the daemon's default, or several (devices())
  bool is_realized() const;
  const std::shared_ptr<TensorState>& state() const { return state_; }

  // Reading. Realises what is not.
  absl::Status Realize() const;
  absl::StatusOr<std::string> ToBytes() const;  // little-endian, row-major
  // INVALID_ARGUMENT if T is not the dtype (bool tensors are also read as uint8_t).
  template <class T>
  absl::StatusOr<std::vector<T>> ToHost() const {
    static_assert(!std::is_same_v<T, bool>, "read bool tensors as uint8_t");
    UOPD_TRY(CheckReadable(DtypeOf<T>()));
    UOPD_ASSIGN(std::string bytes, ToBytes());
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  absl::StatusOr<T> Item() const {
    UOPD_ASSIGN(std::vector<T> all, ToHost<T>());
    if (all.size() != 1)
      return absl::InvalidArgumentError("Item of a tensor that has not one element");
    return all[0];
  }

  // The tensor takes another value of its shape and dtype. What was built from it before still sees
  // the old value. Its memory is overwritten when it is realised, unless another tensor still needs
  // the old contents.
  void Assign(Operand value);
  // As Assign, of the part that begins at `begin` along one axis and has the value's length there;
  // the rest keeps its values. Written in place under the same condition. Gradient is
  // UNIMPLEMENTED through it.
  void AssignNarrow(int64_t axis, Size begin, const Tensor& value, Site site = Site::current());

  // Differentiation. RequireGrad makes the tensor a leaf of its own; Backward adds d(loss)/d(leaf)
  // to every such leaf's grad().
  Tensor& RequireGrad(bool on = true);
  bool requires_grad() const;
  absl::Status Backward(Site site = Site::current()) const;  // of a scalar
  Tensor grad() const;                                       // empty before Backward
  void ClearGrad();
  Tensor Detach(Site site = Site::current()) const;

  Tensor Cast(Dtype dtype, Site site = Site::current()) const;
  Tensor Bitcast(Dtype dtype, Site site = Site::current()) const;
  Tensor Contiguous(Site site = Site::current()) const;
  Tensor ContiguousBackward(Site site = Site::current()) const;

  // Several devices (docs/client.md). Shard: one piece on each, following each other along an axis;
  // no sizes: as equal as they can be, larger ones first. Every piece has at least one element
  // along the axis. Replicate: everything on each. To: everything on one, gathered bit by bit.
  // Realised tensors keep their pieces where they are, and what is computed from them is in pieces
  // too. The gradient through Replicate is that of one value.
  Tensor Shard(const std::vector<std::string>& devices, int64_t axis, const Dims& sizes = {},
               Site site = Site::current()) const;
  Tensor Replicate(const std::vector<std::string>& devices, Site site = Site::current()) const;
  Tensor To(const std::string& device, Site site = Site::current()) const;
  // Where `other` is, in pieces like it; of its shape if it is sharded.
  Tensor ToLayoutOf(const Tensor& other, Site site = Site::current()) const;
  std::vector<std::string> devices() const;  // of the pieces; of tensors in one piece: device()
  int64_t shard_axis() const;                // -1: not sharded
  Dims shard_sizes() const;                  // along it

  // Elementwise.
  friend Tensor operator+(Operand a, Operand b);
  friend Tensor operator-(Operand a, Operand b);
  friend Tensor operator*(Operand a, Operand b);
  friend Tensor operator/(Operand a, Operand b);  // of integers: f32
  friend Tensor operator%(Operand a, Operand b);  // sign of the divisor
  friend Tensor operator&(Operand a, Operand b);
  friend Tensor operator|(Operand a, Operand b);
  friend Tensor operator^(Operand a, Operand b);
  friend Tensor operator<<(Operand a, Operand b);
  friend Tensor operator>>(Operand a, Operand b);
  friend Tensor operator<(Operand a, Operand b);
  friend Tensor operator>(Operand a, Operand b);
  friend Tensor operator<=(Operand a, Operand b);
  friend Tensor operator>=(Operand a, Operand b);
  friend Tensor operator==(Operand a, Operand b);
  friend Tensor operator!=(Operand a, Operand b);
  Tensor operator-() const { return Neg(); }
  Tensor FloorDiv(Operand b) const;
  // Of integers: an integer, which wraps. A negative power in a tensor gives 1, -1 or 0; a negative
  // number is refused.
  Tensor Pow(Operand b) const;
  Tensor Maximum(Operand b) const;
  Tensor Minimum(Operand b) const;
  Tensor Neg(Site site = Site::current()) const;
  Tensor Not(Site site = Site::current()) const;  // of bool: logical, of integers: bitwise
  Tensor Exp2(Site site = Site::current()) const;
  Tensor Log2(Site site = Site::current()) const;
  Tensor Exp(Site site = Site::current()) const;
  Tensor Log(Site site = Site::current()) const;
  Tensor Sin(Site site = Site::current()) const;
  Tensor Cos(Site site = Site::current()) const;
  Tensor Sqrt(Site site = Site::current()) const;
  Tensor Rsqrt(Site site = Site::current()) const;
  Tensor Reciprocal(Site site = Site::current()) const;
  Tensor Trunc(Site site = Site::current()) const;
  Tensor Floor(Site site = Site::current()) const;
  Tensor Ceil(Site site = Site::current()) const;
  Tensor Abs(Site site = Site::current()) const;
  Tensor Square(Site site = Site::current()) const;
  Tensor Sign(Site site = Site::current()) const;  // -1, 0 or 1; NaN stays NaN
  // NaN stays NaN.
  Tensor Clip(double low, double high, Site site = Site::current()) const;
  Tensor IsNan(Site site = Site::current()) const;
  Tensor Relu(Site site = Site::current()) const;
  Tensor Sigmoid(Site site = Site::current()) const;
  Tensor Tanh(Site site = Site::current()) const;
  Tensor Gelu(Site site = Site::current()) const;  // the tanh form
  Tensor Silu(Site site = Site::current()) const;

  // Movement.
  Tensor Reshape(Dims dims, Site site = Site::current()) const;  // one dimension may be -1
  Tensor Flatten(int64_t from_axis = 0, Site site = Site::current()) const;
  Tensor Expand(Dims dims, Site site = Site::current()) const;  // -1 keeps a dimension
  Tensor Permute(Dims order, Site site = Site::current()) const;
  Tensor Transpose(int64_t a = -2, int64_t b = -1, Site site = Site::current()) const;
  Tensor Pad(Dims before, Dims after, double value = 0, Site site = Site::current()) const;
  Tensor Shrink(Dims begin, Dims end, Site site = Site::current()) const;
  Tensor Flip(Dims axes, Site site = Site::current()) const;
  Tensor Slice(std::vector<Range> ranges,
               Site site = Site::current()) const;  // of the leading axes
  Tensor Select(int64_t axis, int64_t index, Site site = Site::current()) const;
  Tensor Squeeze(int64_t axis, Site site = Site::current()) const;
  Tensor Unsqueeze(int64_t axis, Site site = Site::current()) const;
  // length elements from begin on; also of and with symbolic sizes.
  Tensor Narrow(int64_t axis, Size begin, Size length, Site site = Site::current()) const;
  // Pieces along an axis. Split: of the given lengths, which add up; Chunk: `pieces` of equal
  // length, the last perhaps shorter (and fewer, if there is not enough).
  std::vector<Tensor> Split(int64_t axis, const Dims& lengths, Site site = Site::current()) const;
  std::vector<Tensor> Chunk(int64_t axis, int64_t pieces, Site site = Site::current()) const;
  // The whole tensor again and again along the axes, aligned at the last.
  Tensor Repeat(Dims times, Site site = Site::current()) const;
  // Of the last two axes: elements at or below (above) the diagonal, 0 elsewhere.
  Tensor Tril(int64_t diagonal = 0, Site site = Site::current()) const;
  Tensor Triu(int64_t diagonal = 0, Site site = Site::current()) const;
  // Windows over the last axes, one for each entry of kernel: [..., out..., kernel...]. Where there
  // is not enough for one window, out is 0.
  Tensor Windows(const Dims& kernel, const Dims& stride, const Dims& dilation,
                 Site site = Site::current()) const;
  // out[i][j][k] = this[i][index[i][j][k]][k] for axis 1, and so on. The index is no longer than
  // this tensor along the other axes. Negative and outside indices as IndexSelect.
  Tensor Gather(int64_t axis, const Tensor& index, Site site = Site::current()) const;
  // Elements along an axis by an integer tensor, whose shape takes the place of the axis. Negative
  // indices count from the end; indices outside give 0.
  Tensor IndexSelect(int64_t axis, const Tensor& index, Site site = Site::current()) const;
  // One-hot rows in a new last axis.
  Tensor OneHot(int64_t classes, Dtype dtype = Dtype::F32, Site site = Site::current()) const;

  // Reductions; no axes: all of them.
  Tensor Sum(Dims axes = {}, bool keep = false, Site site = Site::current()) const;
  Tensor Mean(Dims axes = {}, bool keep = false, Site site = Site::current()) const;
  Tensor Max(Dims axes = {}, bool keep = false, Site site = Site::current()) const;
  Tensor Min(Dims axes = {}, bool keep = false, Site site = Site::current()) const;
  Tensor Prod(Dims axes = {}, bool keep = false, Site site = Site::current()) const;
  Tensor Var(Dims axes = {}, bool keep = false, int64_t correction = 1,
             Site site = Site::current()) const;
  // The variance and the mean, sharing their work.
  std::pair<Tensor, Tensor> VarMean(Dims axes = {}, bool keep = false, int64_t correction = 1,
                                    Site site = Site::current()) const;
  Tensor Std(Dims axes = {}, bool keep = false, int64_t correction = 1,
             Site site = Site::current()) const;
  // i32; the first of ties, NaN first.
  Tensor Argmax(int64_t axis = -1, bool keep = false, Site site = Site::current()) const;
  Tensor Argmin(int64_t axis = -1, bool keep = false, Site site = Site::current()) const;
  // Of sums of all elements up to each one. Dtypes as of Sum.
  Tensor CumSum(int64_t axis = -1, Site site = Site::current()) const;
  // Sorted values and where each was (i32); stable; NaN is larger than all. Positions cost time in
  // the square of the length and are computed when used.
  std::pair<Tensor, Tensor> Sort(int64_t axis = -1, bool descending = false,
                                 Site site = Site::current()) const;
  std::pair<Tensor, Tensor> TopK(int64_t k, int64_t axis = -1, bool largest = true,
                                 Site site = Site::current()) const;

  // As numpy.matmul: any leading axes, vectors at either side.
  Tensor MatMul(Operand b) const;

  Tensor Softmax(int64_t axis = -1, Site site = Site::current()) const;
  Tensor LogSoftmax(int64_t axis = -1, Site site = Site::current()) const;
  // Mean over all rows of -log softmax(this)[label]; labels are integers and lack the last axis.
  Tensor CrossEntropy(const Tensor& labels, Site site = Site::current()) const;
  // Zeroes elements with probability p and scales the rest by 1 / (1 - p).
  Tensor Dropout(double p, Site site = Site::current()) const;

 private:
  absl::Status CheckReadable(Dtype as) const;

  std::shared_ptr<TensorState> state_;
};

Tensor Where(Operand condition, Operand a, Operand b);
Tensor Concat(std::span<const Tensor> parts, int64_t axis = 0, Site site = Site::current());
Tensor Stack(std::span<const Tensor> parts, int64_t axis = 0, Site site = Site::current());

// d(loss)/d(target) for every target, zeros where the loss does not depend on it.
// FAILED_PRECONDITION for a loss that has been realised: its graph is gone.
absl::StatusOr<std::vector<Tensor>> Gradient(const Tensor& loss, std::span<const Tensor> targets,
                                             Site site = Site::current());

// The graph that Realize of these tensors would send, without sending or changing anything.
struct Exported {
  std::string graph;   // wire form of the normalised graph (core/ir/wire.h)
  std::string digest;  // SHA-256 of it: its semantic key
  size_t nodes = 0, slots = 0;
};
absl::StatusOr<Exported> Export(std::span<const Tensor> tensors);

// Computes tensors of one client in one request.
absl::Status Realize(std::span<const Tensor> tensors);
inline absl::Status Realize(std::initializer_list<Tensor> tensors) {
  return Realize(std::span(tensors.begin(), tensors.size()));
}

}  // namespace uopd::client
