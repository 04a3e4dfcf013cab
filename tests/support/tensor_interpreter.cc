// SPDX-License-Identifier: MIT
#include "tests/support/tensor_interpreter.h"

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::test {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;

// Calls f(index) for every index of dims in row-major order.
void ForEach(const Dims& dims, const std::function<void(const Dims&)>& f) {
  if (ir::Product(dims) == 0) return;
  Dims index(dims.size(), 0);
  while (true) {
    f(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t Flat(const Dims& dims, const Dims& index) {
  int64_t flat = 0;
  for (size_t i = 0; i < dims.size(); ++i) flat = flat * dims[i] + index[i];
  return flat;
}

// The element of `from` that broadcasting (right-aligned, size-1 axes repeat) shows at `index`.
const Scalar& Broadcast(const HostArray& from, const Dims& index) {
  Dims at(from.dims.size());
  const size_t skip = index.size() - from.dims.size();
  for (size_t i = 0; i < at.size(); ++i) at[i] = from.dims[i] == 1 ? 0 : index[skip + i];
  return from.values[Flat(from.dims, at)];
}

constexpr ir::OpSet kKept = {Op::PARAM, Op::STORE, Op::STACK};
constexpr size_t kSmall = 64;

class Evaluation {
 public:
  Evaluation(ir::UOpContext& ctx, const std::vector<HostArray>& slots,
             const std::map<std::string, int64_t>& variables)
      : ctx_(ctx), slots_(slots), variables_(variables) {}

  // Evaluates everything under the roots, sources first. Large arrays are dropped after their last
  // use, except those of the roots and the contents of slots, which stores need; small ones stay,
  // since shapes are read again.
  absl::Status Run(std::span<const UOp> roots) {
    const std::vector<UOp> order = ir::Toposort(ctx_, roots);
    std::vector<int> uses(ctx_.size(), 0);
    for (UOp u : order) {
      for (UOp s : u.srcs()) ++uses[s.id()];
    }
    for (UOp r : roots) ++uses[r.id()];
    arrays_.resize(ctx_.size());
    for (UOp u : order) {
      if (u.Is(Op::STORE) || u.Is(Op::SINK)) continue;  // applied by AFTER and by Stores()
      UOPD_ASSIGN(HostArray value, Value(u));
      arrays_[u.id()] = std::move(value);
      for (UOp s : u.srcs()) {
        if (--uses[s.id()] > 0 || s.Is(kKept) || arrays_[s.id()]->values.size() <= kSmall) continue;
        arrays_[s.id()].reset();
      }
    }
    return absl::OkStatus();
  }
  const HostArray& at(UOp u) const { return *arrays_[u.id()]; }

  // Where in its slot each element of a PARAM lies, in row-major order.
  std::vector<int64_t> Places(UOp param) const {
    const Dims most = ir::MaxDims(ctx_, param.src(0).srcs());
    std::vector<int64_t> out;
    ForEach(DimsOf(param.src(0)), [&](const Dims& index) { out.push_back(Flat(most, index)); });
    return out;
  }

  // Writes a STORE's value where its target lies in `base`, the array of `param`.
  void Apply(UOp store, UOp param, HostArray& base) const {
    const HostArray& value = at(store.src(1));
    for (const HostArray& where : Positions(store.src(0))) {
      for (size_t i = 0; i < where.values.size(); ++i) {
        const int64_t place = where.values[i].i;
        if (place / kSlotStride == param.slot() + 1)
          base.values[static_cast<size_t>(place % kSlotStride)] = value.values[i];
      }
    }
  }

 private:
  static constexpr int64_t kSlotStride = int64_t{1} << 40;

  // Arrays of the target's shape with the location of each element: (slot + 1) * kSlotStride + flat
  // position; 0 for padding. One array for each whole copy of the value.
  std::vector<HostArray> Positions(UOp target) const {
    if (target.Is(Op::AFTER)) return Positions(target.src(0));
    if (target.Is(Op::MULTI)) {
      std::vector<HostArray> pieces;
      for (UOp s : target.srcs()) pieces.push_back(Positions(s)[0]);
      if (target.ints().empty()) return pieces;
      return {Joined(target, pieces)};
    }
    if (target.Is(ir::kMovementOps)) {
      std::vector<HostArray> out;
      for (const HostArray& where : Positions(target.src(0))) out.push_back(Moved(target, where));
      return out;
    }
    HostArray out = HostArray::Zeros(Dtype::I64, at(target).dims);
    for (size_t i = 0; i < out.values.size(); ++i)
      out.values[i].i = (target.slot() + 1) * kSlotStride + static_cast<int64_t>(i);
    return {std::move(out)};
  }

  // The value whose pieces these are.
  static HostArray Joined(UOp multi, const std::vector<HostArray>& pieces) {
    if (multi.ints().empty()) return pieces[0];
    const auto axis = static_cast<size_t>(multi.ints()[0]);
    Dims dims = pieces[0].dims;
    dims[axis] = 0;
    for (const HostArray& p : pieces) dims[axis] += p.dims[axis];
    HostArray out = HostArray::Zeros(pieces[0].dtype, dims);
    int64_t begin = 0;
    for (const HostArray& p : pieces) {
      ForEach(p.dims, [&](const Dims& i) {
        Dims to = i;
        to[axis] += begin;
        out.values[Flat(dims, to)] = p.values[Flat(p.dims, i)];
      });
      begin += p.dims[axis];
    }
    return out;
  }

  // The value of u after its own stores and then these stores.
  HostArray State(UOp u, std::vector<UOp> stores) const {
    if (u.Is(ir::kMovementOps)) return Moved(u, State(u.src(0), std::move(stores)));
    if (u.Is(Op::AFTER)) {
      stores.insert(stores.begin(), u.srcs().begin() + 1, u.srcs().end());
      return State(u.src(0), std::move(stores));
    }
    if (u.Is(Op::MULTI)) {
      std::vector<HostArray> pieces;
      for (UOp s : u.srcs()) pieces.push_back(State(s, stores));
      return Joined(u, pieces);
    }
    HostArray out = at(u);
    for (UOp store : stores) Apply(store, u, out);
    return out;
  }

  int64_t IndexValue(UOp u) const { return at(u).values[0].i; }
  Dims DimsOf(UOp stack) const {
    Dims dims;
    for (UOp d : stack.srcs()) dims.push_back(IndexValue(d));
    return dims;
  }

  absl::StatusOr<HostArray> Value(UOp u) const {
    const Dtype d = u.dtype();
    switch (u.op()) {
      case Op::CONST:
        return HostArray{d, {}, {Scalar::Of(u)}};
      case Op::PARAM:
        return Parameter(u);
      case Op::BUFFER:
        return absl::InvalidArgumentError("a BUFFER has no value here: normalise the graph first");
      case Op::DEFINE_VAR: {
        auto it = variables_.find(std::string(u.text()));
        // A bound variable needs no value: its BIND has one.
        if (ir::IsFloat(d)) {
          const int64_t bits = it == variables_.end() ? 0 : it->second;
          return HostArray{d, {}, {Scalar::Float(d, std::bit_cast<double>(bits))}};
        }
        const int64_t v = it == variables_.end() ? u.ints()[0] : it->second;
        if (v < u.ints()[0] || v > u.ints()[1]) {
          return absl::InvalidArgumentError(
              Cat("variable ", u.text(), " is out of its bounds (", v, ")"));
        }
        return HostArray{d, {}, {Scalar::Int(d, v)}};
      }
      case Op::BIND:
        return at(u.src(u.n_src() - 1));
      case Op::IOTA:
        return IotaArray(u);
      case Op::STACK:
        return StackArray(u);
      case Op::AFTER:
        return State(u, {});
      case Op::COPY:
      case Op::CONTIGUOUS:
      case Op::CONTIGUOUS_BACKWARD:
      case Op::DETACH:
        return at(u.src(0));
      case Op::MULTI: {
        std::vector<HostArray> pieces;
        for (UOp s : u.srcs()) pieces.push_back(at(s));
        return Joined(u, pieces);
      }
      case Op::REDUCE:
        return Reduced(u);
      case Op::SCAN:
        return Scanned(u);
      default:
        break;
    }
    if (u.Is(ir::kMovementOps)) return Moved(u, at(u.src(0)));
    if (u.Is(ir::kElementwiseOps)) return Elementwise(u);
    return absl::InvalidArgumentError(Cat(ir::Name(u.op()), " has no value at tensor level"));
  }

  // The elements that the dimensions of this run show: the slot is laid out with the largest ones.
  absl::StatusOr<HostArray> Parameter(UOp u) const {
    const auto slot = static_cast<size_t>(u.slot());
    if (slot >= slots_.size())
      return absl::InvalidArgumentError(Cat("slot ", slot, " is not given"));
    const HostArray& from = slots_[slot];
    HostArray out = HostArray::Zeros(u.dtype(), DimsOf(u.src(0)));
    const std::vector<int64_t> places = Places(u);
    const int64_t last = places.empty() ? -1 : places.back();
    if (from.dtype != u.dtype() || static_cast<int64_t>(from.values.size()) <= last) {
      return absl::InvalidArgumentError(Cat("slot ", slot, " holds ", from.values.size(), " of ",
                                            ir::Name(from.dtype), "; the graph wants ", last + 1,
                                            " of ", ir::Name(u.dtype())));
    }
    for (size_t i = 0; i < places.size(); ++i)
      out.values[i] = from.values[static_cast<size_t>(places[i])];
    return out;
  }

  HostArray IotaArray(UOp u) const {
    HostArray out = HostArray::Zeros(u.dtype(), DimsOf(u.src(0)));
    ForEach(out.dims, [&](const Dims& i) {
      out.values[Flat(out.dims, i)] =
          Scalar::Int(u.dtype(), i[static_cast<size_t>(u.arg().AsInt())]);
    });
    return out;
  }

  HostArray StackArray(UOp u) const {
    HostArray out{u.dtype(), {static_cast<int64_t>(u.n_src())}, {}};
    for (size_t i = 0; i < u.n_src(); ++i) {
      const HostArray& part = at(u.src(i));
      if (i == 0) out.dims.insert(out.dims.end(), part.dims.begin(), part.dims.end());
      out.values.insert(out.values.end(), part.values.begin(), part.values.end());
    }
    return out;
  }

  HostArray Reduced(UOp u) const {
    const HostArray& in = at(u.src(0));
    HostArray out{u.dtype(), in.dims, {}};
    for (int64_t a : u.reduce_axes()) out.dims[static_cast<size_t>(a)] = 1;
    out.values.assign(static_cast<size_t>(ir::Product(out.dims)),
                      ir::ReduceIdentity(u.reduce_op(), u.dtype()));
    ForEach(in.dims, [&](const Dims& index) {
      Dims to = index;
      for (int64_t a : u.reduce_axes()) to[static_cast<size_t>(a)] = 0;
      Scalar& sum = out.values[Flat(out.dims, to)];
      const Scalar operands[2] = {sum, in.values[Flat(in.dims, index)]};
      sum = *ir::EvalAlu(u.reduce_op(), u.dtype(), operands);
    });
    return out;
  }

  HostArray Scanned(UOp u) const {
    const HostArray& in = at(u.src(0));
    HostArray out = in;
    const auto axis = static_cast<size_t>(u.reduce_axes()[0]);
    const bool is_float = ir::IsFloat(u.dtype());
    // The value so far, by the place of the first element of its row. Each result is rounded once.
    std::map<size_t, Scalar> sums;
    ForEach(in.dims, [&](const Dims& index) {
      Dims row = index;
      row[axis] = 0;
      const size_t here = Flat(in.dims, index);
      Scalar x = in.values[here];
      if (is_float) x = Scalar::Float(ir::Dtype::F64, x.f);
      const auto [sum, first] =
          sums.try_emplace(Flat(in.dims, row), ir::ReduceIdentity(u.reduce_op(), x.dtype));
      const Scalar operands[2] = {sum->second, x};
      sum->second = *ir::EvalAlu(u.reduce_op(), x.dtype, operands);
      out.values[here] = is_float ? Scalar::Float(u.dtype(), sum->second.f) : sum->second;
    });
    return out;
  }

  HostArray Elementwise(UOp u) const {
    HostArray out{u.dtype(), {}, {}};
    for (UOp s : u.srcs()) {
      const Dims& d = at(s).dims;
      if (d.size() > out.dims.size())
        out.dims.insert(out.dims.begin(), d.size() - out.dims.size(), 1);
      for (size_t i = 0; i < d.size(); ++i) {
        int64_t& to = out.dims[out.dims.size() - d.size() + i];
        if (to == 1) to = d[i];
      }
    }
    out.values.resize(static_cast<size_t>(ir::Product(out.dims)));
    Scalar operands[3];
    ForEach(out.dims, [&](const Dims& index) {
      for (size_t i = 0; i < u.n_src(); ++i) operands[i] = Broadcast(at(u.src(i)), index);
      out.values[Flat(out.dims, index)] =
          *ir::EvalAlu(u.op(), u.dtype(), std::span(operands, u.n_src()));
    });
    return out;
  }

  HostArray Moved(UOp u, const HostArray& in) const {
    HostArray out{in.dtype, {}, {}};
    switch (u.op()) {
      case Op::RESHAPE:
        return {in.dtype, DimsOf(u.src(1)), in.values};
      case Op::EXPAND:
        out = HostArray::Zeros(in.dtype, DimsOf(u.src(1)));
        ForEach(out.dims, [&](const Dims& i) { out.values[Flat(out.dims, i)] = Broadcast(in, i); });
        return out;
      case Op::PERMUTE: {
        for (int64_t a : u.ints()) out.dims.push_back(in.dims[static_cast<size_t>(a)]);
        out = HostArray::Zeros(in.dtype, out.dims);
        Dims from(in.dims.size());
        ForEach(out.dims, [&](const Dims& i) {
          for (size_t k = 0; k < i.size(); ++k) from[static_cast<size_t>(u.ints()[k])] = i[k];
          out.values[Flat(out.dims, i)] = in.values[Flat(in.dims, from)];
        });
        return out;
      }
      case Op::PAD: {
        const Dims before = DimsOf(u.src(1));
        out = HostArray::Zeros(in.dtype, DimsOf(u.src(2)));
        ForEach(in.dims, [&](const Dims& i) {
          Dims to = i;
          for (size_t k = 0; k < i.size(); ++k) to[k] += before[k];
          out.values[Flat(out.dims, to)] = in.values[Flat(in.dims, i)];
        });
        return out;
      }
      case Op::SHRINK: {
        const Dims start = DimsOf(u.src(1));
        out = HostArray::Zeros(in.dtype, DimsOf(u.src(2)));
        ForEach(out.dims, [&](const Dims& i) {
          Dims from = i;
          for (size_t k = 0; k < i.size(); ++k) from[k] += start[k];
          out.values[Flat(out.dims, i)] = in.values[Flat(in.dims, from)];
        });
        return out;
      }
      default:  // FLIP
        out = HostArray::Zeros(in.dtype, in.dims);
        ForEach(out.dims, [&](const Dims& i) {
          Dims from = i;
          for (int64_t a : u.ints())
            from[static_cast<size_t>(a)] =
                in.dims[static_cast<size_t>(a)] - 1 - i[static_cast<size_t>(a)];
          out.values[Flat(out.dims, i)] = in.values[Flat(in.dims, from)];
        });
        return out;
    }
  }

  ir::UOpContext& ctx_;
  const std::vector<HostArray>& slots_;
  const std::map<std::string, int64_t>& variables_;
  std::vector<std::optional<HostArray>> arrays_;  // by id
};

}  // namespace

HostArray HostArray::Zeros(Dtype dtype, Dims dims) {
  const auto n = static_cast<size_t>(ir::Product(dims));
  return {dtype, std::move(dims), std::vector<Scalar>(n, Scalar{dtype, 0, 0})};
}

HostArray HostArray::Of(Dtype dtype, Dims dims, std::span<const double> values) {
  HostArray out = Zeros(dtype, std::move(dims));
  UOPD_CHECK(values.size() == out.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    out.values[i] = ir::IsFloat(dtype) ? Scalar::Float(dtype, values[i])
                                       : Scalar::Int(dtype, static_cast<ir::Int128>(values[i]));
  }
  return out;
}

HostArray HostArray::FromBytes(Dtype dtype, Dims dims, std::string_view bytes) {
  HostArray out = Zeros(dtype, std::move(dims));
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  UOPD_CHECK(bytes.size() == out.values.size() * size);
  for (size_t i = 0; i < out.values.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    out.values[i] = ir::IsFloat(dtype) ? Scalar{dtype, 0, ir::DecodeFloat(dtype, bits)}
                                       : Scalar::Int(dtype, static_cast<ir::Int128>(bits));
  }
  return out;
}

std::string HostArray::ToBytes() const {
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  std::string out(values.size() * size, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = ir::IsFloat(dtype) ? ir::EncodeFloat(dtype, values[i].f)
                                             : static_cast<uint64_t>(values[i].i);
    std::memcpy(out.data() + i * size, &bits, size);
  }
  return out;
}

std::vector<double> HostArray::ToDoubles() const {
  std::vector<double> out;
  for (const Scalar& s : values)
    out.push_back(ir::IsFloat(dtype) ? s.f : static_cast<double>(s.wide()));
  return out;
}

absl::StatusOr<std::vector<HostArray>> TensorInterpreter::Run(
    UOp sink, std::vector<HostArray> slots, const std::map<std::string, int64_t>& variables) {
  Evaluation evaluation(ctx_, slots, variables);
  // Every value that a root's store reads is a root of the evaluation, so that it is still there
  // when the stores apply.
  std::vector<UOp> stores, roots = {sink};
  absl::flat_hash_map<uint32_t, bool> seen;
  for (UOp u : ir::Toposort(ctx_, sink)) {
    if (!u.Is(Op::STORE)) continue;
    for (UOp s : u.srcs()) roots.push_back(s);
    stores.push_back(u);
  }
  UOPD_TRY(evaluation.Run(roots));
  std::vector<HostArray> out = slots;
  for (UOp store : stores) {  // topological order follows the order of the SINK's sources
    for (const UOp param : ir::BasesOf(ctx_, store.src(0))) {
      std::vector<Scalar>& slot = out[static_cast<size_t>(param.slot())].values;
      HostArray base = evaluation.at(param);
      const std::vector<int64_t> places = evaluation.Places(param);
      // Later stores add to earlier ones, so the write goes into what they left.
      for (size_t i = 0; i < places.size(); ++i)
        base.values[i] = slot[static_cast<size_t>(places[i])];
      evaluation.Apply(store, param, base);
      for (size_t i = 0; i < places.size(); ++i)
        slot[static_cast<size_t>(places[i])] = base.values[i];
    }
  }
  return out;
}

absl::StatusOr<HostArray> TensorInterpreter::Evaluate(
    UOp value, const std::vector<HostArray>& slots,
    const std::map<std::string, int64_t>& variables) {
  Evaluation evaluation(ctx_, slots, variables);
  UOPD_TRY(evaluation.Run(std::span<const UOp>(&value, 1)));
  return evaluation.at(value);
}

}  // namespace uopd::test
