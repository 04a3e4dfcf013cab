// SPDX-License-Identifier: MIT
#include "tests/support/models/models.h"

namespace uopd::test {

using namespace client;  // NOLINT: models are written in its words

void Unmaterialise(Client& client, const std::vector<Tensor>& parameters) {
  for (Tensor p : parameters) p.Assign(client.Empty(p.dims(), p.dtype()));
}

ResNet::Layer ResNet::MakeLayer(Client& client, int64_t in, int64_t out, int64_t kernel,
                                int64_t stride) {
  return {Conv2d(client, in, out, kernel, {.stride = {stride}, .padding = {kernel / 2}}, false),
          BatchNorm(client, out)};
}

Tensor ResNet::Run(Layer& layer, const Tensor& x, bool train) {
  const Tensor y = layer.conv(x);
  return train ? layer.norm.Train(y) : layer.norm(y);
}

ResNet::ResNet(Client& client, const Shape& shape, int64_t classes)
    : stem_(MakeLayer(client, 3, shape.width, 7, 2)),
      head_(client, (shape.width << (shape.blocks.size() - 1)) * (shape.bottleneck ? 4 : 1),
            classes) {
  int64_t in = shape.width;
  for (size_t stage = 0; stage < shape.blocks.size(); ++stage) {
    const int64_t width = shape.width << stage, out = shape.bottleneck ? 4 * width : width;
    for (int64_t i = 0; i < shape.blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      Block b;
      if (shape.bottleneck) {
        b.layers.push_back(MakeLayer(client, in, width, 1, 1));
        b.layers.push_back(MakeLayer(client, width, width, 3, stride));
        b.layers.push_back(MakeLayer(client, width, out, 1, 1));
      } else {
        b.layers.push_back(MakeLayer(client, in, width, 3, stride));
        b.layers.push_back(MakeLayer(client, width, out, 3, 1));
      }
      if (stride != 1 || in != out) b.shortcut.push_back(MakeLayer(client, in, out, 1, stride));
      blocks_.push_back(std::move(b));
      in = out;
    }
  }
  Unmaterialise(client, parameters());
  Unmaterialise(client, state());
}

Tensor ResNet::Forward(const Tensor& input, bool train) {
  Tensor x = Run(stem_, input, train).Relu();
  x = fn::MaxPool(x, {3}, {.stride = {2}, .padding = {1}});
  for (Block& b : blocks_) {
    Tensor y = x;
    for (size_t i = 0; i < b.layers.size(); ++i) {
      y = Run(b.layers[i], y, train);
      if (i + 1 < b.layers.size()) y = y.Relu();
    }
    const Tensor rest = b.shortcut.empty() ? x : Run(b.shortcut[0], x, train);
    x = (y + rest).Relu();
  }
  return head_(x.Mean({2, 3}));
}

std::vector<Tensor> ResNet::parameters() const {
  std::vector<Tensor> out;
  auto add = [&](const std::vector<Tensor>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  auto layer = [&](const Layer& l) { add(l.conv.parameters()), add(l.norm.parameters()); };
  layer(stem_);
  for (const Block& b : blocks_) {
    for (const Layer& l : b.layers) layer(l);
    for (const Layer& l : b.shortcut) layer(l);
  }
  add(head_.parameters());
  return out;
}

std::vector<Tensor> ResNet::state() const {
  std::vector<Tensor> out;
  auto layer = [&](const Layer& l) { out.push_back(l.norm.mean), out.push_back(l.norm.var); };
  layer(stem_);
  for (const Block& b : blocks_) {
    for (const Layer& l : b.layers) layer(l);
    for (const Layer& l : b.shortcut) layer(l);
  }
  return out;
}

TrainStep::TrainStep(Client& client, const ResNet::Shape& shape, int64_t batch, int64_t size,
                     int64_t classes)
    : model(client, shape, classes),
      images(client.Empty({batch, 3, size, size})),
      labels(client.Empty({batch}, Dtype::I32)),
      adam(Adam(client, model.parameters())) {
  // The learning rate, which is last and which no step changes, has contents.
  Unmaterialise(client, {adam->state().begin(), adam->state().end() - 1});
}

absl::StatusOr<std::vector<Tensor>> TrainStep::Step() {
  const Tensor loss = model.Forward(images, true).CrossEntropy(labels);
  UOPD_TRY(loss.Backward());
  UOPD_ASSIGN(std::vector<Tensor> out, adam->Update());
  for (const Tensor& t : model.state()) out.push_back(t);
  out.push_back(loss);
  return out;
}

}  // namespace uopd::test
