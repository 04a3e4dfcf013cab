// SPDX-License-Identifier: MIT
// The cells of recurrent networks.
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/functional.h"

namespace uopd::client::fn {
namespace {

Tensor Affine(const Tensor& x, const Tensor& weight, const Tensor& bias, Site site) {
  const Tensor y = x.MatMul({weight.Transpose(0, 1, site), site});
  return Has(bias) ? Operand(y, site) + bias : y;
}

// The error with which a cell of k gates refuses its operands, or nullopt.
std::optional<Tensor> BadCell(std::string_view what, int64_t k, const Tensor& x, const Tensor& h,
                              const Tensor& weight_x, const Tensor& weight_h, const Tensor& bias_x,
                              const Tensor& bias_h, Site site) {
  if (auto error = FirstError(what, {&x, &h, &weight_x, &weight_h}, site)) return error;
  bool fits = x.rank() == 2 && h.rank() == 2 &&
              ir::SameShape(ShapeOf(h).subspan(0, 1), ShapeOf(x).subspan(0, 1));
  for (const Tensor* t : {&x, &h})  // the batch may be made of variables
    fits = fits && ShapeOf(*t)[1].Is(ir::Op::CONST);
  const int64_t hidden = fits ? h.dims()[1] : 0;
  fits = fits && weight_x.dims() == Dims{k * hidden, x.dims()[1]} &&
         weight_h.dims() == Dims{k * hidden, hidden};
  for (const Tensor* b : {&bias_x, &bias_h}) {
    if (!Has(*b)) continue;
    if (auto error = FirstError(what, {&x, b}, site)) return error;
    fits = fits && b->dims() == Dims{k * hidden};
  }
  if (fits) return std::nullopt;
  return Wrong(
      x, what, site,
      Cat("input ", Text(x.dims()), ", state ", Text(h.dims()), ", weights ", Text(weight_x.dims()),
          " and ", Text(weight_h.dims()), Has(bias_x) ? Cat(", bias ", Text(bias_x.dims())) : "",
          Has(bias_h) ? Cat(", bias ", Text(bias_h.dims())) : ""));
}

std::optional<Tensor> BadLstm(std::string_view what, const Tensor& x, const LstmState& state,
                              const Tensor& weight_x, const Tensor& weight_h, const Tensor& bias_x,
                              const Tensor& bias_h, Site site) {
  if (auto error = BadCell(what, 4, x, state.h, weight_x, weight_h, bias_x, bias_h, site))
    return error;
  if (auto error = FirstError(what, {&x, &state.c}, site)) return error;
  if (ir::SameShape(ShapeOf(state.c), ShapeOf(state.h))) return std::nullopt;
  return Wrong(x, what, site, Cat("states ", Text(state.h.dims()), " and ", Text(state.c.dims())));
}

// The next state, from what the input and the old state give to the gates.
LstmState LstmStep(const Tensor& from_x, const Tensor& from_h, const Tensor& old_c, Site site) {
  const int64_t n = old_c.dims()[1];
  const Tensor all = Operand(from_x, site) + from_h;
  auto gate = [&](int64_t i) { return all.Narrow(1, i * n, n, site); };
  const Tensor c =
      gate(1).Sigmoid(site) * Operand(old_c, site) + gate(0).Sigmoid(site) * gate(2).Tanh(site);
  return {gate(3).Sigmoid(site) * c.Tanh(site), c};
}

Tensor GruStep(const Tensor& from_x, const Tensor& from_h, const Tensor& h, Site site) {
  const int64_t n = h.dims()[1];
  auto part = [&](const Tensor& t, int64_t i) { return t.Narrow(1, i * n, n, site); };
  const Tensor reset = (part(from_x, 0) + part(from_h, 0)).Sigmoid(site),
               update = (part(from_x, 1) + part(from_h, 1)).Sigmoid(site),
               fresh = (part(from_x, 2) + reset * part(from_h, 2)).Tanh(site);
  return fresh + update * (Operand(h, site) - fresh);
}

// The first step of a sequence, which has the shape that a cell takes, or the error.
Tensor FirstStep(std::string_view what, const Tensor& x, Site site) {
  if (auto error = FirstError(what, {&x}, site)) return *error;
  if (x.rank() == 3 && !ShapeOf(x)[1].Is(ir::Op::CONST)) return *Symbolic(x, what, site);
  if (x.rank() != 3 || x.dims()[1] < 1)
    return Wrong(x, what, site, Cat("input ", Text(x.dims()), " is not (n, steps, in)"));
  return x.Select(1, 0, site);
}

}  // namespace

LstmState LstmCell(const Tensor& x, const LstmState& state, const Tensor& weight_x,
                   const Tensor& weight_h, const Tensor& bias_x, const Tensor& bias_h, Site site) {
  if (auto error = BadLstm("LstmCell", x, state, weight_x, weight_h, bias_x, bias_h, site))
    return {*error, *error};
  return LstmStep(Affine(x, weight_x, bias_x, site), Affine(state.h, weight_h, bias_h, site),
                  state.c, site);
}

Tensor GruCell(const Tensor& x, const Tensor& h, const Tensor& weight_x, const Tensor& weight_h,
               const Tensor& bias_x, const Tensor& bias_h, Site site) {
  if (auto error = BadCell("GruCell", 3, x, h, weight_x, weight_h, bias_x, bias_h, site))
    return *error;
  return GruStep(Affine(x, weight_x, bias_x, site), Affine(h, weight_h, bias_h, site), h, site);
}

LstmSequence Lstm(const Tensor& x, const LstmState& state, const Tensor& weight_x,
                  const Tensor& weight_h, const Tensor& bias_x, const Tensor& bias_h, Site site) {
  const Tensor first = FirstStep("Lstm", x, site);
  if (auto error = BadLstm("Lstm", first, state, weight_x, weight_h, bias_x, bias_h, site))
    return {*error, {*error, *error}};
  const Tensor from_x = Affine(x, weight_x, bias_x, site);  // of all steps at once
  LstmState at = state;
  std::vector<Tensor> outputs;
  for (int64_t step = 0; step < x.dims()[1]; ++step) {
    at = LstmStep(from_x.Select(1, step, site), Affine(at.h, weight_h, bias_h, site), at.c, site);
    outputs.push_back(at.h);
  }
  return {Stack(outputs, 1, site), at};
}

GruSequence Gru(const Tensor& x, const Tensor& h, const Tensor& weight_x, const Tensor& weight_h,
                const Tensor& bias_x, const Tensor& bias_h, Site site) {
  const Tensor first = FirstStep("Gru", x, site);
  if (auto error = BadCell("Gru", 3, first, h, weight_x, weight_h, bias_x, bias_h, site))
    return {*error, *error};
  const Tensor from_x = Affine(x, weight_x, bias_x, site);
  Tensor at = h;
  std::vector<Tensor> outputs;
  for (int64_t step = 0; step < x.dims()[1]; ++step) {
    at = GruStep(from_x.Select(1, step, site), Affine(at, weight_h, bias_h, site), at, site);
    outputs.push_back(at);
  }
  return {Stack(outputs, 1, site), at};
}

}  // namespace uopd::client::fn
