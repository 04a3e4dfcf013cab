// SPDX-License-Identifier: MIT
#include "tests/perf/models/subjects.h"

#include <cmath>

#include "core/base/text.h"
#include "tests/perf/models/networks.h"
#include "tests/support/models/models.h"
#include "uopd/optim.h"

namespace uopd::perf {
namespace {

using client::Client;
using client::Dtype;
using client::Tensor;

class Inference final : public Subject {
 public:
  explicit Inference(Network network) : network_(std::move(network)) {}
  absl::StatusOr<std::vector<Tensor>> Step() override { return std::vector{network_.run()}; }
  absl::Status Fill() override { return network_.weights.Fill(); }

 private:
  Network network_;
};

// The values are computed on the daemon, because sending 2.5 GB takes long.
class Decode final : public Subject {
 public:
  explicit Decode(Client& client) : client_(client), model_(client, Shape()) {}

  absl::StatusOr<std::vector<Tensor>> Step() override {
    const Tensor token = client_.FromHost(std::vector<int32_t>{4711}, {1});
    const Tensor at = client_.Variable("position", 0, model_.context() - 1, kPosition);
    std::vector<Tensor> out = {model_.Logits(token, at).Argmax()};
    for (const Tensor& t : model_.caches()) out.push_back(t);
    return out;
  }

  absl::Status Fill() override {
    for (const Tensor& t : model_.parameters()) {
      const bool norm = t.rank() == 1;
      const double bound = norm ? 0.5 : std::sqrt(3.0 / static_cast<double>(t.dims().back()));
      UOPD_TRY(Set(t, Spread(t.size()) * bound + (norm ? 1.0 : 0.0)));
    }
    for (const Tensor& t : model_.caches()) UOPD_TRY(Set(t, Spread(t.size())));
    const std::vector<Tensor> tables = model_.tables();
    const int64_t half = tables[0].dims()[1];
    std::vector<float> cosines, sines;
    for (int64_t i = 0; i < tables[0].size(); ++i) {
      const double angle =
          static_cast<double>(i / half) *
          std::pow(Shape().theta, -static_cast<double>(i % half) / static_cast<double>(half));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
    UOPD_TRY(Set(tables[0], client_.FromHost(cosines, tables[0].dims())));
    return Set(tables[1], client_.FromHost(sines, tables[1].dims()));
  }

  int64_t weight_bytes() const override {
    int64_t out = 0;
    for (const Tensor& t : model_.parameters()) out += t.size() * ir::ByteSize(t.dtype());
    return out;
  }

 private:
  static constexpr int64_t kPosition = 128;
  static test::LlamaShape Shape() {
    test::LlamaShape shape;
    shape.weights = Dtype::BF16;
    shape.tied = true;
    return shape;
  }
  // n numbers between -1 and 1.
  Tensor Spread(int64_t n) { return client_.Arange(0, n) * 7919 % 2003 * (1.0 / 1001) - 1.0; }
  static absl::Status Set(Tensor t, const Tensor& values) {
    t.Assign(values.Reshape(t.dims()).Cast(t.dtype()));
    return t.Realize();
  }

  Client& client_;
  test::Llama model_;
};

// A step of training: tests/perf/peers/training.py does the same with the same numbers.
class Training : public Subject {
 public:
  explicit Training(Client& client) : client_(client), weights_(client) {}

  absl::StatusOr<std::vector<Tensor>> Step() override {
    const Tensor loss = Loss();
    UOPD_TRY(loss.Backward());
    UOPD_ASSIGN(const std::vector<Tensor> changed, adam_->Update());
    std::vector<Tensor> out = {loss};
    out.insert(out.end(), changed.begin(), changed.end());
    for (const Tensor& t : state_) out.push_back(t);
    return out;
  }

  absl::Status Fill() override {
    UOPD_TRY(weights_.Fill());
    std::vector<Tensor> rest = Changing();
    for (size_t i = 0; i < rest.size(); ++i) rest[i].Assign(initial_[i]);
    for (size_t i = 0; i < state_.size(); ++i) {  // a mean, then a variance
      state_[i].Assign(client_.Full(state_[i].dims(), static_cast<double>(i % 2)));
      rest.push_back(state_[i]);
    }
    return client::Realize(rest);
  }

 protected:
  // `parameters` get the first seeds, the input the last one.
  void Prepare(const std::vector<Tensor>& parameters, std::vector<Tensor> state,
               const client::Dims& images, int64_t classes) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& p = parameters[i];
      const bool scale = p.rank() == 1 && i > 0 && parameters[i - 1].rank() == 4;
      if (p.rank() > 1) {
        weights_.AddMatrix(p, p.size() / p.dims()[0]);
      } else {
        weights_.Add(p, scale ? 0.5F : -0.1F, scale ? 1.5F : 0.1F);
      }
    }
    images_ = weights_.Make(images, -1, 1);
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < images[0]; ++i) labels.push_back(static_cast<int32_t>(i * 7 % classes));
    labels_ = client_.FromHost(labels, {images[0]});
    state_ = std::move(state);
    adam_ = client::Adam(client_, parameters);
    // The optimiser's state is memory from the first step on, so that all steps have one graph.
    for (const Tensor& t : Changing()) initial_.push_back(t.Detach());
    test::Unmaterialise(client_, Changing());
    // Without memory, the first step would store the learning rate. An error is the first step's
    // too.
    adam_->state().back().Realize().IgnoreError();
  }

  Client& client_;
  Tensor images_, labels_;

 private:
  virtual Tensor Loss() = 0;
  // The state of the optimiser that a step changes: all but the learning rate, which is last.
  std::vector<Tensor> Changing() const {
    return {adam_->state().begin(), adam_->state().end() - 1};
  }

  Weights weights_;
  std::vector<Tensor> state_;
  std::unique_ptr<client::Optimizer> adam_;
  std::vector<Tensor> initial_;  // values of the optimiser's state
};

class ResNetTraining final : public Training {
 public:
  explicit ResNetTraining(Client& client)
      : Training(client), model_(client, test::ResNet::Shape18()) {
    Prepare(model_.parameters(), model_.state(), {8, 3, 224, 224}, 1000);
  }

 private:
  Tensor Loss() override { return model_.Forward(images_, true).CrossEntropy(labels_); }

  test::ResNet model_;
};

class MlpTraining final : public Training {
 public:
  explicit MlpTraining(Client& client)
      : Training(client), first_(client, 784, 512), second_(client, 512, 10) {
    const std::vector<Tensor> parameters = {first_.weight, first_.bias, second_.weight,
                                            second_.bias};
    test::Unmaterialise(client, parameters);
    Prepare(parameters, {}, {128, 784}, 10);
  }

 private:
  Tensor Loss() override { return second_(first_(images_).Relu()).CrossEntropy(labels_); }

  client::Linear first_, second_;
};

}  // namespace

absl::StatusOr<std::string> Subject::Run() {
  UOPD_ASSIGN(const std::vector<Tensor> step, Step());
  UOPD_TRY(client::Realize(step));
  return step[0].ToBytes();
}

absl::StatusOr<std::unique_ptr<Subject>> MakeSubject(const std::string& name, Client& client) {
  if (name == "decode") return std::make_unique<Decode>(client);
  if (name == "train") return std::make_unique<ResNetTraining>(client);
  if (name == "mlp-adam") return std::make_unique<MlpTraining>(client);
  for (const NetworkEntry& entry : Networks()) {
    if (entry.name == name) return std::make_unique<Inference>(entry.make(client));
  }
  return absl::NotFoundError(Cat("no model is called ", name));
}

}  // namespace uopd::perf
