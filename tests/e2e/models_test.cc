// SPDX-License-Identifier: MIT
// Small models on a real daemon against the in-process evaluator of the client's tests: symbolic
// positions, stores into parts of buffers, buffers that were never written.
#include <gtest/gtest.h>

#include "tests/e2e/daemon_process.h"
#include "tests/e2e/graphs.h"
#include "tests/support/models/models.h"
#include "tests/unit/client/cpp/interpreter_executor.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using client::Tensor;

// Scores of every step of a small decoder.
absl::StatusOr<std::vector<float>> Decode(client::Client& client) {
  test::LlamaShape s;
  s.layers = 2, s.dim = 16, s.heads = 4, s.kv_heads = 2, s.ffn = 24, s.vocab = 11, s.context = 5;
  test::Llama model(client, s);
  std::vector<Tensor> given = model.parameters();
  for (const Tensor& t : model.tables()) given.push_back(t);
  for (size_t i = 0; i < given.size(); ++i)
    given[i].Assign(client.FromHost(Scattered(given[i].size(), i), given[i].dims()));
  std::vector<float> out;
  for (int32_t position = 0; position < s.context; ++position) {
    const Tensor token = client.FromHost(std::vector<int32_t>{(7 * position + 3) % 11}, {1});
    const Tensor logits =
        model.Logits(token, client.Variable("position", 0, s.context - 1, position));
    std::vector<Tensor> step = model.caches();
    step.push_back(logits);
    UOPD_TRY(client::Realize(step));
    UOPD_ASSIGN(const std::vector<float> scores, logits.ToHost<float>());
    out.insert(out.end(), scores.begin(), scores.end());
  }
  return out;
}

absl::StatusOr<std::vector<float>> Classify(client::Client& client) {
  test::ResNet model(client, {{1, 1}, true, 4}, 5);
  std::vector<Tensor> given = model.parameters();
  for (size_t i = 0; i < given.size(); ++i)
    given[i].Assign(client.FromHost(Scattered(given[i].size(), i), given[i].dims()));
  // Running variances that were never written are 0: epsilon alone divides.
  const Tensor x = client.FromHost(Scattered(2 * 3 * 12 * 12, 99), {2, 3, 12, 12}) * 1e-6;
  return model.Forward(x, false).ToHost<float>();
}

TEST(ModelsTest, GiveOnADaemonWhatTheGraphSays) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  auto connection = client::Connection::Connect({.address = daemon.listen()});
  ASSERT_TRUE(connection.ok()) << connection.status();
  client::Client remote(*connection), local(std::make_shared<client::InterpreterExecutor>());
  for (auto run : {Decode, Classify}) {
    const auto got = run(remote), want = run(local);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_EQ(got->size(), want->size());
    float most = 1;
    for (float v : *want) most = std::max(most, std::abs(v));
    for (size_t i = 0; i < got->size(); ++i) EXPECT_NEAR((*got)[i], (*want)[i], 1e-4 * most) << i;
  }
  EXPECT_LE(remote.stats().graphs_sent, 4u);  // the first step writes parameters, the rest is one
}

}  // namespace
}  // namespace uopd::e2e
