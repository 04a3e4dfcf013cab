// SPDX-License-Identifier: MIT
#include "uopd/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "client/cpp/graph/random.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/index/sort_network.h"
#include "client/cpp/ops/sized.h"
#include "uopd/movement.h"

namespace uopd::client::fn {
namespace {

using GraphPtr = std::shared_ptr<GraphState>;

// 64 random bits for each element, from the same stream as client/cpp/graph/random.cc.
Tensor Bits(const GraphPtr& graph, const Dims& dims, Site site) {
  const auto n = static_cast<uint64_t>(ir::Product(dims));
  const Tensor stream(
      graph->NewInput(Dtype::U64, {2}, graph->options().device, graph->TakePosition(n)));
  graph->NoteCounters(stream.state()->uop, n);
  const Tensor counters =
      stream.Select(0, 0, site) + IotaLike(stream, static_cast<int64_t>(n), Dtype::U64);
  return BinaryOp(counters, stream.Select(0, 1, site), ir::Op::THREEFRY, "Rand")
      .Reshape(dims, site);
}

// Checks the shape as Client does: a tensor of it, or the error. It also leads to the client's
// graph.
Tensor Shaped(Client& client, const Dims& dims, Dtype dtype, Site site) {
  return client.Full(dims, 0, dtype, site);
}

// The bits of a fraction that are random.
int DigitsOf(Dtype d) {
  switch (d) {
    case Dtype::F64:
      return 53;
    case Dtype::F16:
      return 11;
    case Dtype::BF16:
      return 8;
    case Dtype::F8E4M3:
      return 4;
    case Dtype::F8E5M2:
      return 3;
    default:
      return 24;
  }
}
Tensor Uniform01(const GraphPtr& graph, const Dims& dims, Dtype d, Site site) {
  const int digits = DigitsOf(d);
  const Dtype at = ir::Bits(d) < 16 ? Dtype::F32 : d;  // d has all its values
  const Tensor whole = (Bits(graph, dims, site) >> (64 - digits)).Cast(at, site);
  return (whole * std::ldexp(1.0, -digits)).Cast(d, site);
}
Tensor NoFloat(const Tensor& t, std::string_view what, Dtype d, Site site) {
  return Wrong(t, what, site, Cat("no random numbers of ", ir::Name(d)));
}

Tensor Normal01(const GraphPtr& graph, const Dims& dims, Dtype d, Site site) {
  if (d != Dtype::F64) return RandomNormal(graph, dims, site).Cast(d, site);
  const Tensor u = Uniform01(graph, dims, d, site), angle = Uniform01(graph, dims, d, site);
  const Tensor radius = ((1.0 - u).Log(site) * -2.0).Sqrt(site);  // 1 - u is never 0
  return radius * (angle * (2 * std::numbers::pi)).Cos(site);
}

}  // namespace

Tensor Rand(Client& client, const Dims& dims, Dtype dtype, Site site) {
  Tensor shaped = Shaped(client, dims, dtype, site);
  if (!shaped.status().ok()) return shaped;
  if (!ir::IsFloat(dtype)) return NoFloat(shaped, "Rand", dtype, site);
  return Uniform01(shaped.state()->graph, dims, dtype, site);
}

Tensor Randn(Client& client, const Dims& dims, Dtype dtype, Site site) {
  Tensor shaped = Shaped(client, dims, dtype, site);
  if (!shaped.status().ok()) return shaped;
  if (!ir::IsFloat(dtype)) return NoFloat(shaped, "Randn", dtype, site);
  return Normal01(shaped.state()->graph, dims, dtype, site);
}

Tensor Normal(Client& client, const Dims& dims, double mean, double std, Dtype dtype, Site site) {
  // Narrow floats are rounded once.
  const bool narrow = ir::IsFloat(dtype) && ir::Bits(dtype) < 32;
  const Tensor z = Randn(client, dims, narrow ? Dtype::F32 : dtype, site);
  return (z * std + mean).Cast(dtype, site);
}

Tensor RandInt(Client& client, const Dims& dims, int64_t low, int64_t high, Dtype dtype,
               Site site) {
  Tensor shaped = Shaped(client, dims, dtype, site);
  if (!shaped.status().ok()) return shaped;
  if (low >= high) return Wrong(shaped, "RandInt", site, Cat("[", low, ", ", high, ") is empty"));
  if (!ir::IsFloat(dtype)) {
    const ir::IntRange range = ir::RangeOf(dtype);
    if (low < range.min || ir::Int128{high} - 1 > range.max)
      return Wrong(shaped, "RandInt", site, Cat("[", low, ", ", high, ") in ", ir::Name(dtype)));
  }
  const Tensor bits = Bits(shaped.state()->graph, dims, site);
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const Tensor by =
      Made(bits, Ctx(bits).Int(Dtype::U64, static_cast<int64_t>(count)), "RandInt", site);
  return ((bits % by).Cast(Dtype::I64, site) + low).Cast(dtype, site);
}

Tensor RandPerm(Client& client, int64_t n, Dtype dtype, Site site) {
  Tensor shaped = Shaped(client, {std::max<int64_t>(n, 0)}, dtype, site);
  if (!shaped.status().ok()) return shaped;
  if (n < 0 || n > (int64_t{1} << 31)) return Wrong(shaped, "RandPerm", site, Cat("of ", n));
  if (n == 0) return shaped;
  // The low bits of each word are the number that is sorted by it. The words behind them are the
  // largest.
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  const Tensor number = IotaLike(shaped, length, Dtype::I64);
  const Tensor bits = Bits(shaped.state()->graph, {n}, site).Bitcast(Dtype::I64, site) >> 33;
  const Tensor key = Where(number < n, bits.Pad({0}, {length - n}, 0, site), int64_t{INT32_MAX});
  const Tensor words = ((key << 32) | number).Unsqueeze(1, site).Contiguous(site);
  return Sorted({words, Tensor(), 32}, site)
      .Positions(dtype, site)
      .Reshape({length}, site)
      .Narrow(0, 0, n, site);
}

Tensor Bernoulli(const Tensor& p, Site site) {
  if (auto error = FirstError("Bernoulli", {&p}, site)) return *error;
  if (!ir::IsFloat(p.dtype()))
    return Wrong(p, "Bernoulli", site, Cat("probabilities of ", ir::Name(p.dtype())));
  const Tensor wide = Wide(p, site);
  const Tensor u = Uniform01(p.state()->graph, p.dims(), wide.dtype(), site);
  return (Cornered(u, SizesOf(p), site) < wide).Cast(p.dtype(), site);
}

Tensor Multinomial(const Tensor& weights, int64_t count, bool replacement, Site site) {
  if (auto error = FirstError("Multinomial", {&weights}, site)) return *error;
  if (weights.is_symbolic()) {
    // What the box adds has the weight 0.
    ir::SymbolicDims to = SizesOf(weights);
    if (!to.empty()) to.back() = Ctx(weights).Idx(count);
    return Cornered(Multinomial(Boxed(weights, site), count, replacement, site), to, site);
  }
  const int64_t k = weights.rank() == 0 ? 0 : weights.dims().back();
  if (count < 1 || k == 0 || (!replacement && count > k)) {
    return Wrong(weights, "Multinomial", site,
                 Cat(count, " draws from weights of shape ", Text(weights.dims())));
  }
  const Tensor w = Wide(weights, site).Detach(site);
  if (!replacement) {
    const Tensor u = Uniform01(w.state()->graph, w.dims(), w.dtype(), site);
    // log of a number in (0, 1]; a weight of 0 comes last.
    const Tensor key = Where(w > 0.0, (1.0 - u).Log() / Guarded(w > 0.0, w, 1), Like(w, -INFINITY));
    return key.Contiguous(site).TopK(count, -1, true, site).second;
  }
  Dims dims = w.dims();
  dims.back() = count;
  const Tensor u = Uniform01(w.state()->graph, dims, w.dtype(), site);
  const Tensor sums = w.CumSum(-1, site), total = sums.Narrow(-1, k - 1, 1, site);
  // The number of sums that the point has passed. Rounding may not pass the last one other than the
  // one before.
  const Tensor passed = sums.Unsqueeze(-2, site) <= (u * total).Unsqueeze(-1, site);
  const Tensor last = (sums < total).Sum({-1}, true, site);
  const Tensor at = passed.Sum({-1}, false, site);
  return Where(last < at, last, at);
}

Tensor ScaledUniform(Client& client, const Dims& dims, Dtype dtype, Site site) {
  const double scale = 1 / std::sqrt(std::max(1.0, static_cast<double>(ir::Product(dims))));
  return (Rand(client, dims, dtype, site) * 2.0 - 1.0) * scale;
}

Tensor KaimingNormal(Client& client, const Dims& dims, double a, Dtype dtype, Site site) {
  Tensor shaped = Shaped(client, dims, dtype, site);
  if (!shaped.status().ok()) return shaped;
  if (dims.size() < 2)
    return Wrong(shaped, "KaimingNormal", site, "weights have at least two axes");
  const auto fan = static_cast<double>(ir::Product(std::span(dims).subspan(1)));
  const double std = std::sqrt(2 / ((1 + a * a) * std::max(1.0, fan)));
  return Normal(client, dims, 0, std, dtype, site);
}

Tensor Threefry(const Tensor& counter, Operand key) {
  if (auto error = FirstError("Threefry", {&counter}, key.site())) return *error;
  const Dtype d = key.tensor() == nullptr ? Dtype::U64 : key.tensor()->dtype();
  if (counter.dtype() != Dtype::U64 || d != Dtype::U64) {
    return Wrong(
        counter, "Threefry", key.site(),
        Cat("counters of ", ir::Name(counter.dtype()), " and keys of ", ir::Name(d), ", not u64"));
  }
  return BinaryOp({counter, key.site()}, key, ir::Op::THREEFRY, "Threefry");
}

Tensor RandLike(const Tensor& x, Site site) {
  if (auto error = FirstError("RandLike", {&x}, site)) return *error;
  const Dtype d = FloatOf(x.dtype());
  if (!ir::IsFloat(d)) return NoFloat(x, "RandLike", d, site);
  return Cornered(Uniform01(x.state()->graph, x.dims(), d, site), SizesOf(x), site);
}
Tensor RandnLike(const Tensor& x, Site site) {
  if (auto error = FirstError("RandnLike", {&x}, site)) return *error;
  const Dtype d = FloatOf(x.dtype());
  if (!ir::IsFloat(d)) return NoFloat(x, "RandnLike", d, site);
  return Cornered(Normal01(x.state()->graph, x.dims(), d, site), SizesOf(x), site);
}

}  // namespace uopd::client::fn
