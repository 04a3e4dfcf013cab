// SPDX-License-Identifier: MIT
// uopctl train-mnist: trains a perceptron on MNIST-like data through the daemon, as a remote client
// would. Each step sends its batch. The weights stay on the daemon. Only the first step sends a
// graph.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/data/idx.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::cli {
namespace {

using client::Examples;
using client::Tensor;
using Clock = std::chrono::steady_clock;

struct TrainFlags {
  std::string data, optimizer = "adam", device;
  int64_t steps = 4000, batch = 128, hidden = 512;
  double lr = 0;  // 0: 0.001 for adam, 0.05 for sgd
  uint64_t seed = 1;
};

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Examples in shuffled order, epoch after epoch. Equal seeds give equal orders.
class Shuffle {
 public:
  Shuffle(int64_t n, uint64_t seed) : order_(static_cast<size_t>(n)), seed_(seed) {
    std::iota(order_.begin(), order_.end(), 0);
    next_ = order_.size();
  }
  int64_t Next() {
    if (next_ == order_.size()) {
      for (size_t i = order_.size(); i > 1; --i)
        std::swap(order_[i - 1], order_[ir::Threefry(count_++, seed_) % i]);
      next_ = 0;
    }
    return order_[next_++];
  }

 private:
  std::vector<int64_t> order_;
  size_t next_;
  uint64_t seed_, count_ = 0;
};

struct Batch {
  Tensor images, labels;
  uint64_t bytes = 0;
};

class Model {
 public:
  Model(client::Client& client, int64_t pixels, int64_t hidden)
      : client_(client),
        pixels_(pixels),
        first_(client, pixels, hidden),
        second_(client, hidden, 10) {}

  // Pixels are sent as bytes and become floats on the device.
  Batch Send(const std::string& images, const std::string& labels) {
    const auto n = static_cast<int64_t>(labels.size());
    return {client_.FromBytes(ir::Dtype::U8, {n, pixels_}, images),
            client_.FromBytes(ir::Dtype::U8, {n}, labels), images.size() + labels.size()};
  }
  Tensor Scores(const Tensor& images) const {
    return second_(first_(images.Cast(ir::Dtype::F32) * (1.0 / 255)).Relu());
  }
  std::vector<Tensor> parameters() const {
    return {first_.weight, first_.bias, second_.weight, second_.bias};
  }

 private:
  client::Client& client_;
  const int64_t pixels_;
  const client::Linear first_, second_;
};

// Reports progress: a bar on a terminal, otherwise a line now and then. Writes to stderr, so that
// stdout has results only.
void Report(int64_t step, int64_t steps, float loss, double seconds) {
  const bool tty = isatty(STDERR_FILENO) != 0;
  if (tty) {
    constexpr int kWidth = 30;
    const int done = static_cast<int>(step * kWidth / steps);
    std::fprintf(stderr, "\r[%.*s%*s] %lld/%lld loss %.4f %.1f s%s", done,
                 "##############################", kWidth - done, "", static_cast<long long>(step),
                 static_cast<long long>(steps), loss, seconds, step == steps ? "\n" : "");
  } else if (step == 1 || step % 100 == 0 || step == steps) {
    std::fprintf(stderr, "step %lld/%lld loss %.4f %.1f s\n", static_cast<long long>(step),
                 static_cast<long long>(steps), loss, seconds);
  }
}

struct Outcome {
  float loss = 0;
  double first_step_ms = 0, step_ms_p50 = 0, train_s = 0;
  uint64_t overhead_bytes = 0;  // bytes sent besides the batch: maximum of all steps but the first
  uint64_t batch_bytes = 0;
  uint64_t graphs_after_first = 0;
};

absl::StatusOr<Outcome> Train(const TrainFlags& flags, client::Client& client, Model& model,
                              const Examples& data) {
  const double lr = flags.lr > 0 ? flags.lr : flags.optimizer == "adam" ? 0.001 : 0.05;
  auto optimizer = flags.optimizer == "adam"
                       ? client::Adam(client, model.parameters(), {.lr = lr})
                       : client::Sgd(client, model.parameters(), {.lr = lr, .momentum = 0.9});
  std::vector<Tensor> all = model.parameters();
  all.insert(all.end(), optimizer->state().begin(), optimizer->state().end());
  UOPD_TRY(client::Realize(all));
  all.clear();
  const auto pixels = static_cast<size_t>(data.rows * data.columns);
  Shuffle shuffle(data.count, flags.seed);
  Outcome out;
  std::vector<double> times;
  uint64_t graphs = 0;
  const auto start = Clock::now();
  for (int64_t step = 1; step <= flags.steps; ++step) {
    std::string images, labels;
    for (int64_t i = 0; i < flags.batch; ++i) {
      const auto at = static_cast<size_t>(shuffle.Next());
      images.append(data.images, at * pixels, pixels);
      labels += data.labels[at];
    }
    const uint64_t sent = client.traffic().total();
    const auto began = Clock::now();
    Batch batch = model.Send(images, labels);
    const Tensor loss = model.Scores(batch.images).CrossEntropy(batch.labels);
    out.batch_bytes = batch.bytes;
    batch = Batch();  // the graph keeps the tensors, so the daemon frees them with the step
    UOPD_TRY(loss.Backward());
    UOPD_TRY(optimizer->Step({loss}));
    UOPD_ASSIGN(out.loss, loss.Item<float>());
    const double ms = Seconds(began) * 1e3;
    if (step == 1) {
      out.first_step_ms = ms;
      graphs = client.stats().graphs_sent;
    } else {
      times.push_back(ms);
      out.overhead_bytes =
          std::max(out.overhead_bytes, client.traffic().total() - sent - out.batch_bytes);
    }
    Report(step, flags.steps, out.loss, Seconds(start));
  }
  out.train_s = Seconds(start);
  out.graphs_after_first = client.stats().graphs_sent - graphs;
  if (!times.empty()) {
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                     times.end());
    out.step_ms_p50 = times[times.size() / 2];
  }
  return out;
}

absl::StatusOr<double> Evaluate(Model& model, const Examples& data) {
  constexpr int64_t kBatch = 500;
  const auto pixels = static_cast<size_t>(data.rows * data.columns);
  int64_t correct = 0;
  for (int64_t at = 0; at < data.count; at += kBatch) {
    const auto n = static_cast<size_t>(std::min(kBatch, data.count - at)),
               from = static_cast<size_t>(at);
    const Batch batch =
        model.Send(data.images.substr(from * pixels, n * pixels), data.labels.substr(from, n));
    UOPD_ASSIGN(const int32_t hits,
                (model.Scores(batch.images).Argmax() == batch.labels).Sum().Item<int32_t>());
    correct += hits;
  }
  return static_cast<double>(correct) / static_cast<double>(data.count);
}

absl::Status TrainMnist(Globals& globals, const TrainFlags& flags) {
  UOPD_ASSIGN(const Examples train, client::LoadExamples(flags.data, "train"));
  UOPD_ASSIGN(const Examples test, client::LoadExamples(flags.data, "t10k"));
  if (train.rows != test.rows || train.columns != test.columns)
    return absl::InvalidArgumentError("training and test images differ in size");
  for (const Examples* e : {&train, &test}) {
    const auto wrong = std::find_if(e->labels.begin(), e->labels.end(),
                                    [](char c) { return static_cast<unsigned char>(c) > 9; });
    if (wrong != e->labels.end())
      return absl::InvalidArgumentError(
          Cat("label ", wrong - e->labels.begin(), " is none of 0 to 9"));
  }
  UOPD_ASSIGN(auto options, globals.ConnectOptions());
  UOPD_ASSIGN(auto connection, client::Connection::Connect(std::move(options)));
  client::Client client(
      connection, {.device = flags.device, .seed = flags.seed, .execution = globals.execution});
  Model model(client, train.rows * train.columns, flags.hidden);
  UOPD_ASSIGN(const Outcome out, Train(flags, client, model, train));
  const auto start = Clock::now();
  UOPD_ASSIGN(const double accuracy, Evaluate(model, test));
  const double test_s = Seconds(start);
  const client::ClientStats& stats = client.stats();
  std::FILE* text = globals.json ? stderr : stdout;
  std::fprintf(text, "test accuracy %.2f %%  loss %.4f\n", accuracy * 100, out.loss);
  std::fprintf(text, "step %.2f ms (median), first %.0f ms; training %.1f s, testing %.1f s\n",
               out.step_ms_p50, out.first_step_ms, out.train_s, test_s);
  std::fprintf(
      text,
      "sent per step: %llu bytes besides the batch of %llu; graphs after the first step: %llu\n",
      static_cast<unsigned long long>(out.overhead_bytes),
      static_cast<unsigned long long>(out.batch_bytes),
      static_cast<unsigned long long>(out.graphs_after_first));
  std::fprintf(text,
               "kernels: %llu compiled, %llu from the cluster, %llu from disk, %llu from memory\n",
               static_cast<unsigned long long>(stats.kernels_compiled),
               static_cast<unsigned long long>(stats.kernels_cluster),
               static_cast<unsigned long long>(stats.kernels_disk),
               static_cast<unsigned long long>(stats.kernels_memory));
  if (globals.json) {
    const nlohmann::json line = {{"accuracy", accuracy},
                                 {"loss", out.loss},
                                 {"step_p50_seconds", 1e-3 * out.step_ms_p50},
                                 {"first_step_seconds", 1e-3 * out.first_step_ms},
                                 {"sent_per_step_bytes", out.overhead_bytes},
                                 {"batch_per_step_bytes", out.batch_bytes},
                                 {"graphs_after_first_step", out.graphs_after_first},
                                 {"sent_bytes", client.traffic().total()},
                                 {"kernels_compiled", stats.kernels_compiled},
                                 {"kernels_disk", stats.kernels_disk},
                                 {"kernels_cluster", stats.kernels_cluster},
                                 {"kernels_shared", stats.kernels_shared},
                                 {"kernels_memory", stats.kernels_memory},
                                 {"kernels_tuned", stats.kernels_tuned},
                                 {"train_seconds", out.train_s},
                                 {"test_seconds", test_s},
                                 {"steps", flags.steps}};
    globals.data = line;
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrainMnist(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command =
      app.add_subcommand("train-mnist", "train a perceptron on MNIST-like data and test it");
  command->add_option("--data", flags->data, "folder of the four IDX files, gzipped or not")
      ->required();
  command->add_option("--steps", flags->steps, "steps of training")
      ->capture_default_str()
      ->check(NumberIn(1, 100'000'000));
  command->add_option("--batch", flags->batch, "examples of a step")
      ->capture_default_str()
      ->check(NumberIn(1, 1 << 20));
  command->add_option("--hidden", flags->hidden, "units of the hidden layer")
      ->capture_default_str()
      ->check(NumberIn(1, 1 << 20));
  command->add_option("--optimizer", flags->optimizer, "how the weights are changed")
      ->capture_default_str()
      ->check(OneOf({"sgd", "adam"}));
  command
      ->add_option("--lr", flags->lr,
                   "learning rate; default 0.001 for adam, 0.05 for sgd (with momentum 0.9)")
      ->check(NumberIn(1e-12, 1e6, false));
  command->add_option("--seed", flags->seed, "seed of the weights and of the order of examples")
      ->capture_default_str()
      ->check(NumberIn(0, 1e18));
  command->add_option("--device", flags->device,
                      "device to train on; default: the daemon's default device");
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = TrainMnist(globals, *flags); });
}

}  // namespace uopd::cli
