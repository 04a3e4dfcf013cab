// SPDX-License-Identifier: MIT
#include <cmath>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/recurrent.h"

namespace uopd::client {
namespace {

// The state that was given, or zeros.
Tensor StateOr0(const Tensor& state, const Tensor& x, const CellWeights& w, Site site) {
  if (fn::Has(state) || !x.status().ok() || x.rank() == 0) return state;
  const Tensor zero = ScalarLike(x, x.dtype(), 0);
  return ExpandTo(zero, {ShapeOf(x)[0], Ctx(x).Idx(w.weight_h.dims()[1])}, "Zeros", site);
}
fn::LstmState StateOr0(const fn::LstmState& state, const Tensor& x, const CellWeights& w,
                       Site site) {
  return {StateOr0(state.h, x, w, site), StateOr0(state.c, x, w, site)};
}

std::vector<CellWeights> Layers(Client& client, int64_t gates, int64_t in, int64_t hidden,
                                int64_t layers, bool with_bias) {
  std::vector<CellWeights> out;
  for (int64_t i = 0; i < layers; ++i)
    out.emplace_back(client, gates, i == 0 ? in : hidden, hidden, with_bias);
  return out;
}

// The error of a number of states that is neither 0 nor that of the layers, or nullopt.
std::optional<Tensor> BadStates(std::string_view what, const Tensor& x, size_t states,
                                size_t layers, Site site) {
  if (auto error = fn::FirstError(what, {&x}, site)) return error;
  if (states == 0 || states == layers) return std::nullopt;
  return Wrong(x, what, site, Cat(states, " states for ", layers, " layers"));
}

std::vector<Tensor> AllParameters(const std::vector<CellWeights>& layers) {
  std::vector<Tensor> out;
  for (const CellWeights& w : layers) {
    for (Tensor& t : w.parameters()) out.push_back(std::move(t));
  }
  return out;
}

StateDict AllState(const std::vector<CellWeights>& layers) {
  StateDict out;
  for (size_t i = 0; i < layers.size(); ++i) {
    for (auto& named : layers[i].state_dict(Cat("_l", i))) out.push_back(std::move(named));
  }
  return out;
}

}  // namespace

CellWeights::CellWeights(Client& client, int64_t gates, int64_t in, int64_t hidden,
                         bool with_bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, hidden)));
  weight_x = client.Uniform({gates * hidden, in}, -bound, bound);
  weight_h = client.Uniform({gates * hidden, hidden}, -bound, bound);
  if (with_bias) bias_x = client.Zeros({gates * hidden}), bias_h = client.Zeros({gates * hidden});
  for (Tensor& t : parameters()) t.RequireGrad();
}

std::vector<Tensor> CellWeights::parameters() const {
  if (!fn::Has(bias_x)) return {weight_x, weight_h};
  return {weight_x, weight_h, bias_x, bias_h};
}

StateDict CellWeights::state_dict(std::string_view suffix) const {
  return {{Cat("weight_ih", suffix), weight_x},
          {Cat("weight_hh", suffix), weight_h},
          {Cat("bias_ih", suffix), bias_x},
          {Cat("bias_hh", suffix), bias_h}};
}

fn::LstmState LstmCell::operator()(const Tensor& x, const fn::LstmState& state, Site site) const {
  return fn::LstmCell(x, StateOr0(state, x, *this, site), weight_x, weight_h, bias_x, bias_h, site);
}

Tensor GruCell::operator()(const Tensor& x, const Tensor& state, Site site) const {
  return fn::GruCell(x, StateOr0(state, x, *this, site), weight_x, weight_h, bias_x, bias_h, site);
}

Lstm::Lstm(Client& client, int64_t in, int64_t hidden, int64_t n, bool with_bias)
    : layers(Layers(client, 4, in, hidden, n, with_bias)) {}

Lstm::Result Lstm::operator()(const Tensor& x, const std::vector<fn::LstmState>& states,
                              Site site) const {
  if (auto error = BadStates("Lstm", x, states.size(), layers.size(), site)) return {*error, {}};
  Result out{.y = x};
  for (size_t i = 0; i < layers.size(); ++i) {
    const CellWeights& w = layers[i];
    const fn::LstmState start =
        StateOr0(i < states.size() ? states[i] : fn::LstmState(), x, w, site);
    const auto [y, last] = fn::Lstm(out.y, start, w.weight_x, w.weight_h, w.bias_x, w.bias_h, site);
    out.y = y;
    out.states.push_back(last);
  }
  return out;
}

std::vector<Tensor> Lstm::parameters() const { return AllParameters(layers); }
StateDict Lstm::state_dict() const { return AllState(layers); }

Gru::Gru(Client& client, int64_t in, int64_t hidden, int64_t n, bool with_bias)
    : layers(Layers(client, 3, in, hidden, n, with_bias)) {}

Gru::Result Gru::operator()(const Tensor& x, const std::vector<Tensor>& states, Site site) const {
  if (auto error = BadStates("Gru", x, states.size(), layers.size(), site)) return {*error, {}};
  Result out{.y = x};
  for (size_t i = 0; i < layers.size(); ++i) {
    const CellWeights& w = layers[i];
    const Tensor start = StateOr0(i < states.size() ? states[i] : Tensor(), x, w, site);
    const auto [y, last] = fn::Gru(out.y, start, w.weight_x, w.weight_h, w.bias_x, w.bias_h, site);
    out.y = y;
    out.states.push_back(last);
  }
  return out;
}

std::vector<Tensor> Gru::parameters() const { return AllParameters(layers); }
StateDict Gru::state_dict() const { return AllState(layers); }

}  // namespace uopd::client
