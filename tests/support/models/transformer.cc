// SPDX-License-Identifier: MIT
#include <cmath>

#include "tests/support/models/models.h"

namespace uopd::test {

using namespace client;  // NOLINT: models are written in its words

Llama::Llama(Client& client, const LlamaShape& shape)
    : shape_(shape),
      tokens_(client, shape.vocab, shape.dim),
      norm_(client, shape.dim),
      head_(client, shape.dim, shape.vocab, false),
      cos_(client.Empty({shape.context, shape.head() / 2})),
      sin_(client.Empty({shape.context, shape.head() / 2})) {
  const int64_t kv = shape.kv_heads * shape.head();
  for (int64_t i = 0; i < shape.layers; ++i) {
    const Dims cache = {shape.context, shape.kv_heads, shape.head()};
    layers_.push_back(
        {RmsNorm(client, shape.dim), RmsNorm(client, shape.dim),
         Linear(client, shape.dim, shape.dim, false), Linear(client, shape.dim, kv, false),
         Linear(client, shape.dim, kv, false), Linear(client, shape.dim, shape.dim, false),
         Linear(client, shape.dim, shape.ffn, false), Linear(client, shape.dim, shape.ffn, false),
         Linear(client, shape.ffn, shape.dim, false), client.Empty(cache), client.Empty(cache)});
  }
  const auto narrow = [&](Tensor& t) { t = client.Empty(t.dims(), shape.weights); };
  narrow(tokens_.weight), narrow(head_.weight);
  for (Layer& l : layers_) {
    for (Linear* m : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) narrow(m->weight);
  }
  if (shape.tied) head_.weight = tokens_.weight;
  Unmaterialise(client, parameters());
}

Tensor Llama::Logits(const Tensor& token, const Tensor& position) {
  const LlamaShape& s = shape_;
  const Tensor cos = cos_.Narrow(0, position, 1), sin = sin_.Narrow(0, position, 1);
  const Tensor length = position + 1;
  Tensor x = tokens_(token.Reshape({1})).Cast(Dtype::F32);  // (1, dim)
  for (Layer& layer : layers_) {
    const Tensor h = layer.attention_norm(x);
    const Tensor q = fn::Rotate(layer.q(h).Reshape({s.heads, 1, s.head()}), cos, sin);
    const Tensor k = fn::Rotate(layer.k(h).Reshape({1, s.kv_heads, s.head()}), cos, sin);
    layer.keys.AssignNarrow(0, position, k);
    layer.values.AssignNarrow(0, position, layer.v(h).Reshape({1, s.kv_heads, s.head()}));
    // (kv_heads, length, head) of what has been seen.
    const Tensor keys = layer.keys.Narrow(0, 0, length).Transpose(0, 1);
    const Tensor values = layer.values.Narrow(0, 0, length).Transpose(0, 1);
    x = x + layer.o(fn::Attention(q, keys, values).Reshape({1, s.dim}));
    const Tensor f = layer.ffn_norm(x);
    x = x + layer.down(layer.gate(f).Silu() * layer.up(f));
  }
  return head_(norm_(x)).Reshape({s.vocab});
}

std::vector<Tensor> Llama::parameters() const {
  std::vector<Tensor> out = {tokens_.weight, norm_.weight};
  if (!shape_.tied) out.push_back(head_.weight);
  for (const Layer& l : layers_) {
    for (const Tensor& t : {l.attention_norm.weight, l.ffn_norm.weight, l.q.weight, l.k.weight,
                            l.v.weight, l.o.weight, l.gate.weight, l.up.weight, l.down.weight})
      out.push_back(t);
  }
  return out;
}

std::vector<Tensor> Llama::caches() const {
  std::vector<Tensor> out;
  for (const Layer& l : layers_) out.push_back(l.keys), out.push_back(l.values);
  return out;
}

std::vector<Tensor> DecodeStep(Client& client, Llama& model, int64_t position) {
  const Tensor token = client.Empty({1}, Dtype::I32);
  const Tensor at = client.Variable("position", 0, model.context() - 1, position);
  std::vector<Tensor> out = {model.Logits(token, at).Argmax()};
  for (const Tensor& t : model.caches()) out.push_back(t);
  return out;
}

std::vector<Tensor> Gpt2Forward(Client& client, int64_t batch, int64_t length, int64_t layers) {
  constexpr int64_t kDim = 768, kHeads = 12, kVocab = 50257, kContext = 1024;
  std::vector<Tensor> parameters;
  auto keep = [&](const std::vector<Tensor>& more) {
    parameters.insert(parameters.end(), more.begin(), more.end());
    Unmaterialise(client, more);
  };
  auto linear = [&](int64_t in, int64_t out) {
    Linear layer(client, in, out);
    keep(layer.parameters());
    return layer;
  };
  auto norm = [&] {
    LayerNorm layer(client, kDim);
    keep(layer.parameters());
    return layer;
  };
  const Embedding tokens(client, kVocab, kDim), positions(client, kContext, kDim);
  keep(tokens.parameters()), keep(positions.parameters());
  auto heads = [&](const Tensor& t) {
    return t.Reshape({batch, length, kHeads, kDim / kHeads}).Transpose(1, 2);
  };
  Tensor x =
      tokens(client.Empty({batch, length}, Dtype::I32)) + positions.weight.Narrow(0, 0, length);
  for (int64_t i = 0; i < layers; ++i) {
    const std::vector<Tensor> qkv = linear(kDim, 3 * kDim)(norm()(x)).Chunk(-1, 3);
    const Tensor seen =
        fn::Attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {}, {.causal = true});
    x = x + linear(kDim, kDim)(seen.Transpose(1, 2).Reshape({batch, length, kDim}));
    x = x + linear(4 * kDim, kDim)(linear(kDim, 4 * kDim)(norm()(x)).Gelu());
  }
  return {norm()(x).MatMul(tokens.weight.Transpose(0, 1))};
}

std::vector<Tensor> MlpStep(Client& client, bool adam, std::unique_ptr<Optimizer>& optimizer) {
  const Linear first(client, 784, 512), second(client, 512, 10);
  std::vector<Tensor> parameters = {first.weight, first.bias, second.weight, second.bias};
  Unmaterialise(client, parameters);
  optimizer = adam ? Adam(client, parameters) : Sgd(client, parameters);
  // The learning rate, which is last and which no step changes, has contents.
  Unmaterialise(client, {optimizer->state().begin(), optimizer->state().end() - 1});
  const Tensor loss =
      second(first(client.Empty({128, 784})).Relu()).CrossEntropy(client.Empty({128}, Dtype::I32));
  std::vector<Tensor> out = {loss};
  if (const absl::Status s = loss.Backward(); !s.ok()) return {};
  auto changed = optimizer->Update();
  if (!changed.ok()) return {};
  out.insert(out.end(), changed->begin(), changed->end());
  return out;
}

}  // namespace uopd::test
