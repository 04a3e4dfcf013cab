// SPDX-License-Identifier: MIT
// What travels: graphs, digests, handles, frees; and what stays in the client.
#include <numeric>

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/context.h"
#include "uopd/optim.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class RealizeTest : public ClientTest {
 protected:
  const v1::ExecuteRequest& Last() const { return daemon_->requests.back(); }
};

TEST_F(RealizeTest, SendsTheGraphOnceAndTheDigestAfterwards) {
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(Out((In({2}, {1.0 * i, 2}) + 1.0).Sum()), ElementsAre(i + 4));
  ASSERT_EQ(daemon_->requests.size(), 4u);  // the first try was NOT_FOUND
  EXPECT_TRUE(daemon_->requests[0].graph().empty());
  EXPECT_FALSE(daemon_->requests[1].graph().empty());
  EXPECT_TRUE(daemon_->requests[2].graph().empty());
  EXPECT_EQ(daemon_->requests[2].digest(), daemon_->requests[3].digest());
  EXPECT_EQ(client_.stats().graphs_sent, 1u);
  daemon_->ForgetGraphs();
  EXPECT_THAT(Out((In({2}, {5, 2}) + 1.0).Sum()), ElementsAre(9));
  EXPECT_EQ(client_.stats().graphs_sent, 2u);
}

TEST_F(RealizeTest, EqualWorkOfTwoClientsHasOneDigest) {
  Client other(daemon_, ClientOptions{.seed = 99});
  const Tensor skew = other.Zeros({4});  // other handles, other node ids
  ASSERT_TRUE(skew.Realize().ok());
  auto work = [](Client& c) { return (c.Rand({3}) * 2.0).Sum().Realize(); };
  ASSERT_TRUE(work(client_).ok());
  const std::string first = Last().digest();
  ASSERT_TRUE(work(other).ok());
  EXPECT_EQ(Last().digest(), first);
}

TEST_F(RealizeTest, ClientsOfOneConnectionKeepApart) {
  Client other(daemon_);
  const Tensor a = Ramp({100}), b = other.Full({100}, 7);
  ASSERT_TRUE((a + 1.0).Realize().ok());
  ASSERT_TRUE(b.Realize().ok());
  EXPECT_EQ(Out(a)[1], 1);
  EXPECT_EQ(Out(b)[1], 7);
  std::set<uint64_t> ids;
  for (const auto& r : daemon_->requests) {
    EXPECT_TRUE(ids.insert(r.request_id()).second) << r.request_id();
  }
}

TEST_F(RealizeTest, SeveralTensorsAreOneRequest) {
  const Tensor x = Ramp({3}), a = x + 1.0, b = x * 2.0;
  ASSERT_TRUE(Realize({a, b, a, x}).ok());
  EXPECT_EQ(client_.stats().executes, 1u);
  EXPECT_THAT(Out(a), ElementsAre(1, 2, 3));
  EXPECT_THAT(Out(b), ElementsAre(0, 2, 4));
  EXPECT_TRUE(a.is_realized());
  EXPECT_EQ(client_.stats().executes, 1u);
}

TEST_F(RealizeTest, SmallInputsAreInlineLargeOnesAreUploaded) {
  const Tensor small = Ramp({256 * 1024}), large = Ramp({256 * 1024 + 1});
  ASSERT_TRUE(Realize({small.Max(), large.Max()}).ok());
  EXPECT_EQ(client_.stats().inline_bytes, 1024u * 1024);
  EXPECT_EQ(client_.stats().uploaded_bytes, 1024u * 1024 + 4);
}

TEST_F(RealizeTest, ARequestHasAFourthOfAMessageOfInputs) {
  std::vector<Tensor> sums;
  for (int i = 0; i < 5; ++i) sums.push_back((Ramp({256 * 1024}) + 1.0 * i).Sum());
  ASSERT_TRUE(Realize(sums).ok());
  EXPECT_EQ(client_.stats().inline_bytes, 4096u * 1024);
  EXPECT_EQ(client_.stats().uploaded_bytes, 1024u * 1024);
}

TEST_F(RealizeTest, InputsOfARequestThatFailsAreSentAgain) {
  const Tensor x = Ramp({100});
  const Tensor y = x + 1.0;
  daemon_->fail_with = absl::UnavailableError("away");
  EXPECT_FALSE(y.Realize().ok());
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(Out(y)[99], 100);
  EXPECT_EQ(Out(x)[99], 99);
}

TEST_F(RealizeTest, NewResultsOfSomeKilobytesComeWithTheAnswer) {
  const Tensor x = Ramp({16 * 1024}), y = Ramp({16 * 1024 + 1});
  Tensor w = Ramp({100});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  w.Assign(w + 1.0);
  const Tensor a = x + 1.0, b = y + 1.0;
  ASSERT_TRUE(Realize({a, b, w}).ok());
  EXPECT_EQ(Out(a)[1], 2);
  EXPECT_EQ(client_.stats().downloads, 0u);
  EXPECT_EQ(Out(b)[1], 2);
  EXPECT_EQ(client_.stats().downloads, 1u);
  EXPECT_EQ(Out(w)[1], 2);  // assigned tensors are parameters, which few programs read
  EXPECT_EQ(client_.stats().downloads, 2u);
}

TEST_F(RealizeTest, TheSameGraphAgainMakesNoNodes) {
  const Tensor w = Ramp({64});
  size_t nodes = 0;
  for (int i = 0; i < 8; ++i) {
    const Tensor y = (In({64}, std::vector<double>(64, i)) * w).Sum();
    EXPECT_THAT(Out(y), ElementsAre(2016 * i));
    if (i == 3) nodes = client_.graph_nodes();
  }
  EXPECT_EQ(client_.graph_nodes(), nodes);
}

TEST_F(RealizeTest, TheLastHandleFreesTheBuffer) {
  Tensor x = Ramp({100});
  Tensor y = x + 1.0;
  ASSERT_TRUE(y.Realize().ok());
  EXPECT_EQ(daemon_->buffers.size(), 2u);  // x and y
  x = Tensor();
  Tensor lazy = y * 2.0;
  y = Tensor();
  ASSERT_TRUE(
      (lazy + 1.0).Realize().ok());  // x goes, y is still read by `lazy`, the sum dies at once
  EXPECT_EQ(Out(lazy).size(), 100u);
  lazy = Tensor();
  ASSERT_TRUE(Ramp({1}).Sum().Realize().ok());
  ASSERT_TRUE(Ramp({1}).Sum().Realize().ok());
  // Input and result of the last request, whose handles died after it; they go with the next one.
  EXPECT_EQ(daemon_->buffers.size(), 2u);
}

TEST_F(RealizeTest, InputsThatNobodyKeepsHaveNoHandle) {
  Tensor x = Ramp({3});
  const Tensor y = x + 1.0;
  x = Tensor();
  ASSERT_TRUE(y.Realize().ok());
  int without = 0;
  for (const auto& a : Last().arguments()) without += a.buffer() == 0;
  EXPECT_EQ(without, 1);
}

TEST_F(RealizeTest, AssignOverwritesInPlace) {
  Tensor w = Ramp({200});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  for (int i = 0; i < 3; ++i) {
    w.Assign(w + 1.0);
    ASSERT_TRUE(w.Realize().ok());
  }
  EXPECT_EQ(Out(w)[0], 3);
  EXPECT_EQ(Last().arguments_size(), 1);
  EXPECT_EQ(daemon_->buffers.size(), 1u);
}

TEST_F(RealizeTest, EarlierReadsSeeTheOldValue) {
  Tensor w = Ramp({2}, 1, 1);
  ASSERT_TRUE((w * 1.0).Realize().ok());
  const Tensor before = w * 10.0, alias = w.Reshape({1, 2});
  w.Assign(w + 1.0);
  const Tensor after = w * 10.0;
  ASSERT_TRUE(w.Realize().ok());
  EXPECT_THAT(Out(w), ElementsAre(2, 3));
  EXPECT_THAT(Out(before), ElementsAre(10, 20));
  EXPECT_THAT(Out(after), ElementsAre(20, 30));
  EXPECT_THAT(Out(alias), ElementsAre(1, 2));
}

TEST_F(RealizeTest, OldAndNewValueInOneRequest) {
  Tensor w = Ramp({2}, 1, 1);
  ASSERT_TRUE((w * 1.0).Realize().ok());
  const Tensor before = w * 10.0;
  w.Assign(w + 1.0);
  const Tensor after = w * 10.0;
  ASSERT_TRUE(Realize({after, w, before}).ok());
  EXPECT_THAT(Out(before), ElementsAre(10, 20));
  EXPECT_THAT(Out(after), ElementsAre(20, 30));
  EXPECT_THAT(Out(w), ElementsAre(2, 3));
}

// The loss of a step whose weights are realised first is the loss before the step. It comes with
// the same request, the weights keep their memory, and every step has the same graph.
TEST_F(RealizeTest, ALossThatIsReadAfterTheStepIsComputedWithIt) {
  Tensor w = Ramp({8, 8});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  for (int i = 0; i < 3; ++i) {
    const double before = Out((w * w + 1.0).Sqrt().Sum())[0];
    const uint64_t graphs = client_.stats().graphs_sent, requests = client_.stats().executes;
    const Tensor lengths = (w * w + 1.0).Sqrt();
    const Tensor loss = lengths.Sum();
    w.Assign(w - lengths * 0.001);
    ASSERT_TRUE(w.Realize().ok());
    EXPECT_EQ(client_.stats().executes, requests + 1);
    EXPECT_EQ(client_.stats().graphs_sent, graphs + (i == 0 ? 1 : 0));
    EXPECT_EQ(Out(loss)[0], before);
    EXPECT_EQ(client_.stats().executes, requests + 1) << "the loss was computed again";
    // Not everything that is lazy: what has little in common with the request waits.
    const Tensor other = ((w * 3.0 + i).Exp() - 1.0).Sum();
    w.Assign(w + 1.0);
    ASSERT_TRUE(w.Realize().ok());
    const uint64_t then = client_.stats().executes;
    EXPECT_GT(Out(other)[0], 0);
    EXPECT_EQ(client_.stats().executes, then + 1);
  }
}

TEST_F(RealizeTest, AssignBroadcasts) {
  for (const bool stored : {true, false}) {
    for (const Tensor& value : {In({3}, {1, 2, 3}), In({1, 3}, {1, 2, 3})}) {
      Tensor w = Ramp({2, 3});
      if (stored) {
        ASSERT_TRUE(w.Realize().ok());
      }
      w.Assign(value);
      EXPECT_THAT(Out(w), ElementsAre(1, 2, 3, 1, 2, 3));
    }
    Tensor column = Ramp({2, 3});
    column.Assign(In({2, 1}, {4, 5}));
    EXPECT_THAT(Out(column), ElementsAre(4, 4, 4, 5, 5, 5));
    column.Assign(In({}, {7}));
    EXPECT_THAT(Out(column), ElementsAre(7, 7, 7, 7, 7, 7));
  }
  for (const Dims& wrong : {Dims{2}, Dims{1, 2, 3}, Dims{3, 1}}) {
    Tensor w = Ramp({2, 3});
    w.Assign(Ramp(wrong));
    EXPECT_FALSE(w.status().ok());
  }
}

TEST_F(RealizeTest, KnowsWhatIsAtHand) {
  const Tensor x = In({2}, {1, 2});
  EXPECT_TRUE(x.at_hand());  // nothing was sent yet
  const Tensor y = x + 1.0;
  EXPECT_FALSE(y.at_hand());
  EXPECT_THAT(Out(y), ElementsAre(2, 3));
  EXPECT_TRUE(y.at_hand());  // the answer had it
  const size_t sent = daemon_->requests.size();
  EXPECT_THAT(Out(y), ElementsAre(2, 3));
  EXPECT_EQ(daemon_->requests.size(), sent);
  EXPECT_FALSE(client_.Empty({2}).at_hand());
  EXPECT_FALSE(Tensor().at_hand());
  Tensor w = In({2}, {1, 2});
  ASSERT_TRUE(w.Realize().ok());
  w.Assign(w + 1.0);
  EXPECT_FALSE(w.at_hand());
}

TEST_F(RealizeTest, CountsTheBytesThatTensorsNeed) {
  EXPECT_THAT(client_.BufferBytes(), IsEmpty());
  Tensor x = Ramp({100}), y = x + 1.0;
  EXPECT_THAT(client_.BufferBytes(), IsEmpty()) << "nothing was sent";
  ASSERT_TRUE(y.Realize().ok());
  EXPECT_THAT(client_.BufferBytes(), ElementsAre(Pair("", 800)));
  x = y = Tensor();
  EXPECT_THAT(client_.BufferBytes(), IsEmpty());
}

TEST_F(RealizeTest, SwapByAssign) {
  Tensor a = Ramp({2}), b = Ramp({2}, 1, 5);
  ASSERT_TRUE((a + b).Realize().ok());
  const Tensor old = a + 0.0;
  a.Assign(b);
  b.Assign(old);
  ASSERT_TRUE(Realize({a, b}).ok());
  EXPECT_THAT(Out(a), ElementsAre(5, 6));
  EXPECT_THAT(Out(b), ElementsAre(0, 1));
}

TEST_F(RealizeTest, AssignChecksShapeAndDtype) {
  Tensor w = Ramp({2});
  w.Assign(Ramp({3}));
  EXPECT_THAT(StatusText(w.status()), HasSubstr("Assign"));
  Tensor v = Ramp({2});
  v.Assign(3);
  EXPECT_THAT(Out(v), ElementsAre(3, 3));
}

TEST_F(RealizeTest, AFailedRequestChangesNothing) {
  Tensor w = Ramp({2});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  w.Assign(w + 1.0);
  daemon_->fail_with = absl::UnavailableError("gone");
  EXPECT_EQ(w.Realize().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(w.is_realized());
  daemon_->fail_with = absl::OkStatus();
  EXPECT_THAT(Out(w), ElementsAre(1, 2));
}

TEST_F(RealizeTest, VariablesAreValuesAndNotGraph) {
  for (int64_t v : {3, 4})
    EXPECT_THAT(Out(Ramp({2}) + client_.Variable("n", 0, 10, v)), ElementsAre(v, v + 1));
  EXPECT_EQ(client_.stats().graphs_sent, 1u);
  const Tensor both = client_.Variable("n", 0, 10, 1) * 10 + client_.Variable("n", 0, 10, 2);
  EXPECT_THAT(Out(both + client_.Variable("n", 0, 10, 3) * 100), ElementsAre(312));
  EXPECT_FALSE(client_.Variable("n", 0, 10, 11).status().ok());
}

TEST_F(RealizeTest, FloatVariablesAreValuesAndNotGraph) {
  daemon_->check_schedule = true;
  for (const double rate : {0.1, -2.5, 1e-3}) {
    const Tensor lr = client_.FloatVariable("rate", rate, Dtype::F64);
    EXPECT_THAT(Out(Ramp({3}, 1, 0, Dtype::F64) * lr + lr),
                ElementsAre(rate, rate + rate, 2 * rate + rate));
    const Tensor narrow = client_.FloatVariable("narrow", rate);
    EXPECT_EQ(Out(narrow)[0], static_cast<double>(static_cast<float>(rate)));
  }
  EXPECT_EQ(client_.stats().graphs_sent, 2u);
  EXPECT_THAT(Out(client_.FloatVariable("x", 1) * 10.0 + client_.FloatVariable("x", 2)),
              ElementsAre(12));
  EXPECT_EQ(client_.FloatVariable("x", 1, Dtype::I32).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Ramp({9}).Narrow(0, client_.FloatVariable("y", 1), 1).status().ok());
}

// Integers stay integers.
TEST_F(RealizeTest, PowersOfIntegers) {
  daemon_->check_schedule = true;
  const Tensor x = In({4}, {-3, 2, 0, 7}, Dtype::I32);
  EXPECT_EQ(x.Pow(2).dtype(), Dtype::I32);
  EXPECT_THAT(Out(x.Pow(3)), ElementsAre(-27, 8, 0, 343));
  EXPECT_THAT(Out(x.Pow(0)), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Out(x.Pow(In({4}, {2, -1, -1, 1}, Dtype::I32))), ElementsAre(9, 0, 0, 7));
  EXPECT_EQ(x.Pow(0.5).dtype(), Dtype::F32);
  EXPECT_THAT(StatusText(x.Pow(-1).status()), HasSubstr("integers have no negative powers (-1)"));
  EXPECT_THAT(Out(In({2}, {1, 0}, Dtype::Bool).Pow(2)), ElementsAre(1, 0));
}

TEST_F(RealizeTest, ReadingChecksTheDtype) {
  EXPECT_FALSE(Ramp({2}).ToHost<int32_t>().ok());
  EXPECT_THAT(*In({2}, {1, 0}, Dtype::Bool).ToHost<uint8_t>(), ElementsAre(1, 0));
  EXPECT_FALSE(Ramp({2}).Item<float>().ok());
  EXPECT_EQ(*Ramp({1}).Item<float>(), 0);
  EXPECT_FALSE(client_.FromHost<float>(std::vector<float>(3), {2}).status().ok());
  EXPECT_FALSE(client_.FromHost<float>(std::vector<float>(3), {-3}).status().ok());
}

TEST_F(RealizeTest, GraphMemoryStaysFlat) {
  Tensor w = Ramp({4});
  ASSERT_TRUE((w + 0.0).Realize().ok());
  const Tensor keep =
      (Ramp({4}) * 3.0).Exp();  // lazy the whole time: compaction must carry it over
  size_t most_nodes = 0, most_bytes = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Built and dropped; another number each time, so the nodes are new.
    const Tensor x = In({4}, {1, 2, 3, 1.0 * i});
    const Tensor dropped = ((x * (2.0 + i) + w).Relu() - x.Mean()).Exp().Sum();
    if (i % 200 == 0) {
      w.Assign(w + 1.0);
      ASSERT_TRUE(w.Realize().ok());
    }
    most_nodes = std::max(most_nodes, client_.graph_nodes());
    most_bytes = std::max(most_bytes, client_.graph_bytes());
  }
  EXPECT_GE(client_.stats().compactions, 2u);
  EXPECT_LT(most_nodes, 80'000u);
  EXPECT_LT(most_bytes, 32u << 20);
  EXPECT_EQ(Out(w)[0], 100);
  EXPECT_NEAR(Out(keep)[1], std::exp(3.0), 1e-4);
  EXPECT_EQ(client_.stats().graphs_sent, 3u) << "compaction must not change digests";
}

TEST_F(RealizeTest, RandomNumbersDependOnSeedAndPositionOnly) {
  const auto a = Out(client_.Rand({1000})), b = Out(client_.Rand({1000}));
  EXPECT_NE(a, b);
  EXPECT_EQ(client_.stats().graphs_sent, 1u);
  Client same(daemon_, ClientOptions{.seed = 7});
  EXPECT_EQ(Out(same.Rand({1000})), a);
  double low = 1, high = 0, sum = 0;
  for (double v : a) low = std::min(low, v), high = std::max(high, v), sum += v;
  EXPECT_GE(low, 0);
  EXPECT_LT(high, 1);
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
  // The very bits: counter i, key 7, upper 24 of 64.
  for (uint64_t i : {0, 1, 999})
    EXPECT_EQ(a[i], static_cast<double>(ir::Threefry(i, 7) >> 40) * 0x1p-24);
  const auto n = Out(client_.Randn({2000}));
  double mean = 0, square = 0;
  for (double v : n) mean += v / 2000, square += v * v / 2000;
  EXPECT_NEAR(mean, 0, 0.1);
  EXPECT_NEAR(square, 1, 0.1);
  const auto kept = Out(client_.Ones({1000}).Dropout(0.25));
  EXPECT_NEAR(std::accumulate(kept.begin(), kept.end(), 0.0) / 1000, 1, 0.1);
}

TEST_F(RealizeTest, AContextChangesTheRequestsOfItsScope) {
  const Tensor x = Ramp({3}), late = x * 3.0;
  {
    const Context outer(client_, {.beam = 2, .debug = 1});
    ASSERT_TRUE((x + 1.0).Realize().ok());
    EXPECT_EQ(Last().options().beam(), 2u);
    EXPECT_EQ(Last().options().debug(), 1u);
    {
      const Context inner(client_, {.noopt = true, .debug = 0});
      ASSERT_TRUE((x + 2.0).Realize().ok());
      EXPECT_EQ(Last().options().beam(), 2u);
      EXPECT_TRUE(Last().options().noopt());
      EXPECT_EQ(Last().options().debug(), 0u);
    }
    ASSERT_TRUE((x + 3.0).Realize().ok());
    EXPECT_FALSE(Last().options().noopt());
    EXPECT_EQ(Last().options().debug(), 1u);
  }
  ASSERT_TRUE(late.Realize().ok());
  EXPECT_EQ(Last().options().beam(), 0u);
}

}  // namespace
}  // namespace uopd::client
