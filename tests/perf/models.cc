// SPDX-License-Identifier: MIT
#include "tests/perf/models.h"

#include "core/base/text.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Tensor;

absl::StatusOr<client::Exported> BuildResNet50() {
  Client client(std::make_shared<client::OfflineExecutor>());
  test::ResNet model(client, test::ResNet::Shape50());
  const Tensor logits = model.Forward(client.Empty({1, 3, 224, 224}), false);
  return client::Export(std::span(&logits, 1));
}

absl::StatusOr<client::Exported> BuildLlama(int64_t layers) {
  Client client(std::make_shared<client::OfflineExecutor>());
  test::LlamaShape shape;
  shape.layers = layers;
  test::Llama model(client, shape);
  return client::Export(test::DecodeStep(client, model, 17));
}

absl::StatusOr<client::Exported> BuildTrain() {
  Client client(std::make_shared<client::OfflineExecutor>());
  test::TrainStep train(client, test::ResNet::Shape18(), 8, 224);
  UOPD_ASSIGN(const std::vector<Tensor> step, train.Step());
  return client::Export(step);
}

absl::StatusOr<client::Exported> BuildMlp(bool adam) {
  Client client(std::make_shared<client::OfflineExecutor>());
  std::unique_ptr<client::Optimizer> optimizer;
  return client::Export(test::MlpStep(client, adam, optimizer));
}

}  // namespace

std::vector<Model> Models(int64_t layers) {
  const bool as_peer = layers == 0 || layers == 16;
  const int64_t n = layers == 0 ? 16 : layers;
  return {{"resnet50", {958, 51}, BuildResNet50},
          {Cat("llama", as_peer ? "" : Cat(".", n)), as_peer ? Peer{270, 234} : Peer{},
           [n] { return BuildLlama(n); }},
          {"train", {4500, 471}, BuildTrain},
          {"mlp-sgd", {146, 16}, [] { return BuildMlp(false); }},
          {"mlp-adam", {181, 30}, [] { return BuildMlp(true); }}};
}

}  // namespace uopd::perf
