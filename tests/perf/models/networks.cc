// SPDX-License-Identifier: MIT
#include "tests/perf/models/networks.h"

#include "uopd/functional.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Dims;
using client::Tensor;

constexpr uint32_t kInputSeed = 0;

// A convolution with the normalisation behind it.
struct Convolution {
  Convolution(Weights& w, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
              int64_t groups = 1)
      : weight(w.Matrix({out, in / groups, kernel, kernel}, in / groups * kernel * kernel)),
        scale(w.Scale(out)),
        shift(w.Shift(out)),
        mean(w.Shift(out)),
        variance(w.Scale(out)) {
    options.stride = {stride};
    options.padding = {kernel / 2};
    options.groups = groups;
  }
  Tensor operator()(const Tensor& x) const {
    return client::fn::BatchNorm(client::fn::Conv(x, weight, {}, options), mean, variance, scale,
                                 shift);
  }

  // Declared in the order in which the peers make them.
  Tensor weight, scale, shift, mean, variance;
  client::fn::ConvOptions options;
};

struct Dense {
  Dense(Weights& w, int64_t in, int64_t out)
      : weight(w.Matrix({in, out}, in)), bias(w.Shift(out)) {}
  Tensor operator()(const Tensor& x) const { return x.MatMul(weight) + bias; }

  Tensor weight, bias;
};

struct Norm {
  explicit Norm(Weights& w, int64_t n) : scale(w.Scale(n)), shift(w.Shift(n)) {}
  Tensor operator()(const Tensor& x) const { return client::fn::LayerNorm(x, scale, shift); }

  Tensor scale, shift;
};

// A network that sends `input` of this shape with every run.
Network Make(Client& client, Weights& w, Dims dims, std::function<Tensor(const Tensor&)> forward) {
  auto input =
      std::make_shared<std::vector<float>>(Numbers(ir::Product(dims), kInputSeed, -1.0F, 1.0F));
  return {w, [&client, input, dims = std::move(dims), forward = std::move(forward)] {
            return forward(client.FromHost(*input, dims));
          }};
}

// ResNet-50 v1.5 (K. He et al., 2015): the stride is in the 3x3 convolution.
Network ResNet50(Client& client, int64_t batch) {
  struct Block {
    std::vector<Convolution> path, shortcut;
  };
  Weights w(client);
  const Convolution stem(w, 3, 64, 7, 2);
  std::vector<Block> blocks;
  int64_t in = 64;
  for (size_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage, out = 4 * width;
    for (int64_t i = 0; i < std::vector<int64_t>{3, 4, 6, 3}[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      Block b;
      b.path.emplace_back(w, in, width, 1);
      b.path.emplace_back(w, width, width, 3, stride);
      b.path.emplace_back(w, width, out, 1);
      if (in != out) b.shortcut.emplace_back(w, in, out, 1, stride);
      blocks.push_back(std::move(b));
      in = out;
    }
  }
  const Dense head(w, in, 1000);
  return Make(client, w, {batch, 3, 224, 224}, [=](const Tensor& input) {
    Tensor x = client::fn::MaxPool(stem(input).Relu(), {3}, {.stride = {2}, .padding = {1}});
    for (const Block& b : blocks) {
      const Tensor y = b.path[2](b.path[1](b.path[0](x).Relu()).Relu());
      x = (y + (b.shortcut.empty() ? x : b.shortcut[0](x))).Relu();
    }
    return head(x.Mean({2, 3}));
  });
}

// MobileNetV2 (M. Sandler et al., 2018), width 1.
Network MobileNetV2(Client& client) {
  struct Stage {
    int64_t expansion, channels, count, stride;
  };
  struct Block {
    std::vector<Convolution> path;
    bool expands, adds;
  };
  Weights w(client);
  const Convolution stem(w, 3, 32, 3, 2);
  std::vector<Block> blocks;
  int64_t in = 32;
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int64_t i = 0; i < s.count; ++i) {
      const int64_t stride = i == 0 ? s.stride : 1, wide = in * s.expansion;
      Block b{{}, s.expansion > 1, stride == 1 && in == s.channels};
      if (b.expands) b.path.emplace_back(w, in, wide, 1);
      b.path.emplace_back(w, wide, wide, 3, stride, wide);
      b.path.emplace_back(w, wide, s.channels, 1);
      blocks.push_back(std::move(b));
      in = s.channels;
    }
  }
  const Convolution last(w, in, 1280, 1);
  const Dense head(w, 1280, 1000);
  return Make(client, w, {1, 3, 224, 224}, [=](const Tensor& input) {
    Tensor x = stem(input).Clip(0, 6);
    for (const Block& b : blocks) {
      Tensor y = x;
      for (size_t i = 0; i + 1 < b.path.size(); ++i) y = b.path[i](y).Clip(0, 6);
      y = b.path.back()(y);
      x = b.adds ? x + y : y;
    }
    return head(last(x).Clip(0, 6).Mean({2, 3}));
  });
}

constexpr int64_t kDim = 768, kHeads = 12, kLayers = 12, kLength = 128;

struct SelfAttention {
  explicit SelfAttention(Weights& w)
      : q(w, kDim, kDim), k(w, kDim, kDim), v(w, kDim, kDim), o(w, kDim, kDim) {}
  Tensor operator()(const Tensor& x, bool causal) const {
    const auto heads = [](const Tensor& t) {
      return t.Reshape({1, kLength, kHeads, kDim / kHeads}).Transpose(1, 2);
    };
    const Tensor y =
        client::fn::Attention(heads(q(x)), heads(k(x)), heads(v(x)), {}, {.causal = causal});
    return o(y.Transpose(1, 2).Reshape({1, kLength, kDim}));
  }

  Dense q, k, v, o;
};

struct Layer {
  explicit Layer(Weights& w)
      : attention(w),
        first(w, kDim),
        up(w, kDim, 4 * kDim),
        down(w, 4 * kDim, kDim),
        second(w, kDim) {}

  SelfAttention attention;
  Norm first;
  Dense up, down;
  Norm second;
};

std::vector<Layer> Layers(Weights& w) {
  std::vector<Layer> out;
  for (int64_t i = 0; i < kLayers; ++i) out.emplace_back(w);
  return out;
}

// The encoder of BERT base (J. Devlin et al., 2018), from embeddings to hidden states; GELU in its
// tanh form.
Network Bert(Client& client) {
  Weights w(client);
  const std::vector<Layer> layers = Layers(w);
  return Make(client, w, {1, kLength, kDim}, [=](const Tensor& input) {
    Tensor x = input;
    for (const Layer& l : layers) {
      x = l.first(x + l.attention(x, false));
      x = l.second(x + l.down(l.up(x).Gelu()));
    }
    return x;
  });
}

// GPT-2 small (A. Radford et al., 2019) over a prompt: the scores of the token behind it.
Network Gpt2(Client& client) {
  constexpr int64_t kVocab = 50257;
  Weights w(client);
  const Tensor tokens = w.Make({kVocab, kDim}, -0.5F, 0.5F),
               positions = w.Make({kLength, kDim}, -0.5F, 0.5F);
  const std::vector<Layer> layers = Layers(w);
  const Norm last(w, kDim);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < kLength; ++i) prompt.push_back(static_cast<int32_t>(i * 7919 % kVocab));
  return {w, [=, &client] {
            Tensor x = tokens.IndexSelect(0, client.FromHost(prompt, {1, kLength})) + positions;
            for (const Layer& l : layers) {
              x = x + l.attention(l.first(x), true);
              x = x + l.down(l.up(l.second(x)).Gelu());
            }
            return last(x.Narrow(1, kLength - 1, 1)).MatMul(tokens.Transpose(0, 1));
          }};
}

}  // namespace

const std::vector<NetworkEntry>& Networks() {
  static const std::vector<NetworkEntry> entries = {
      {"resnet50.b1", [](Client& c) { return ResNet50(c, 1); }},
      {"resnet50.b8", [](Client& c) { return ResNet50(c, 8); }},
      {"mobilenetv2.b1", MobileNetV2},
      {"bert.128", Bert},
      {"gpt2.128", Gpt2}};
  return entries;
}

}  // namespace uopd::perf
