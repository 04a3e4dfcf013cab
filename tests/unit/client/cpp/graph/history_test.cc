// SPDX-License-Identifier: MIT
// Reading is no change: values and gradients are those of the same program without reads, what is
// stored is not computed again, and memory stays bounded. UOPD_FUZZ_READS: the number of random
// programs.
#include <random>

#include "tests/support/environment.h"
#include "tests/unit/client/cpp/fixture.h"
#include "uopd/jit.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HistoryTest : public ClientTest {
 protected:
  Tensor Leaf(std::vector<double> values) {
    const auto n = static_cast<int64_t>(values.size());
    Tensor t = In({n}, std::move(values));
    EXPECT_TRUE(t.Realize().ok());
    return t;
  }
  size_t BuffersOnTheDaemon() {
    EXPECT_TRUE((In({1}, {0}) + 1.0).Realize().ok());  // frees what is not needed
    return daemon_->buffers.size();
  }
};

TEST_F(HistoryTest, TheLossIsReadBeforeBackward) {
  const Tensor w = Leaf({2, 1}), loss = (w * 3.0).Sum();
  EXPECT_EQ(*loss.Item<float>(), 9);
  ASSERT_TRUE(loss.Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(3, 3));
  ASSERT_TRUE(loss.Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(6, 6));
}

TEST_F(HistoryTest, AnIntermediateIsReadBeforeOrAfterItIsUsed) {
  for (const bool before : {false, true}) {
    const Tensor x = Leaf({1, 2}), y = x * 2.0;
    Tensor z;
    if (before) {
      EXPECT_THAT(Out(y), ElementsAre(2, 4));
    }
    z = (y * y).Sum();
    if (!before) {
      EXPECT_THAT(Out(y), ElementsAre(2, 4));
    }
    auto gradients = Gradient(z, std::vector{x, y});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_THAT(Out((*gradients)[0]), ElementsAre(8, 16));
    EXPECT_THAT(Out((*gradients)[1]), ElementsAre(4, 8));
  }
}

TEST_F(HistoryTest, TheOrderOfReadsDoesNotMatter) {
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    const Tensor a = In({3}, {1, 2, 3}), b = a * 2.0, c = b * b, loss = c.Sum();
    const Tensor* const values[] = {&a, &b, &c, &loss};
    for (size_t i : order) EXPECT_FALSE(Out(*values[i]).empty());
    auto gradients = Gradient(loss, std::vector{a, b, c});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_THAT(Out((*gradients)[0]), ElementsAre(8, 16, 24));
    EXPECT_THAT(Out((*gradients)[1]), ElementsAre(4, 8, 12));
    EXPECT_THAT(Out((*gradients)[2]), ElementsAre(1, 1, 1));
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(HistoryTest, ConstantsThatAreRead) {
  for (const bool declared : {false, true}) {
    for (const bool loss_first : {false, true}) {
      Tensor x = client_.Full({3}, 3.0);
      if (declared) x.RequireGrad(true);
      const Tensor loss = (x * x).Sum();
      if (loss_first) {
        EXPECT_EQ(*loss.Item<float>(), 27);
      }
      EXPECT_THAT(Out(x), ElementsAre(3, 3, 3));
      auto gradient = Gradient(loss, std::vector{x});
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      EXPECT_THAT(Out((*gradient)[0]), ElementsAre(6, 6, 6));
      x.Assign(x + 1.0);
      EXPECT_THAT(Out(x), ElementsAre(4, 4, 4));
      EXPECT_EQ(*loss.Item<float>(), 27);
    }
  }
  // Equal constants are two tensors, whatever was read.
  const Tensor v = client_.Full({2}, 0.0), w = client_.Full({2}, 0.0);
  ASSERT_TRUE(Realize({v, w}).ok());
  auto gradients = Gradient((v * 2.0 + w * 3.0).Sum(), std::vector{v, w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Out((*gradients)[0]), ElementsAre(2, 2));
  EXPECT_THAT(Out((*gradients)[1]), ElementsAre(3, 3));
}

TEST_F(HistoryTest, WhatIsStoredIsNotComputedAgain) {
  const Tensor x = Leaf({1, 2, 3}), y = x.Sin().Sin().Sin().Sin(), z = y + 1.0;
  const size_t before = Export(std::vector{z})->nodes;
  ASSERT_TRUE(y.Realize().ok());
  EXPECT_LT(Export(std::vector{z})->nodes, before);
  // Gradients read it too: d(y^3) reads y, and computes no sine of a sine.
  const Tensor cube = (y * y * y).Sum();
  auto by_y = Gradient(cube, std::vector{y});
  ASSERT_TRUE(by_y.ok());
  EXPECT_EQ(Export(*by_y)->slots, 2u);
  const Tensor leaf = Leaf({1, 2, 3});
  auto by_leaf = Gradient((leaf * leaf * leaf).Sum(), std::vector{leaf});
  ASSERT_TRUE(by_leaf.ok());
  EXPECT_EQ(Export(*by_y)->nodes, Export(*by_leaf)->nodes);
}

TEST_F(HistoryTest, AStateThatIsReadInEachStep) {
  const Tensor w = Leaf({0.5}).RequireGrad();
  auto run = [&](bool reads) {
    Tensor h = Leaf({1});
    for (int i = 0; i < 5; ++i) {
      h = (h * w + 1.0) * h;
      if (reads) Out(h);
    }
    EXPECT_TRUE(h.Sum().Backward().ok());
    Tensor leaf = w;
    const std::vector<double> out = Out(leaf.grad());
    leaf.ClearGrad();
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(HistoryTest, AnAssignmentHappensInPlaceAndEndsHistories) {
  Tensor w = Leaf({2, 1});
  const Tensor loss = (w * w).Sum();
  EXPECT_EQ(*loss.Item<float>(), 5);
  const size_t buffers = BuffersOnTheDaemon();
  w.Assign(w * 2.0);
  ASSERT_TRUE(w.Realize().ok());
  EXPECT_EQ(BuffersOnTheDaemon(), buffers);
  const absl::Status status = loss.Backward();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another value now"));
  ASSERT_TRUE((w * w).Sum().Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(8, 4));
}

TEST_F(HistoryTest, GradientsFlowThroughAnAssignment) {
  for (const bool reads : {false, true}) {
    const Tensor x = Leaf({1, 2});
    Tensor y = Leaf({0, 0});
    y.Assign(x * 3.0);
    if (reads) {
      EXPECT_THAT(Out(y), ElementsAre(3, 6));
    }
    auto gradients = Gradient((y * y).Sum(), std::vector{x});
    ASSERT_TRUE(gradients.ok());
    EXPECT_THAT(Out((*gradients)[0]), ElementsAre(18, 36)) << reads;
  }
}

TEST_F(HistoryTest, AStepOfAnOptimizerEndsTheHistoryOfTheLoss) {
  Tensor w = Leaf({2, 1}).RequireGrad();
  auto optimizer = Sgd(client_, {w}, {.lr = 0.5});
  size_t buffers = 0;
  for (int i = 0; i < 20; ++i) {
    const Tensor loss = (w * w).Sum();
    EXPECT_TRUE(loss.Item<float>().ok());
    ASSERT_TRUE(loss.Backward().ok());
    ASSERT_TRUE(optimizer->Step().ok());
    EXPECT_TRUE(loss.Item<float>().ok());
    if (i == 3) buffers = BuffersOnTheDaemon();
    if (i > 3) {
      EXPECT_EQ(BuffersOnTheDaemon(), buffers);
    }
  }
}

TEST_F(HistoryTest, NothingIsKeptThatNobodyCanAskFor) {
  Tensor u = Leaf({1, 2, 3});
  size_t buffers = 0;
  for (int i = 0; i < 200; ++i) {
    u = u * 0.5 + 1.0;
    ASSERT_TRUE(u.Realize().ok());
    if (i == 10) buffers = BuffersOnTheDaemon();
    if (i > 10) {
      ASSERT_LE(BuffersOnTheDaemon(), buffers);
    }
  }
  // Labels and positions are no floats: no gradient comes from them.
  const Tensor labels = In({3}, {0, 1, 2}, Dtype::I32);
  for (int i = 0; i < 50; ++i) {
    u = Where(labels > 1, u, u * 0.5);
    ASSERT_TRUE(u.Realize().ok());
    if (i > 10) {
      ASSERT_LE(BuffersOnTheDaemon(), buffers + 1);
    }
  }
}

TEST_F(HistoryTest, MemoryIsBoundedAndWhatWasCutIsAnError) {
  Client client(daemon_, {.history_bytes = 4096});
  const Tensor k = client.FromHost(std::vector<float>(64, 0.5F), {64});
  ASSERT_TRUE(k.Realize().ok());
  std::vector<Tensor> results;
  for (int i = 0; i < 100; ++i) {
    const Tensor x = client.FromHost(std::vector<float>(64, 1.0F * i), {64});
    results.push_back((x * k).Sum());
    ASSERT_TRUE(results.back().Realize().ok());
  }
  // 16 inputs of 256 bytes, the results, k, and what is freed with the next request.
  EXPECT_LE(daemon_->buffers.size(), 16u + 100 + 1 + 2);
  auto newest = Gradient(results.back(), std::vector{k});
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_THAT(Out((*newest)[0]), Each(99));
  const auto oldest = Gradient(results[0] * 2.0, std::vector{k});
  EXPECT_EQ(oldest.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(oldest.status().message()), HasSubstr("history_bytes"));
  // Others do not care: a value whose graph is gone is an input for them.
  const Tensor other = client.FromHost(std::vector<float>{3}, {1});
  auto apart = Gradient((results[0] * other).Sum(), std::vector{other});
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(Out((*apart)[0]), ElementsAre(0));
}

TEST_F(HistoryTest, WhatStateWasComputedFromBeforeARecordingWritesIt) {
  const Tensor x = In({2}, {1, 2});
  Tensor state = x * 2.0;
  ASSERT_TRUE(state.Realize().ok());
  Jit jit(client_, [state](std::span<const Tensor> in) mutable {
    const Tensor y = in[0] * state;
    state.Assign(state + 1.0);
    return std::vector{y};
  });
  for (int i = 0; i < 2; ++i) {
    const auto out = jit({In({2}, {1, 1})});
    ASSERT_TRUE(out.ok()) << out.status();
    const auto gradient = Gradient((*out)[0].Sum(), std::vector{x});
    if (i == 0) continue;  // the first call runs the function
    EXPECT_THAT(StatusText(gradient.status()), HasSubstr("below the loss is gone"));
  }
}

TEST_F(HistoryTest, AReplayEndsHistoriesOfWhatItWrites) {
  const Tensor w = Leaf({2});
  Tensor state = Leaf({0});
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    state.Assign(state + in[0] * w);
    UOPD_TRY(state.Submit());
    return std::vector{(state * w).Sum()};
  });
  for (int i = 1; i <= 5; ++i) {
    auto out = step({Leaf({1})});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(*(*out)[0].Item<float>(), 4 * i);
    const Tensor after = (state * state).Sum();
    EXPECT_EQ(*after.Item<float>(), 4 * i * i);
    auto gradients = Gradient(after, std::vector{state});
    ASSERT_TRUE(gradients.ok());
    EXPECT_THAT(Out((*gradients)[0]), ElementsAre(4 * i));
  }
}

TEST_F(HistoryTest, AWriteEndsWhatTheOldContentsWereComputedFrom) {
  const Tensor x = In({2}, {1, 2});
  Tensor y = x * 2.0;
  ASSERT_TRUE(y.Realize().ok());
  const Tensor z = y * y;
  ASSERT_TRUE(z.Realize().ok());
  y.Assign(y + 1.0);
  ASSERT_TRUE(y.Realize().ok());
  EXPECT_THAT(StatusText(Gradient(z.Sum(), std::vector{x}).status()),
              HasSubstr("below the loss is gone"));
}

TEST_F(HistoryTest, ALazyFloatThatIsComputedFromIntegers) {
  const Tensor whole = In({2}, {1, 2}).Cast(Dtype::I32);
  ASSERT_TRUE(whole.Realize().ok());
  const Tensor x = whole.Cast(Dtype::F32), y = x * 3.0;
  Out(y);
  for (const bool read : {false, true}) {
    if (read) Out(x);
    const auto gradient = Gradient((y * y).Sum(), std::vector{x});
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    EXPECT_THAT(Out((*gradient)[0]), ElementsAre(18, 36)) << read;
  }
}

TEST_F(HistoryTest, AConstantThatIsAssignedAndRead) {
  Tensor x = In({2}, {1, 2});
  ASSERT_TRUE(x.Realize().ok());
  x.Assign(0.5);
  const Tensor y = x * 3.0;
  Out(x);
  const auto gradient = Gradient(y.Sum(), std::vector{x});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(Out((*gradient)[0]), ElementsAre(3, 3));
}

TEST_F(HistoryTest, AViewOfAllOfAConstantThatIsRead) {
  for (const bool view_first : {false, true}) {
    Tensor x = In({2}, {1, 2});
    ASSERT_TRUE(x.Realize().ok());
    x.Assign(0.5);
    const Tensor all = x.Reshape({2});
    Out(view_first ? all : x);
    const Tensor y = x * 3.0 + all;
    for (const Tensor& by : {x, all}) {
      const auto gradient = Gradient(y.Sum(), std::vector{by});
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      EXPECT_THAT(Out((*gradient)[0]), ElementsAre(4, 4)) << view_first;
    }
  }
}

TEST_F(HistoryTest, AViewOfAllOfWhatIsWrittenInPlace) {
  Tensor x = In({2}, {1, 2});
  ASSERT_TRUE(x.Realize().ok());
  x.Assign(x * 2.0);
  const Tensor all = x.Reshape({2});
  Out(x);
  const auto gradient = Gradient((x * 5.0 + all).Sum(), std::vector{all});
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_THAT(Out((*gradient)[0]), ElementsAre(6, 6));
}

TEST_F(HistoryTest, ATensorThatWasReplicatedOrShardedAndRead) {
  const Tensor x = Leaf({1, 2, 3, 4}), y = x.Shard({"CPU:0", "CPU:1"}, 0) * 2.0;
  EXPECT_THAT(Out(y), ElementsAre(2, 4, 6, 8));
  auto gradients = Gradient((y * y).Sum(), std::vector{x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Out((*gradients)[0].To("CPU:0")), ElementsAre(8, 16, 24, 32));
}

TEST_F(HistoryTest, AGradientThatIsLostIsAnErrorForAliasesAndForSortedValues) {
  const Tensor w = Leaf({2, 1}), x = Leaf({1, 1}), y = w * x;
  EXPECT_THAT(Out(y), ElementsAre(2, 1));
  Tensor target = x;
  target.Assign(x * 2.0);
  EXPECT_THAT(Out(x), ElementsAre(2, 2));
  const Tensor alias = w.Snapshot();  // of a value that y was computed from
  EXPECT_FALSE(Gradient(y.Sum(), std::vector{alias}).ok());
  Tensor state = Leaf({0, 0});
  state.Assign(state + w.Sort().first);
  EXPECT_THAT(Out(state), ElementsAre(1, 2));
  EXPECT_FALSE(Gradient(state.Sum(), std::vector{w}).ok());
}

TEST_F(HistoryTest, MovesToAnotherContext) {
  const Tensor w = Leaf({2, 1}), loss = (w * w * w).Sum();
  EXPECT_TRUE(loss.Item<float>().ok());
  const uint64_t before = client_.stats().compactions;
  for (int i = 0; client_.stats().compactions == before; ++i) {
    ASSERT_LT(i, 100000);
    Tensor t = In({1}, {1});
    for (int k = 0; k < 200; ++k) t = t * (1.0 + i * 200 + k);
    ASSERT_TRUE(t.Realize().ok());
  }
  ASSERT_TRUE(loss.Backward().ok());
  EXPECT_THAT(Out(w.grad()), ElementsAre(12, 3));
}

// Random programs, with and without random reads: equal values and gradients.
TEST_F(HistoryTest, RandomReadsChangeNothing) {
  int compared = 0, refused = 0;
  const auto programs = static_cast<uint32_t>(test::CasesFromEnvironment("UOPD_FUZZ_READS", 300));
  for (uint32_t seed = 0; seed < programs; ++seed) {
    std::vector<std::vector<std::vector<double>>> results;
    for (const bool reads : {false, true}) {
      std::mt19937 random(seed), when(seed + 1000);
      auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
      Client client(daemon_);
      auto leaf = [&] {
        std::vector<float> values;
        for (int i = 0; i < 3; ++i) values.push_back(static_cast<float>(random() % 9) / 4 - 1);
        return client.FromHost(values, {3});
      };
      std::vector<Tensor> all = {leaf(), leaf()};
      all[0].RequireGrad(seed % 3 == 0);
      std::vector<std::vector<double>> result;
      for (int step = 0; step < 14; ++step) {
        const Tensor a = all[below(all.size())], b = all[below(all.size())];
        // Tensors of equal graphs are one node, and have one gradient: no two of these are equal.
        const double own = 1 + step / 64.0;
        switch (below(9)) {
          case 0:
            all.push_back((a + b) * own);
            break;
          case 1:
            all.push_back(a * b * (own * 0.5));
            break;
          case 2:
            all.push_back(a.Sin() * own);
            break;
          case 3:
            all.push_back(Where(a > b, a, b * 2.0) * own);
            break;
          case 4:
            all.push_back((a.Flip({0}) - b) * own);
            break;
          case 5:
            all.push_back(a.Detach() * b * own);
            break;
          case 6: {
            Tensor target = a;
            if (target.requires_grad()) break;
            target.Assign((b * 0.5 + target) * own);
            break;
          }
          case 7:
            all[below(all.size())] = leaf();
            break;
          case 8: {
            auto g = Gradient((a * b).Sum(), std::vector{all[below(all.size())]});
            if (!g.ok()) {
              EXPECT_EQ(g.status().code(), absl::StatusCode::kFailedPrecondition);
            }
            result.push_back(g.ok() ? Out((*g)[0]) : std::vector<double>());
            break;
          }
        }
        if (!reads) continue;
        const size_t at = when() % all.size();
        switch (when() % 4) {
          case 0:
            Out(all[at]);
            break;
          case 1:
            ASSERT_TRUE(all[at].Submit().ok());
            break;
          case 2:
            ASSERT_TRUE(Realize({all[at], all[0], all.back()}).ok());
            break;
          case 3:
            break;
        }
      }
      for (const Tensor& t : all) result.push_back(Out(t));
      results.push_back(result);
    }
    ASSERT_EQ(results[0].size(), results[1].size());
    for (size_t i = 0; i < results[0].size(); ++i) {
      // A read before an assignment in place is the one thing that ends a graph: that is an error,
      // and never another value.
      if (results[1][i].empty() && !results[0][i].empty()) {
        ++refused;
        continue;
      }
      ++compared;
      ASSERT_EQ(results[0][i], results[1][i]) << "seed " << seed << " result " << i;
    }
  }
  EXPECT_GT(compared, 20 * refused);
}

}  // namespace
}  // namespace uopd::client
