// SPDX-License-Identifier: MIT
// Whole models in the shapes that people run, built with the client's own Tensor.
//
// Parameters are buffers without contents, so a model of gigabytes costs nothing until it runs.
// Each function returns the tensors that are realised together in one step. The model keeps the
// tensors that a step updates in place, as in a real program.
#pragma once
#include <memory>
#include <vector>

#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::test {

// Replaces parameters by memory on the daemon without contents.
void Unmaterialise(client::Client& client, const std::vector<client::Tensor>& parameters);

// ResNet (K. He et al., 2015) with bottlenecks (50) or without (18), 1000 classes.
class ResNet {
 public:
  struct Shape {
    std::vector<int64_t> blocks;  // of each stage
    bool bottleneck;
    int64_t width = 64;  // channels of the first stage
  };
  static Shape Shape18() { return {{2, 2, 2, 2}, false}; }
  static Shape Shape50() { return {{3, 4, 6, 3}, true}; }

  ResNet(client::Client& client, const Shape& shape, int64_t classes = 1000);
  // Logits of x (n, 3, h, w); `train` takes the batch's statistics and moves the running ones.
  client::Tensor Forward(const client::Tensor& x, bool train);
  std::vector<client::Tensor> parameters() const;
  std::vector<client::Tensor> state() const;  // running statistics

 private:
  struct Layer {  // a convolution without bias, normalised
    client::Conv2d conv;
    client::BatchNorm norm;
  };
  struct Block {
    std::vector<Layer> layers;
    std::vector<Layer> shortcut;  // none or one
  };
  static Layer MakeLayer(client::Client& client, int64_t in, int64_t out, int64_t kernel,
                         int64_t stride);
  static client::Tensor Run(Layer& layer, const client::Tensor& x, bool train);

  Layer stem_;
  std::vector<Block> blocks_;
  client::Linear head_;
};

// One step of training: cross entropy, gradients, Adam, running statistics. Gives the loss and all
// that changes.
struct TrainStep {
  TrainStep(client::Client& client, const ResNet::Shape& shape, int64_t batch, int64_t size,
            int64_t classes = 1000);
  absl::StatusOr<std::vector<client::Tensor>> Step();

  ResNet model;
  client::Tensor images, labels;
  std::unique_ptr<client::Optimizer> adam;
};

// Decoder of the Llama kind, one token at a time. Defaults: Llama-3.2-1B.
struct LlamaShape {
  int64_t layers = 16, dim = 2048, heads = 32, kv_heads = 8, ffn = 8192, vocab = 128256;
  int64_t context = 1024;
  double theta = 500000;
  client::Dtype weights = client::Dtype::F32;  // of the embedding and the matrices
  bool tied = false;                           // the head is the embedding
  int64_t head() const { return dim / heads; }
};
class Llama {
 public:
  Llama(client::Client& client, const LlamaShape& shape);
  // Scores of the next token, (vocab). `token` is one i32; `position` a variable in
  // [0, context - 1].
  client::Tensor Logits(const client::Tensor& token, const client::Tensor& position);
  // The embedding, the last norm, the head (if it is not the embedding); then of each layer its two
  // norms, q, k, v, o, gate, up, down.
  std::vector<client::Tensor> parameters() const;
  std::vector<client::Tensor> caches() const;
  // Cosines and sines of the angles, (context, head / 2): row p holds p * theta^(-2 i / head).
  std::vector<client::Tensor> tables() const { return {cos_, sin_}; }
  int64_t context() const { return shape_.context; }

 private:
  struct Layer {
    client::RmsNorm attention_norm, ffn_norm;
    client::Linear q, k, v, o, gate, up, down;
    client::Tensor keys, values;  // (context, kv_heads, head)
  };

  const LlamaShape shape_;
  client::Embedding tokens_;
  std::vector<Layer> layers_;
  client::RmsNorm norm_;
  client::Linear head_;
  client::Tensor cos_, sin_;  // (context, head / 2)
};
// The token of the largest score, and the caches that the step writes.
std::vector<client::Tensor> DecodeStep(client::Client& client, Llama& model, int64_t position);

// Forward pass in GPT-2's shape (12 layers of 768, 12 heads): logits of all positions.
std::vector<client::Tensor> Gpt2Forward(client::Client& client, int64_t batch, int64_t length,
                                        int64_t layers = 12);

// 784-512-10 perceptron, batch 128: one step, by Adam or SGD.
std::vector<client::Tensor> MlpStep(client::Client& client, bool adam,
                                    std::unique_ptr<client::Optimizer>& optimizer);

}  // namespace uopd::test
