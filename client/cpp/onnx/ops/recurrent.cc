// SPDX-License-Identifier: MIT
// RNN, GRU and LSTM. The steps are unrolled into one graph.
#include <algorithm>
#include <cctype>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/activations.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// An activation by its name, with the parameters that the node gives for it.
struct GateFunction {
  std::string name;
  double alpha = 0, beta = 0;

  Tensor operator()(const Tensor& x) const {
    if (name == "sigmoid") return x.Sigmoid();
    if (name == "tanh") return x.Tanh();
    if (name == "relu") return x.Maximum(0);
    if (name == "leakyrelu") return Where(x < 0.0, x * alpha, x);
    if (name == "thresholdedrelu") return Where(x > alpha, x, fn::ZerosLike(x));
    if (name == "scaledtanh") return (x * beta).Tanh() * alpha;
    if (name == "hardsigmoid") return (x * alpha + beta).Clip(0, 1);
    if (name == "elu") return fn::Elu(x, alpha);
    if (name == "softsign") return fn::Softsign(x);
    if (name == "softplus") return fn::Softplus(x);
    return x * alpha + beta;  // affine
  }
};

struct KnownGate {
  std::string_view name;
  bool has_alpha, has_beta;
  double alpha, beta;
};
constexpr KnownGate kKnownGates[] = {
    {"sigmoid", false, false, 0, 0},        {"tanh", false, false, 0, 0},
    {"relu", false, false, 0, 0},           {"leakyrelu", true, false, 0.01, 0},
    {"thresholdedrelu", true, false, 1, 0}, {"scaledtanh", true, true, 1, 1},
    {"hardsigmoid", true, true, 0.2, 0.5},  {"elu", true, false, 1, 0},
    {"softsign", false, false, 0, 0},       {"softplus", false, false, 0, 0},
    {"affine", true, true, 1, 0},
};

// `each` functions for each direction.
absl::StatusOr<std::vector<GateFunction>> GateFunctions(
    Call& c, size_t directions, const std::vector<std::string_view>& defaults) {
  std::vector<std::string_view> names;
  for (size_t d = 0; d < directions; ++d)
    names.insert(names.end(), defaults.begin(), defaults.end());
  if (const OnnxAttribute* a = c.Find("activations"); a != nullptr) {
    if (a->Strings() == nullptr || a->Strings()->size() != names.size())
      return c.Wrong("the attribute activations has a wrong length");
    names = *a->Strings();
  }
  const std::vector<double> alphas = c.FloatList("activation_alpha");
  const std::vector<double> betas = c.FloatList("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<GateFunction> out;
  for (const std::string_view name : names) {
    GateFunction f;
    for (const char ch : name) f.name += static_cast<char>(std::tolower(ch));
    const auto* const known = std::ranges::find(kKnownGates, f.name, &KnownGate::name);
    if (known == std::end(kKnownGates)) return c.Refuse("one of its activations is not known");
    f.alpha = known->alpha;
    f.beta = known->beta;
    if (known->has_alpha && alpha < alphas.size()) f.alpha = alphas[alpha++];
    if (known->has_beta && beta < betas.size()) f.beta = betas[beta++];
    out.push_back(std::move(f));
  }
  return out;
}

// What one direction of a network has. Gates lie behind each other along the first axis.
struct Direction {
  Tensor w, r, wb, rb;  // (gates hidden, in), (gates hidden, hidden), (gates hidden)
  Tensor peephole;      // (3 hidden) or empty
  Tensor h, c;          // (batch, hidden)
  std::span<const GateFunction> f;
  double clip = 0;
  bool input_forget = false, linear_before_reset = false;
  int64_t hidden = 0;

  Tensor Clipped(const Tensor& x) const { return clip > 0 ? x.Clip(-clip, clip) : x; }
  Tensor Gate(const Tensor& all, int64_t i) const { return all.Narrow(1, i * hidden, hidden); }
  Tensor Gate1(const Tensor& all, int64_t i) const { return all.Narrow(0, i * hidden, hidden); }
};

using Step = void (*)(Direction& d, const Tensor& x);  // x: (batch, gates hidden), W x + Wb

void RnnStep(Direction& d, const Tensor& x) {
  d.h = d.f[0](d.Clipped(x + d.h.MatMul(d.r.Transpose()) + d.rb));
}

// Gates: update, reset, hidden.
void GruStep(Direction& d, const Tensor& x) {
  const Tensor rt = d.r.Transpose();
  const Tensor zr = x.Narrow(1, 0, 2 * d.hidden) + d.h.MatMul(rt.Narrow(1, 0, 2 * d.hidden)) +
                    d.rb.Narrow(0, 0, 2 * d.hidden);
  const Tensor z = d.f[0](d.Clipped(d.Gate(zr, 0))), r = d.f[0](d.Clipped(d.Gate(zr, 1)));
  const Tensor rh = rt.Narrow(1, 2 * d.hidden, d.hidden), bias = d.Gate1(d.rb, 2);
  const Tensor recurrent =
      d.linear_before_reset ? r * (d.h.MatMul(rh) + bias) : (r * d.h).MatMul(rh) + bias;
  const Tensor h = d.f[1](d.Clipped(d.Gate(x, 2) + recurrent));
  d.h = (1.0 - z) * h + z * d.h;
}

// Gates: input, output, forget, cell.
void LstmStep(Direction& d, const Tensor& x) {
  const Tensor all = x + d.h.MatMul(d.r.Transpose()) + d.rb;
  Tensor i = d.Gate(all, 0), o = d.Gate(all, 1), f = d.Gate(all, 2);
  const bool peeps = d.peephole.state() != nullptr;
  if (peeps) {
    i = i + d.Gate1(d.peephole, 0) * d.c;
    f = f + d.Gate1(d.peephole, 2) * d.c;
  }
  i = d.f[0](d.Clipped(i));
  f = d.input_forget ? 1.0 - i : d.f[0](d.Clipped(f));
  d.c = f * d.c + i * d.f[1](d.Clipped(d.Gate(all, 3)));
  if (peeps) o = o + d.Gate1(d.peephole, 1) * d.c;
  d.h = d.f[0](d.Clipped(o)) * d.f[2](d.c);
}

// Inputs: X, W, R, B, sequence_lens, initial_h, initial_c, P.
absl::Status RunRecurrent(Call& c, int64_t gates, Step step,
                          const std::vector<std::string_view>& defaults) {
  const bool has_cell = gates == 4, batch_first = c.Int("layout", 0) != 0;
  const std::string_view direction = c.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return c.Wrong("the attribute direction is not known");
  const size_t directions = direction == "bidirectional" ? 2 : 1;
  if (c.Rank(0) != 3 || c.Rank(1) != 3 || c.Rank(2) != 3)
    return c.Wrong("X, W or R has not three axes");
  Tensor x = c.X(0);
  if (batch_first) x = x.Transpose(0, 1);
  const int64_t steps = x.dims()[0], batch = x.dims()[1];
  const int64_t hidden = c.Int("hidden_size", c.Shape(2)[2]);
  if (c.Shape(2)[2] != hidden || c.Shape(1)[1] != gates * hidden ||
      c.Shape(2)[1] != gates * hidden || c.Shape(1)[0] != static_cast<int64_t>(directions))
    return c.Wrong("W or R has a wrong shape");
  if (steps == 0) return c.Refuse("a sequence without steps is not supported");
  UOPD_ASSIGN(const std::vector<GateFunction> functions, GateFunctions(c, directions, defaults));
  const double clip = c.Float("clip", 0);
  const bool input_forget = has_cell && c.Int("input_forget", 0) != 0;
  const bool linear = gates == 3 && c.Int("linear_before_reset", 0) != 0;
  UOPD_TRY(c.walk().Charge(steps * static_cast<int64_t>(directions)));
  const Dtype dtype = c.DtypeOf(0);
  std::vector<Tensor> ys, hs, cs;
  for (size_t k = 0; k < directions; ++k) {
    const auto at = static_cast<int64_t>(k);
    const bool back = direction == "reverse" || k == 1;
    // (directions, batch, hidden); with layout 1 the first two axes are exchanged.
    const auto initial = [&](size_t i) {
      if (!c.Has(i)) return c.client().Zeros({batch, hidden}, dtype);
      return c.X(i).Select(batch_first ? 1 : 0, at);
    };
    Direction d{.w = c.X(1).Select(0, at), .r = c.X(2).Select(0, at)};
    const Tensor none = c.client().Zeros({gates * hidden}, dtype);
    d.wb = c.Has(3) ? c.X(3).Select(0, at).Narrow(0, 0, gates * hidden) : none;
    d.rb = c.Has(3) ? c.X(3).Select(0, at).Narrow(0, gates * hidden, gates * hidden) : none;
    if (has_cell && c.Has(7)) d.peephole = c.X(7).Select(0, at);
    d.h = initial(5);
    if (has_cell) d.c = initial(6);
    d.f = std::span(functions).subspan(k * defaults.size(), defaults.size());
    d.clip = clip;
    d.input_forget = input_forget;
    d.linear_before_reset = linear;
    d.hidden = hidden;
    const Tensor all = x.MatMul(d.w.Transpose()) + d.wb;  // (steps, batch, gates hidden)
    std::vector<Tensor> rows(static_cast<size_t>(steps));
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t t = back ? steps - 1 - s : s;
      const Tensor h = d.h, cell = d.c;
      step(d, all.Select(0, t));
      Tensor y = d.h;
      if (c.Has(4)) {  // rows that have ended keep their state, and give 0
        const Tensor going = (c.X(4) > t).Unsqueeze(1);
        y = Where(going, d.h, fn::ZerosLike(d.h));
        d.h = Where(going, d.h, h);
        if (has_cell) d.c = Where(going, d.c, cell);
      }
      rows[static_cast<size_t>(t)] = y;
    }
    ys.push_back(Stack(rows, 0));
    hs.push_back(d.h);
    cs.push_back(d.c);
  }
  const int64_t place = batch_first ? 1 : 0;
  const Tensor y = Stack(ys, batch_first ? 2 : 1);  // (steps, directions, batch, hidden)
  UOPD_TRY(y.status());
  UOPD_TRY(c.OutAs(0, batch_first ? y.Transpose(0, 1) : y));
  UOPD_TRY(c.OutAs(0, Stack(hs, place), 1));
  return has_cell ? c.OutAs(0, Stack(cs, place), 2) : absl::OkStatus();
}

}  // namespace

OpRows RecurrentOps() {
  return {
      {"RNN", 7, 3, 6, [](Call& c) { return RunRecurrent(c, 1, RnnStep, {"tanh"}); }},
      {"GRU", 7, 3, 6, [](Call& c) { return RunRecurrent(c, 3, GruStep, {"sigmoid", "tanh"}); }},
      {"LSTM", 7, 3, 8,
       [](Call& c) { return RunRecurrent(c, 4, LstmStep, {"sigmoid", "tanh", "tanh"}); }},
  };
}

}  // namespace uopd::client::onnx
