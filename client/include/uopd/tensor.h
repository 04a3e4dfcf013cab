// SPDX-License-Identifier: MIT
// Tensor: a lazy value. Operations build a graph; Realize, or reading, sends it to the daemon.
//
// A Tensor is a handle; copies are the same tensor. It belongs to the Client that made it. One
// thread at a time uses the Client and its tensors. A Tensor may outlive its Client. When the last
// handle is destroyed, the next request frees the memory on the daemon.
//
// Errors do not throw and need no check after each operation. An operation that cannot be built
// gives a tensor that carries the error, with the operation and the caller's file and line.
// Everything that is computed from it carries the first such error. status() returns it; so do
// Realize and reads.
//
// Elementwise operations broadcast as NumPy does and promote dtypes (ir::Promote). A C++ number
// takes the dtype of the tensor that it is combined with. Exceptions: with a floating-point number,
// integer tensors become f32; with an integer, bool tensors become i32. Negative axes count from
// the end.
//
// A dimension may be symbolic: an expression over variables (Client::Variable). Its largest value
// counts in dims(), and the value that it has now in sizes(), in reads and in checks of bounds.
// docs/client.md, "Symbolic sizes", says which operations refuse such tensors.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ir/dims.h"
#include "core/ir/dtype.h"
#include "uopd/future.h"
#include "uopd/site.h"

namespace uopd::client {

using ir::Dims;
using ir::Dtype;

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
  int64_t integer() const { return integer_; }  // 0 if the operand is no integer
  bool is_integer() const { return is_integer_; }
  bool is_bool() const { return is_bool_; }
  Site site() const { return site_; }

 private:
  // The number as int64_t. 0 for a floating-point number, which may be infinite.
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

// A length or position along an axis: a number, or a scalar integer tensor that is computed from
// numbers and variables (Client::Variable) by +, -, *, FloorDiv, % and Maximum. The values of
// variables are no part of the graph.
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

// begin:end:step as in Python. Negative positions count from the end; positions outside are
// clamped; a negative step reverses the order.
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
  bool is_symbolic() const;  // some dimension is symbolic
  Dims sizes() const;        // the dimensions with the values that variables have now
  // The size of an axis as a scalar, which can be given as a Size.
  Tensor Length(int64_t axis, Site site = Site::current()) const;
  int64_t rank() const { return static_cast<int64_t>(dims().size()); }
  int64_t size() const { return ir::Product(dims()); }
  Dtype dtype() const;
  const std::string& device() const;  // empty: the default device, or several (see devices())
  bool is_realized() const;
  // True if this process has the contents already: a read sends nothing and does not wait.
  bool at_hand() const;
  const std::shared_ptr<TensorState>& state() const { return state_; }
  // The recording for whose function this is an argument (Jit::Begin); 0: none. Internal.
  uint64_t recording() const { return recording_; }

  // Computes the tensor and waits. On failure the tensor stays as it was.
  absl::Status Realize() const;
  // Sends what computes the tensor, see Submit below.
  absl::Status Submit() const;
  // Reads the contents into memory of the caller, which has their size and stays until the future
  // has ended. Does not wait. Submits the tensor first if necessary.
  Future ReadInto(std::span<char> out) const;
  // Sends the contents of a tensor that Client::FromBytes made, which otherwise travel with the
  // first request that uses it. Does not wait. Does nothing to other tensors. Once the future has
  // ended, the next call frees the client's copy.
  Future Upload() const;
  // Reading. Submits the tensor first if necessary, and waits.
  absl::StatusOr<std::string> ToBytes() const;  // little-endian, row-major, of sizes()
  // INVALID_ARGUMENT if T is not the type of the dtype. Bool tensors are read as uint8_t.
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

  // Gives the tensor another value of its shape and dtype. Tensors that were built from it before
  // still see the old value. When the tensor is realised, its memory is overwritten, unless another
  // tensor still needs the old contents. An assignment to a view (Reshape, Permute, Transpose,
  // Flip, Shrink, Slice, Select, Squeeze, Unsqueeze, Narrow, Split, Chunk, Detach, Index without
  // tensors, and views of views) also changes these elements of what it is a view of, in place
  // under the same condition.
  void Assign(Operand value);
  // As Assign, but an error is returned, and the tensor stays as it was.
  absl::Status TryAssign(Operand value);
  // Another tensor with the value that this one has now.
  Tensor Snapshot() const;
  // True if an assignment to it changes another tensor too, which still exists.
  bool is_view() const;
  // As Assign, for a part of the tensor: it begins at `begin` along one axis and has the length of
  // `value` there. The rest keeps its values.
  void AssignNarrow(int64_t axis, Size begin, const Tensor& value, Site site = Site::current());

  // Differentiation. RequireGrad makes the tensor a leaf. Backward, called on a loss, adds
  // d(loss)/d(leaf) to the grad() of every leaf. If the loss was computed from no leaf, every live
  // float tensor that it was computed from counts as one, except those with RequireGrad(false).
  // Such tensors may share a node (see Apart).
  Tensor& RequireGrad(bool on = true);
  bool requires_grad() const;
  std::optional<bool> grad_wish() const;  // what RequireGrad said last, if anything
  absl::Status Backward(Site site = Site::current()) const;  // of one element
  Tensor grad() const;                                       // empty before Backward
  // INVALID_ARGUMENT for a tensor of another shape, dtype or client.
  absl::Status SetGrad(const Tensor& grad, Site site = Site::current());
  void ClearGrad();
  Tensor Detach(Site site = Site::current()) const;

  Tensor Cast(Dtype dtype, Site site = Site::current()) const;
  // The same bits. If the sizes of the dtypes differ, the last axis has more or fewer elements.
  Tensor Bitcast(Dtype dtype, Site site = Site::current()) const;
  // The same value as a node that equals no other one. Tensors with equal graphs, such as zeros of
  // one shape, are one node; gradients with respect to them are told apart by this.
  Tensor Apart(Site site = Site::current()) const;
  Tensor Contiguous(Site site = Site::current()) const;
  Tensor ContiguousBackward(Site site = Site::current()) const;

  // Several devices (docs/client.md). "CPU" is a name of "CPU:0". Shard: one piece on each device;
  // the pieces follow each other along an axis. Without `sizes` the pieces are as equal as
  // possible, larger ones first. Every piece has at least one element along the axis. Replicate:
  // the whole value on each device. To: the whole value on one device; its bits do not change. A
  // realised tensor keeps its pieces where they are, and values that are computed from it are in
  // pieces too. The gradient through Replicate is that of one value.
  Tensor Shard(const std::vector<std::string>& devices, int64_t axis, const Dims& sizes = {},
               Site site = Site::current()) const;
  Tensor Replicate(const std::vector<std::string>& devices, Site site = Site::current()) const;
  Tensor To(const std::string& device, Site site = Site::current()) const;
  // The value on the devices of `other`, in pieces like those of `other`. If `other` is sharded,
  // its shape must be that of this tensor.
  Tensor ToLayoutOf(const Tensor& other, Site site = Site::current()) const;
  std::vector<std::string> devices() const;  // of the pieces; for a tensor in one piece: device()
  int64_t shard_axis() const;                // -1: not sharded
  Dims shard_sizes() const;                  // sizes of the pieces along the axis

  // Elementwise.
  friend Tensor operator+(Operand a, Operand b);
  friend Tensor operator-(Operand a, Operand b);
  friend Tensor operator*(Operand a, Operand b);
  // The result for integers is f32. A quotient by 1 + e with e = x.Exp() is computed with Sigmoid,
  // so it and its gradient are finite where e is not.
  friend Tensor operator/(Operand a, Operand b);
  // The result has the sign of the divisor. That of floats is NumPy's, and exact (fn::Fmod in
  // math.h says up to where).
  friend Tensor operator%(Operand a, Operand b);
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
  // The exact quotient, rounded down. Of floats as NumPy's floor_divide.
  Tensor FloorDiv(Operand b) const;
  // The power of integers is an integer, which wraps. An exponent tensor may have negative
  // elements; they give 1, -1 or 0. A negative integer number as exponent is refused.
  Tensor Pow(Operand b) const;
  // Where both are equal, each has half of the gradient.
  Tensor Maximum(Operand b) const;
  Tensor Minimum(Operand b) const;
  // As Maximum and Minimum, but where both are equal this tensor has the gradient.
  Tensor AtLeast(Operand low) const;
  Tensor AtMost(Operand high) const;
  Tensor Neg(Site site = Site::current()) const;
  Tensor Not(Site site = Site::current()) const;  // bools: logical; integers: bitwise
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
  // NaN stays NaN. The gradient at a limit is 1.
  Tensor Clip(double low, double high, Site site = Site::current()) const;
  Tensor IsNan(Site site = Site::current()) const;
  Tensor Relu(Site site = Site::current()) const;  // the gradient at 0 is 0
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
               Site site = Site::current()) const;  // ranges of the leading axes
  Tensor Select(int64_t axis, int64_t index, Site site = Site::current()) const;
  Tensor Squeeze(int64_t axis, Site site = Site::current()) const;
  Tensor Unsqueeze(int64_t axis, Site site = Site::current()) const;
  // `length` elements from `begin` on. The axis, `begin` and `length` may be symbolic.
  Tensor Narrow(int64_t axis, Size begin, Size length, Site site = Site::current()) const;
  // Pieces along an axis. Split: pieces of the given lengths, whose sum is the size of the axis.
  // Chunk: `pieces` pieces of equal length; the last one may be shorter, and there are fewer pieces
  // if the axis is too short.
  std::vector<Tensor> Split(int64_t axis, const Dims& lengths, Site site = Site::current()) const;
  std::vector<Tensor> Chunk(int64_t axis, int64_t pieces, Site site = Site::current()) const;
  // Repeats the whole tensor along the axes. The last count belongs to the last axis.
  Tensor Repeat(Dims times, Site site = Site::current()) const;
  // For the last two axes: the elements at or below (Tril) or at or above (Triu) the diagonal, and
  // 0 elsewhere.
  Tensor Tril(Size diagonal = 0, Site site = Site::current()) const;
  Tensor Triu(Size diagonal = 0, Site site = Site::current()) const;
  // Windows over the last axes, one axis for each entry of `kernel`. The result has the shape [...,
  // out..., kernel...]. out is 0 along an axis that is too short for one window.
  Tensor Windows(const Dims& kernel, const Dims& stride, const Dims& dilation,
                 Site site = Site::current()) const;
  // out[i][j][k] = this[i][index[i][j][k]][k] for axis 1; likewise for other axes. Along all other
  // axes the index is at most as long as this tensor. Indices that are negative or out of range are
  // treated as by IndexSelect.
  Tensor Gather(int64_t axis, const Tensor& index, Site site = Site::current()) const;
  // Selects elements along an axis by an integer tensor. The shape of the index replaces the axis.
  // Negative indices count from the end; indices out of range give 0.
  Tensor IndexSelect(int64_t axis, const Tensor& index, Site site = Site::current()) const;
  // One-hot rows in a new last axis.
  Tensor OneHot(int64_t classes, Dtype dtype = Dtype::F32, Site site = Site::current()) const;

  // Reductions. Without axes they reduce over all of them. A tensor that has no axes takes the axes
  // 0 and -1 here, and one axis of these in all that follow (Argmax to LogSoftmax) and in Flip.
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
  // The position, as i32, or i64 in an axis of more than 2^31 elements. Of equal elements the first
  // one counts; a NaN is greater than all others.
  Tensor Argmax(int64_t axis = -1, bool keep = false, Site site = Site::current()) const;
  Tensor Argmin(int64_t axis = -1, bool keep = false, Site site = Site::current()) const;
  // Running sums: for each element the sum of all elements up to it. The dtype is that of Sum.
  Tensor CumSum(int64_t axis = -1, Site site = Site::current()) const;
  // The sorted values, and the position that each one had before: i32, or i64 in an axis of over
  // 2^31 elements. The order is stable; NaN is larger than all others, and -0 equals 0. About
  // log2(n)^2 / 2 steps for each of the n elements of the axis. TopK gives the first k of them.
  std::pair<Tensor, Tensor> Sort(int64_t axis = -1, bool descending = false,
                                 Site site = Site::current()) const;
  std::pair<Tensor, Tensor> TopK(int64_t k, int64_t axis = -1, bool largest = true,
                                 Site site = Site::current()) const;

  // As numpy.matmul: operands may have leading axes, or be vectors.
  Tensor MatMul(Operand b) const;

  Tensor Softmax(int64_t axis = -1, Site site = Site::current()) const;
  Tensor LogSoftmax(int64_t axis = -1, Site site = Site::current()) const;
  // The mean over all rows of -log softmax(this)[label]. Labels are integers; their shape is that
  // of this tensor without the last axis.
  Tensor CrossEntropy(const Tensor& labels, Site site = Site::current()) const;
  // Zeroes elements with probability p and scales the rest by 1 / (1 - p).
  Tensor Dropout(double p, Site site = Site::current()) const;

 private:
  friend class Recording;
  absl::Status CheckReadable(Dtype as) const;

  std::shared_ptr<TensorState> state_;
  uint64_t recording_ = 0;  // Recording::id
};

Tensor Where(Operand condition, Operand a, Operand b);
Tensor Concat(std::span<const Tensor> parts, int64_t axis = 0, Site site = Site::current());
Tensor Stack(std::span<const Tensor> parts, int64_t axis = 0, Site site = Site::current());

// d(loss)/d(target) for every target; zeros for a target that the loss does not depend on.
// Tensors that were realised, or read, are no exception: gradients flow through them.
// FAILED_PRECONDITION for a loss whose graph is gone: a tensor that it was computed from was
// assigned another value meanwhile, or nothing that it was computed from is left.
absl::StatusOr<std::vector<Tensor>> Gradient(const Tensor& loss, std::span<const Tensor> targets,
                                             Site site = Site::current());

// The graph that Realize of these tensors would send. Nothing is sent or changed.
struct Exported {
  std::string graph;   // wire form of the normalised graph (core/ir/io/wire.h)
  std::string digest;  // SHA-256 of it: its semantic key
  size_t nodes = 0, slots = 0;
};
absl::StatusOr<Exported> Export(std::span<const Tensor> tensors);

// Computes several tensors of one client in one request, and waits. On failure they stay as they
// were.
absl::Status Realize(std::span<const Tensor> tensors);
inline absl::Status Realize(std::initializer_list<Tensor> tensors) {
  return Realize(std::span(tensors.begin(), tensors.size()));
}
// The same without waiting: the tensors are realised at once, and the daemon computes them. If it
// cannot, a tensor that is new carries the error of the daemon, and one that Assign gave a new
// value keeps its old contents. The next Submit, Realize or Client::Sync returns the error, once,
// unless a read did. An error that is returned here means that nothing was sent.
absl::Status Submit(std::span<const Tensor> tensors);
inline absl::Status Submit(std::initializer_list<Tensor> tensors) {
  return Submit(std::span(tensors.begin(), tensors.size()));
}

}  // namespace uopd::client
