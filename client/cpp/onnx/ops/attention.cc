// SPDX-License-Identifier: MIT
// Attention, and what goes with it.
#include <cmath>
#include <limits>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/functional.h"
#include "uopd/indexing.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// (n, length, heads width) as (n, heads, length, width).
absl::StatusOr<Tensor> SplitHeads(Call& c, const Tensor& x, int64_t heads) {
  if (x.rank() != 3 || heads < 1 || x.dims()[2] % heads != 0)
    return c.Wrong(Cat(heads, " heads do not divide the last axis"));
  const Dims& d = x.dims();
  return x.Reshape({d[0], d[1], heads, d[2] / heads}).Permute({0, 2, 1, 3});
}

Tensor JoinHeads(const Tensor& x) {
  const Dims& d = x.dims();
  return x.Permute({0, 2, 1, 3}).Reshape({d[0], d[2], d[1] * d[3]});
}

Tensor RepeatHeads(const Tensor& x, int64_t heads) {
  return x.rank() < 2 || x.dims()[1] == heads || x.dims()[1] == 0 || heads % x.dims()[1] != 0
             ? x
             : fn::RepeatInterleave(x, heads / x.dims()[1], 1);
}

// The tensor (f32) that is added to the scores: 0 or a number where a query sees a key, -inf where
// it does not. An empty tensor: every query sees every key.
absl::StatusOr<Tensor> ScoreBias(Call& c, int64_t queries, int64_t keys, int64_t past) {
  Tensor bias;
  const auto add = [&](const Tensor& t) { bias = bias.state() == nullptr ? t : bias + t; };
  if (c.Has(3)) {
    Tensor mask = c.X(3);
    if (mask.dtype() == Dtype::Bool) mask = Where(mask, 0.0, kMinusInfinity);
    mask = mask.Cast(Dtype::F32);
    if (mask.rank() < 1 || mask.dims().back() > keys) return c.Wrong("the mask has a wrong shape");
    Dims before(mask.dims().size(), 0), after = before;
    after.back() = keys - mask.dims().back();
    if (after.back() > 0)
      mask = fn::Pad(mask, before, after, fn::PadMode::kConstant, kMinusInfinity);
    add(mask);
  }
  if (c.Int("is_causal", 0) != 0) {
    const Tensor i = c.client().Arange(0, queries).Reshape({queries, 1});
    const Tensor j = c.client().Arange(0, keys).Reshape({1, keys});
    add(Where(j <= i + past, 0.0, kMinusInfinity).Cast(Dtype::F32));
  }
  if (c.Has(6)) {
    const Tensor j = c.client().Arange(0, keys, 1, Dtype::I64).Reshape({1, 1, 1, keys});
    const Tensor length = c.X(6).Cast(Dtype::I64).Reshape({-1, 1, 1, 1});
    add(Where(j < length, 0.0, kMinusInfinity).Cast(Dtype::F32));
  }
  return bias;
}

Tensor AtLeastF32(const Tensor& x) { return x.dtype() == Dtype::F64 ? x : x.Cast(Dtype::F32); }

absl::Status RunAttention(Call& c) {
  Tensor q = c.X(0), k = c.X(1), v = c.X(2);
  const bool packed = c.Rank(0) == 3;
  const int64_t q_heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
  if (packed) {
    UOPD_ASSIGN(q, SplitHeads(c, q, q_heads));
    UOPD_ASSIGN(k, SplitHeads(c, k, kv_heads));
    UOPD_ASSIGN(v, SplitHeads(c, v, kv_heads));
  }
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    return c.Wrong("its inputs have a wrong number of axes");
  if (c.Has(4) != c.Has(5)) return c.Wrong("one of past_key and past_value is missing");
  int64_t past = 0;
  if (c.Has(4)) {
    if (c.Rank(4) != 4 || c.Rank(5) != 4)
      return c.Wrong("past_key or past_value has not four axes");
    past = c.Shape(4)[2];
    k = Concat(std::vector{c.X(4), k}, 2);
    v = Concat(std::vector{c.X(5), v}, 2);
  }
  UOPD_TRY(k.status());
  UOPD_TRY(v.status());
  UOPD_TRY(c.Out(k, 1));
  UOPD_TRY(c.Out(v, 2));
  const int64_t heads = q.dims()[1], queries = q.dims()[2], keys = k.dims()[2];
  const double scale = c.Float("scale", 1 / std::sqrt(static_cast<double>(q.dims()[3])));
  const double cap = c.Float("softcap", 0);
  const int64_t mode = c.Int("qk_matmul_output_mode", 0);
  // It is f32 here, or the dtype of the input if that is wider.
  if (c.Int("softmax_precision", 0) == ElementType("DOUBLE")->number && q.dtype() != Dtype::F64)
    return c.Refuse("the softmax_precision DOUBLE is not supported");
  // The format's text and its reference implementation differ here.
  if (mode == 0 && cap > 0 && c.Wants(3))
    return c.Refuse("the output of the product with a softcap is not supported");
  if (mode < 0 || mode > 3) return c.Wrong("qk_matmul_output_mode is not known");
  UOPD_ASSIGN(const Tensor bias, ScoreBias(c, queries, keys, past));
  Tensor y;
  if (cap == 0 && !c.Wants(3) && !c.Has(6)) {
    y = fn::Attention(q, k, v, bias, {.scale = scale});
  } else {
    k = RepeatHeads(k, heads);
    v = RepeatHeads(v, heads);
    Tensor scores = AtLeastF32(q).MatMul(AtLeastF32(k).Transpose()) * scale;
    Tensor shown = scores;
    if (cap > 0) scores = (scores / cap).Tanh() * cap;
    if (mode == 1) shown = scores;
    if (bias.state() != nullptr) scores = scores + bias;
    if (mode == 2) shown = scores;
    const Tensor p = scores.Softmax(-1);
    if (mode == 3) shown = p;
    UOPD_TRY(c.OutAs(0, shown, 3));
    y = p.MatMul(AtLeastF32(v));
  }
  UOPD_TRY(y.status());
  return c.OutAs(0, packed ? JoinHeads(y) : y);
}

absl::StatusOr<Tensor> Modified(Call& c, std::string_view name, const Tensor& x) {
  if (c.Find(name) == nullptr) return x;
  const OnnxGraph* graph = c.Graph(name);
  if (graph == nullptr) return x;  // Finish has the error
  UOPD_TRY(x.status());
  const Value in = ValueOf(x);
  UOPD_ASSIGN(std::vector<Value> out, c.walk().RunGraph(*graph, c.frame(), {&in, 1}));
  if (out.size() != 1 || out[0].kind != Value::Kind::kTensor || out[0].strings != nullptr ||
      out[0].dims != x.dims())
    return c.Wrong(Cat("the graph ", name, " does not keep the shape"));
  return c.walk().TensorOf(out[0]);
}

absl::Status RunFlexAttention(Call& c) {
  if (c.Rank(0) != 4 || c.Rank(1) != 4 || c.Rank(2) != 4)
    return c.Wrong("its inputs have a wrong number of axes");
  UOPD_ASSIGN(
      const OnnxElementType* within,
      c.TypeOf("softmax_precision", ElementType(c.DtypeOf(0) == Dtype::F64 ? "DOUBLE" : "FLOAT")));
  const Dtype dtype = *OnnxStorageDtype(*within);
  const double scale = c.Float("scale", 1 / std::sqrt(static_cast<double>(c.Shape(0)[3])));
  const int64_t heads = c.Shape(0)[1];
  const Tensor k = RepeatHeads(c.X(1), heads), v = RepeatHeads(c.X(2), heads);
  Tensor scores = (AtLeastF32(c.X(0)).MatMul(AtLeastF32(k).Transpose()) * scale).Cast(dtype);
  UOPD_ASSIGN(scores, Modified(c, "score_mod", scores));
  UOPD_ASSIGN(const Tensor p, Modified(c, "prob_mod", scores.Softmax(-1)));
  return c.OutAs(2, AtLeastF32(p).MatMul(AtLeastF32(v)));
}

// Tables of cosines and sines by position, or one row for each token.
absl::Status RunRotaryEmbedding(Call& c) {
  const bool packed = c.Rank(0) == 3;
  Tensor x = c.X(0);
  if (packed) {
    UOPD_ASSIGN(x, SplitHeads(c, x, c.Int("num_heads", 0)));
  } else {
    c.Int("num_heads", 0);
  }
  if (x.rank() != 4) return c.Wrong("its input has a wrong number of axes");
  const int64_t width = x.dims()[3];
  int64_t turned = c.Int("rotary_embedding_dim", 0);
  if (turned == 0) turned = width;
  if (turned < 0 || turned > width || turned % 2 != 0)
    return c.Wrong(Cat("the attribute rotary_embedding_dim is ", turned));
  const bool neighbours = c.Int("interleaved", 0) != 0;
  Tensor cos = c.X(1), sin = c.X(2);
  if (c.Has(3)) {
    cos = cos.IndexSelect(0, c.X(3));
    sin = sin.IndexSelect(0, c.X(3));
  }
  cos = cos.Unsqueeze(1);
  sin = sin.Unsqueeze(1);
  UOPD_TRY(cos.status());
  if (cos.dims().back() != turned / 2 || sin.dims() != cos.dims())
    return c.Wrong("the tables have a wrong shape");
  Tensor part = x.Narrow(3, 0, turned);
  if (neighbours) {
    Dims pairs = part.dims();
    pairs.back() = turned / 2;
    pairs.push_back(2);
    const Tensor p = part.Reshape(pairs), a = p.Select(-1, 0), b = p.Select(-1, 1);
    part = Stack(std::vector{a * cos - b * sin, a * sin + b * cos}, -1).Reshape(part.dims());
  } else {
    part = fn::Rotate(part, cos, sin);
  }
  if (turned < width) part = Concat(std::vector{part, x.Narrow(3, turned, width - turned)}, 3);
  UOPD_TRY(part.status());
  return c.OutAs(0, packed ? JoinHeads(part) : part);
}

// The past states of a recurrence: heads of key width times value width.
absl::Status RunLinearAttention(Call& c) {
  const int64_t q_heads = c.Int("q_num_heads", 0), heads = c.Int("kv_num_heads", 0);
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0)
    return c.Wrong("kv_num_heads does not divide q_num_heads");
  UOPD_ASSIGN(const Tensor q, SplitHeads(c, c.X(0).Cast(Dtype::F32), q_heads));
  UOPD_ASSIGN(const Tensor k, SplitHeads(c, c.X(1).Cast(Dtype::F32), heads));
  UOPD_ASSIGN(const Tensor v, SplitHeads(c, c.X(2).Cast(Dtype::F32), heads));
  c.Int("chunk_size", 64);
  const std::string_view rule = c.String("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    return c.Wrong("the attribute update_rule is not known");
  if (gated != c.Has(4) || delta != c.Has(5))
    return c.Wrong("the update_rule has, or needs, no decay or beta");
  if (delta && c.Rank(5) != 3) return c.Wrong("beta has not three axes");
  UOPD_TRY(q.status());
  UOPD_TRY(k.status());
  UOPD_TRY(v.status());
  const int64_t n = k.dims()[0], steps = k.dims()[2], width = k.dims()[3], out = v.dims()[3];
  double scale = c.Float("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.dims()[3]));
  Tensor state = c.Has(3) ? c.X(3).Cast(Dtype::F32) : c.client().Zeros({n, heads, width, out});
  Tensor decay, beta;
  if (gated) {
    UOPD_ASSIGN(decay, SplitHeads(c, c.X(4).Cast(Dtype::F32), heads));
    decay = decay.Exp();  // (n, heads, steps, width or 1)
  }
  if (delta) {
    UOPD_ASSIGN(beta, SplitHeads(c, c.X(5).Cast(Dtype::F32), c.Shape(5).back() == 1 ? 1 : heads));
  }
  UOPD_TRY(c.walk().Charge(steps));
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor key = k.Select(2, t).Unsqueeze(-1);  // (n, heads, width, 1)
    Tensor value = v.Select(2, t).Unsqueeze(-2);      // (n, heads, 1, out)
    if (gated) state = state * decay.Select(2, t).Unsqueeze(-1);
    if (delta) value = beta.Select(2, t).Unsqueeze(-1) * (value - (state * key).Sum({2}, true));
    state = state + key * value;
    const Tensor read = RepeatHeads(state, q_heads);
    rows.push_back((q.Select(2, t).Unsqueeze(-1) * read).Sum({2}) * scale);
  }
  if (rows.empty()) return c.Refuse("a sequence without steps is not supported");
  const Tensor y = Stack(rows, 2);  // (n, q_heads, steps, out)
  UOPD_TRY(y.status());
  UOPD_TRY(c.OutAs(c.Has(3) ? 3 : 0, state, 1));
  return c.OutAs(0, JoinHeads(y));
}

absl::Status RunCausalConv(Call& c) {
  if (c.Rank(0) != 3 || c.Rank(1) != 3) return c.Wrong("its inputs have not three axes");
  const int64_t before = c.Shape(1)[2] - 1, channels = c.Shape(0)[1];
  if (before < 0) return c.Wrong("the weight is empty");
  const std::string_view activation = c.String("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return c.Wrong("the attribute activation is not known");
  const Tensor x = c.X(0);
  const Tensor all =
      c.Has(3) ? Concat(std::vector{c.X(3), x}, 2) : x.Pad({0, 0, before}, {0, 0, 0});
  UOPD_TRY(all.status());
  Tensor y = fn::Conv(all, c.X(1), c.X(2), {.groups = channels});
  if (activation != "none") y = y.Silu();
  UOPD_TRY(c.Out(all.Narrow(2, all.dims()[2] - before, before), 1));
  return c.OutAs(0, y);
}

absl::Status RunTensorScatter(Call& c) {
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", -2), c.Rank(0)));
  const std::string_view mode = c.String("mode", "linear");
  if (mode != "linear" && mode != "circular") return c.Wrong("the attribute mode is not known");
  const int64_t most = c.Shape(0)[static_cast<size_t>(axis)], n = c.Shape(0)[0];
  if (c.Rank(1) != c.Rank(0) || axis == 0) return c.Wrong("the axis or a shape is wrong");
  Dims along(static_cast<size_t>(c.Rank(0)), 1), row = along;
  along[static_cast<size_t>(axis)] = c.Shape(1)[static_cast<size_t>(axis)];
  row[0] = n;
  Tensor at = c.client().Arange(0, along[static_cast<size_t>(axis)], 1, Dtype::I64).Reshape(along);
  if (c.Has(2)) at = at + c.X(2).Cast(Dtype::I64).Reshape(row);
  if (mode == "circular") at = at % std::max<int64_t>(most, 1);
  return c.OutAs(0, fn::Scatter(c.X(0), axis, at.Expand(c.Shape(1)), c.X(1)));
}

}  // namespace

OpRows AttentionOps() {
  return {
      {"Attention", 23, 3, 7, RunAttention},
      {"FlexAttention", 1, 3, 3, RunFlexAttention, kTensors, "ai.onnx.preview"},
      {"RotaryEmbedding", 23, 3, 4, RunRotaryEmbedding},
      {"LinearAttention", 27, 3, 6, RunLinearAttention},
      {"CausalConvWithState", 27, 2, 4, RunCausalConv},
      {"TensorScatter", 24, 2, 3, RunTensorScatter},
  };
}

}  // namespace uopd::client::onnx
