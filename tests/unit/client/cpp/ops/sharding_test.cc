// SPDX-License-Identifier: MIT
// Tensors in pieces on several devices: where they are, what moves, what training makes of them.
// Every graph is also scheduled and run kernel by kernel.
#include <cstring>
#include <limits>

#include "core/ir/verify/spec.h"
#include "tests/unit/client/cpp/fixture.h"
#include "uopd/movement.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const std::vector<std::string> kTwo = {"CPU:0", "CPU:1"};
const std::vector<std::string> kThree = {"CPU:0", "CPU:1", "CPU:2"};

class Sharding : public ClientTest {
 protected:
  Sharding() { daemon_->check_schedule = true; }

  // Copies between devices of the graph that Realize would send.
  static int Copies(std::vector<Tensor> tensors) {
    const auto exported = Export(tensors);
    EXPECT_TRUE(exported.ok()) << exported.status();
    if (!exported.ok()) return -1;
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, exported->graph, ir::Level::kTensor);
    EXPECT_TRUE(sink.ok()) << sink.status();
    const auto s = schedule::MakeSchedule(ctx, *sink, {});
    EXPECT_TRUE(s.ok()) << s.status();
    int copies = 0;
    for (const schedule::Item& item : s->items) copies += item.kind == schedule::Item::kCopy;
    return copies;
  }

  std::vector<uint64_t> Handles() const {
    std::vector<uint64_t> out;
    for (const auto& [handle, bytes] : daemon_->buffers) out.push_back(handle);
    return out;
  }
};

TEST_F(Sharding, PiecesStayWhereTheyAre) {
  Tensor x = Ramp({5, 3});
  x = x.Shard(kTwo, 0);
  EXPECT_THAT(x.devices(), ElementsAreArray(kTwo));
  EXPECT_EQ(x.shard_axis(), 0);
  EXPECT_THAT(x.shard_sizes(), ElementsAre(3, 2));
  ASSERT_TRUE(x.Realize().ok());
  EXPECT_TRUE(x.is_realized());
  ASSERT_EQ(daemon_->buffers.size(), 2u);
  EXPECT_EQ(daemon_->buffers.begin()->second.size(), 36u);
  EXPECT_EQ(daemon_->buffers.rbegin()->second.size(), 24u);
  EXPECT_EQ(Copies({x * 2.0 + x}), 0);
  const Tensor y = (x * 2.0 + x).Relu();
  EXPECT_THAT(y.devices(), ElementsAreArray(kTwo));
  std::vector<double> want;
  for (int i = 0; i < 15; ++i) want.push_back(3 * i);
  EXPECT_THAT(Out(y), ElementsAreArray(want));
  EXPECT_TRUE(y.is_realized());
}

TEST_F(Sharding, GatheringKeepsEveryBit) {
  std::vector<float> values(4 * 7);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -0.0f : float(i);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  values[11] = -std::numeric_limits<float>::infinity();
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  for (int64_t axis : {0, 1}) {
    const Tensor x = client_.FromHost(values, {4, 7}).Shard(kThree, axis);
    const auto lazy = x.To("CPU:1").ToBytes();
    ASSERT_TRUE(lazy.ok()) << lazy.status();
    EXPECT_EQ(*lazy, bytes);
    ASSERT_TRUE(x.Realize().ok());
    const auto pieces = x.ToBytes();
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    EXPECT_EQ(*pieces, bytes);
    const Tensor there = x.To("CPU:1");
    EXPECT_EQ(there.device(), "CPU:1");
    EXPECT_EQ(*there.ToBytes(), bytes);
    const Tensor again = x.Shard(kTwo, 1 - axis, {}).Replicate(kThree);
    EXPECT_EQ(*again.ToBytes(), bytes);
  }
}

TEST_F(Sharding, GivenSizesAndOtherPieces) {
  const Tensor x = Ramp({9}).Shard(kThree, 0, {1, 6, 2});
  const Tensor y = Ramp({9}, 10).Shard(kTwo, -1);
  ASSERT_TRUE(Realize({x, y}).ok());
  std::vector<double> want;
  for (int i = 0; i < 9; ++i) want.push_back(11 * i);
  EXPECT_THAT(Out(x + y), ElementsAreArray(want));
  EXPECT_THAT((x + y).shard_sizes(), ElementsAre(1, 6, 2));
  EXPECT_THAT(Out(x.Sum()), ElementsAre(36));
  EXPECT_THAT(Out(x.Slice({{2, 8, 3}})), ElementsAre(2, 5));
  EXPECT_THAT(Out(x.Flip({0}).Pad({1}, {1})), ElementsAre(0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0));
}

TEST_F(Sharding, AssignOverwritesEveryPiece) {
  Tensor x = Ramp({7}).Shard(kThree, 0);
  ASSERT_TRUE(x.Realize().ok());
  const auto handles = Handles();
  x.Assign(x * 2.0);
  EXPECT_EQ(Copies({x}), 0);
  EXPECT_THAT(Out(x), ElementsAre(0, 2, 4, 6, 8, 10, 12));
  EXPECT_THAT(Handles(), ElementsAreArray(handles));
  // Across the border of two pieces.
  x.AssignNarrow(0, 2, In({3}, {-1, -2, -3}));
  EXPECT_THAT(Out(x), ElementsAre(0, 2, -1, -2, -3, 10, 12));
  EXPECT_THAT(Handles(), ElementsAreArray(handles));
  // At a place that only the daemon knows.
  x.AssignNarrow(0, client_.Variable("at", 0, 5, 3), In({2}, {7, 8}));
  EXPECT_THAT(Out(x), ElementsAre(0, 2, -1, 7, 8, 10, 12));
  Tensor r = Ramp({4}).Replicate(kTwo);
  ASSERT_TRUE(r.Realize().ok());
  r.AssignNarrow(0, client_.Variable("at", 0, 3, 1), In({1}, {9}));
  const Tensor both = r + 1.0;
  EXPECT_THAT(Out(r), ElementsAre(0, 9, 2, 3));
  EXPECT_THAT(Out(both), ElementsAre(1, 10, 3, 4));
}

TEST_F(Sharding, ProductsOfShardedMatrices) {
  const Tensor a = Ramp({4, 6}, 0.25), b = Ramp({6, 5}, -0.5, 3);
  const std::vector<double> want = Out(a.MatMul(b));
  struct {
    int64_t a_axis, b_axis;                                           // -1: replicated
    int64_t axis;                                                     // of the result
  } const cases[] = {{0, -1, 0}, {-1, 1, 1}, {1, 0, -1}, {0, 1, 1}};  // the larger one stays
  for (const auto& c : cases) {
    const Tensor x = c.a_axis < 0 ? a.Replicate(kThree) : a.Shard(kThree, c.a_axis);
    const Tensor y = c.b_axis < 0 ? b.Replicate(kThree) : b.Shard(kThree, c.b_axis);
    ASSERT_TRUE(Realize({x, y}).ok());
    const Tensor z = x.MatMul(y);
    EXPECT_EQ(z.shard_axis(), c.axis);
    const std::vector<double> got = Out(z);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
    const bool local = c.a_axis + c.b_axis == -1 || c.a_axis + c.b_axis == 0;
    if (local && c.axis >= 0) {
      EXPECT_EQ(Copies({x.MatMul(y) + 1.0}), 0);
    }
  }
}

TEST_F(Sharding, GradientsGoBackToThePieces) {
  Tensor x = Ramp({5, 2}, 0.5, -1), w = Ramp({2, 3}, 0.25, -0.5);
  auto loss_of = [](const Tensor& a, const Tensor& b) {
    return (a.MatMul(b).Tanh() * a.Sum({1}, true)).Sum();
  };
  const auto want = Gradient(loss_of(x, w), std::vector<Tensor>{x, w});
  ASSERT_TRUE(want.ok()) << want.status();
  const std::vector<double> wx = Out((*want)[0]), ww = Out((*want)[1]);
  // Of realised pieces, and through Shard and Replicate.
  for (bool realised : {true, false}) {
    Tensor xs = x.Shard(kThree, 0), wr = w.Replicate(kThree);
    if (realised) {
      ASSERT_TRUE(Realize({xs, wr}).ok());
    }
    const auto got = Gradient(loss_of(xs, wr),
                              realised ? std::vector<Tensor>{xs, wr} : std::vector<Tensor>{x, w});
    ASSERT_TRUE(got.ok()) << got.status();
    const std::vector<double> gx = Out((*got)[0]), gw = Out((*got)[1]);
    if (realised) {
      EXPECT_EQ((*got)[0].shard_axis(), 0);
    }
    for (size_t i = 0; i < wx.size(); ++i) EXPECT_NEAR(gx[i], wx[i], 1e-5) << i;
    for (size_t i = 0; i < ww.size(); ++i) EXPECT_NEAR(gw[i], ww[i], 1e-5) << i;
  }
}

// Losses of a perceptron trained on 10 batches of 7 rows, on the devices or, without any, on one.
std::vector<double> Losses(Client& client, const std::vector<std::string>& devices, bool adam) {
  auto values = [](int64_t n, double scale) {
    std::vector<float> out;
    for (int64_t i = 0; i < n; ++i)
      out.push_back(static_cast<float>(scale * std::sin(1.7 * static_cast<double>(i) + 0.3)));
    return out;
  };
  std::vector<Tensor> weights = {
      client.FromHost(values(48, 0.4), {6, 8}), client.FromHost(values(8, 0.1), {8}),
      client.FromHost(values(32, 0.4), {8, 4}), client.FromHost(values(4, 0.1), {4})};
  for (Tensor& w : weights) {
    if (!devices.empty()) w = w.Replicate(devices);
    w.RequireGrad();
    EXPECT_TRUE(w.Realize().ok());
  }
  auto optimizer = adam ? Adam(client, weights, {.lr = 0.05})
                        : Sgd(client, weights, {.lr = 0.2, .momentum = 0.9});
  EXPECT_TRUE(Realize(optimizer->state()).ok());
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    Tensor x = client.FromHost(values(42, 1 + 0.1 * step), {7, 6});
    Tensor labels = client.FromHost(std::vector<int32_t>{0, 1, 2, 3, 2, 1, step % 4}, {7});
    if (!devices.empty()) x = x.Shard(devices, 0), labels = labels.Shard(devices, 0);
    const Tensor hidden = (x.MatMul(weights[0]) + weights[1]).Relu();
    const Tensor loss = (hidden.MatMul(weights[2]) + weights[3]).CrossEntropy(labels);
    EXPECT_TRUE(loss.Backward().ok());
    const absl::Status stepped = optimizer->Step({loss});
    EXPECT_TRUE(stepped.ok()) << stepped;
    losses.push_back(loss.Item<float>().value_or(-1));
  }
  for (const Tensor& w : weights)
    EXPECT_THAT(w.devices(),
                ElementsAreArray(devices.empty() ? std::vector<std::string>{""} : devices));
  return losses;
}

TEST_F(Sharding, DataParallelTrainingHasTheSameLosses) {
  for (bool adam : {false, true}) {
    const std::vector<double> want = Losses(client_, {}, adam);
    EXPECT_LT(want.back(), want.front() * 0.7);
    for (const auto& devices : {kTwo, kThree}) {
      const uint64_t sent = client_.stats().graphs_sent;
      const std::vector<double> got = Losses(client_, devices, adam);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]) << "step " << i;
      // Every step has the graph of the first.
      EXPECT_LE(client_.stats().graphs_sent - sent, 8u);
    }
  }
}

TEST_F(Sharding, ShortNamesAreNames) {
  const Tensor x = Ramp({4});
  EXPECT_EQ(x.To("cpu").device(), "CPU:0");
  EXPECT_EQ(x.To("cpu:1").device(), "CPU:1");
  EXPECT_THAT(x.Shard({"CPU", "cpu:1"}, 0).devices(), ElementsAreArray(kTwo));
  EXPECT_THAT(x.Replicate({"CPU", "CPU:1"}).devices(), ElementsAreArray(kTwo));
  EXPECT_THAT(Out(x.To("CPU") + x.To("CPU:0")), ElementsAre(0, 2, 4, 6));
  Client other(daemon_, ClientOptions{.device = "cpu:1"});
  EXPECT_EQ(other.Zeros({2}).device(), "CPU:1");
  daemon_->default_name = "CPU:0";
  // It is there: nothing is copied.
  const Tensor there[] = {x.To("CPU") + 1}, here[] = {x + 1};
  EXPECT_EQ(Export(there)->digest, Export(here)->digest);
}

TEST_F(Sharding, WhatIsLikeATensorIsInItsPieces) {
  for (const Tensor& x :
       {Ramp({5, 2}).Shard(kTwo, 0), Ramp({5, 2}).Replicate(kTwo), Ramp({5, 2}).Shard(kTwo, 1)}) {
    const Tensor y = fn::FullLike(x, 3, Dtype::I32);
    EXPECT_THAT(y.devices(), ElementsAreArray(kTwo));
    EXPECT_EQ(y.shard_axis(), x.shard_axis());
    EXPECT_EQ(y.shard_sizes(), x.shard_sizes());
    EXPECT_THAT(Out(y), ElementsAreArray(std::vector<double>(10, 3)));
  }
}

TEST_F(Sharding, GradientsComeBack) {
  daemon_->default_name = "CPU:0";
  for (const int way : {0, 1, 2, 3}) {
    Tensor x = Ramp({4}, 1, 1);
    ASSERT_TRUE(x.Realize().ok());
    const Tensor there = way == 0   ? x.To("CPU:1")
                         : way == 1 ? x.Replicate(kTwo)
                         : way == 2 ? x.Shard(kTwo, 0)
                                    : (client_.Ones({4}) * x).To("CPU:1");
    ASSERT_TRUE((there * there).Sum().Backward().ok());
    const Tensor grad = x.grad();
    EXPECT_THAT(Out(grad), ElementsAre(2, 4, 6, 8));
    EXPECT_THAT(grad.devices().size(), 1u);
    x.Assign(x - grad);  // in one place
    EXPECT_THAT(Out(x), ElementsAre(-1, -2, -3, -4));
  }
}

TEST_F(Sharding, MistakesAreExplained) {
  const Tensor x = Ramp({3, 4});
  EXPECT_THAT(StatusText(x.Shard(kTwo, 2).status()), HasSubstr("Shard: axis 2 of shape (3, 4)"));
  EXPECT_THAT(StatusText(x.Shard(kTwo, 1, {1, 2}).status()),
              HasSubstr("sizes (1, 2) on 2 devices for axis 1 of shape (3, 4)"));
  EXPECT_THAT(StatusText(x.Shard(kTwo, 1, {4, 0}).status()), HasSubstr("sizes (4, 0)"));
  EXPECT_THAT(StatusText(x.Shard(kTwo, 1, {4}).status()), HasSubstr("sizes (4) on 2 devices"));
  EXPECT_THAT(StatusText(x.Shard({"CPU:0", "CPU:1", "CPU:2", "CPU:3"}, 0).status()),
              HasSubstr("no piece for each of 4 devices"));
  EXPECT_THAT(StatusText(x.Shard({}, 0).status()), HasSubstr("no devices"));
  EXPECT_THAT(StatusText(x.Replicate({"CPU:0", ""}).status()), HasSubstr("is empty"));
  const Tensor mixed = x.To("CPU:1") + x.To("CPU:2");
  EXPECT_THAT(StatusText(mixed.Realize()), HasSubstr("mixes values on CPU:1 and CPU:2"));
}

}  // namespace
}  // namespace uopd::client
