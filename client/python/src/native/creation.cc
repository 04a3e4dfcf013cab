// SPDX-License-Identifier: MIT
// Tensors without inputs: constants, ranges, variables, random numbers.
#include "native/client.h"
#include "uopd/movement.h"
#include "uopd/random.h"

namespace uopd::python {
namespace {

namespace fn = client::fn;
Dtype D(int dtype) { return static_cast<Dtype>(dtype); }

std::vector<client::Size> Sizes(const std::vector<Arg>& all) {
  std::vector<client::Size> out;
  for (const Arg& a : all) out.push_back(SizeOf(a));
  return out;
}

// In Python every float tensor may get a gradient, so two constants must not be one node.
Tensor Leaf(const Tensor& t, Site site) { return ir::IsFloat(t.dtype()) ? t.Apart(site) : t; }

}  // namespace

void BindCreation(Ops op) {
  using C = const ClientHandle&;
  op("empty", [](Site s, C c, Dims d, int t) { return c.get().Empty(d, D(t), s); });
  op("full", [](Site s, C c, Dims d, const Arg& v, int t) {
    return Leaf(c.get().Full(d, v.At(s), D(t), s), s);
  });
  op("arange", [](Site s, C c, int64_t a, int64_t b, int64_t step, int t) {
    return Leaf(c.get().Arange(a, b, step, D(t), s), s);
  });
  // Sizes are numbers or scalar tensors of variables.
  op("empty_to", [](Site s, C c, const std::vector<Arg>& d, int t) {
    return c.get().EmptyOf(Sizes(d), D(t), s);
  });
  op("full_to", [](Site s, C c, const std::vector<Arg>& d, const Arg& v, int t) {
    return Leaf(c.get().FullOf(Sizes(d), v.At(s), D(t), s), s);
  });
  op("arange_of", [](Site s, C c, const Arg& a, const Arg& b, const Arg& step, int t) {
    return Leaf(c.get().ArangeOf(SizeOf(a), SizeOf(b), SizeOf(step), D(t), s), s);
  });
  op("eye", [](Site s, C c, int64_t n, int t) { return Leaf(c.get().Eye(n, D(t), s), s); });
  op("linspace", [](Site s, C c, double a, double b, const Arg& n, int t) {
    return Leaf(fn::Linspace(c.get(), a, b, SizeOf(n), D(t), s), s);
  });
  op("variable",
     [](Site s, C c, std::string name, int64_t low, int64_t high, std::optional<int64_t> v) {
       return v ? c.get().Variable(name, low, high, *v, s)
                : c.get().UnboundVariable(name, low, high, s);
     });
  op("rand", [](Site s, C c, Dims d, int t) { return fn::Rand(c.get(), d, D(t), s); });
  op("randn", [](Site s, C c, Dims d, int t) { return fn::Randn(c.get(), d, D(t), s); });
  op("normal", [](Site s, C c, Dims d, double mean, double std, int t) {
    return fn::Normal(c.get(), d, mean, std, D(t), s);
  });
  op("randint", [](Site s, C c, Dims d, int64_t a, int64_t b, int t) {
    return fn::RandInt(c.get(), d, a, b, D(t), s);
  });
  op("randperm", [](Site s, C c, int64_t n, int t) { return fn::RandPerm(c.get(), n, D(t), s); });
  op("glorot_uniform", [](Site s, C c, Dims d) { return c.get().GlorotUniform(d, s); });
  op("kaiming_uniform",
     [](Site s, C c, Dims d, double a) { return c.get().KaimingUniform(d, a, s); });
  op("kaiming_normal", [](Site s, C c, Dims d, double a, int t) {
    return fn::KaimingNormal(c.get(), d, a, D(t), s);
  });
  op("scaled_uniform",
     [](Site s, C c, Dims d, int t) { return fn::ScaledUniform(c.get(), d, D(t), s); });
  using H = const Handle&;
  op("full_like", [](Site s, H x, const Arg& v, int t) {
    return Leaf(fn::FullLike(x.tensor(), v.At(s), D(t), s), s);
  });
  op("threefry",
     [](Site s, H x, H key) { return fn::Threefry(x.tensor(), Operand(key.tensor(), s)); });
  op("bernoulli", [](Site s, H x) { return fn::Bernoulli(x.tensor(), s); });
  op("multinomial",
     [](Site s, H x, int64_t n, bool r) { return fn::Multinomial(x.tensor(), n, r, s); });
}

}  // namespace uopd::python
