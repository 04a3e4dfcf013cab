// SPDX-License-Identifier: MIT
// Assignments to views, against a model of tensors as lists of numbers. UOPD_FUZZ_VIEWS: the number
// of random programs.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/support/environment.h"
#include "tests/unit/client/cpp/fixture.h"
#include "uopd/indexing.h"
#include "uopd/jit.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;

class ViewTest : public ClientTest {
 protected:
  Tensor Stored(Dims dims) {
    Tensor t = Ramp(std::move(dims));
    EXPECT_TRUE(t.Realize().ok());
    return t;
  }
};

TEST_F(ViewTest, AnAssignmentToAViewChangesTheTensor) {
  for (const bool stored : {false, true}) {
    const Tensor x = stored ? Stored({4}) : Ramp({4}) + 0.0;
    Tensor part = x.Shrink({2}, {4});
    part.Assign(part + 10.0);
    EXPECT_THAT(Out(x), ElementsAre(0, 1, 12, 13));
    EXPECT_THAT(Out(part), ElementsAre(12, 13));
    x.Flip({0}).Slice({{0, 4, 3}}).Assign(-1);
    EXPECT_THAT(Out(x), ElementsAre(-1, 1, 12, -1));
    x.Reshape({2, 2}).Transpose().Select(1, 0).Assign(In({2}, {7, 8}));
    EXPECT_THAT(Out(x), ElementsAre(7, 8, 12, -1));
    x.Narrow(0, client_.Variable("i", 0, 2, 1), 2).Assign(0);
    EXPECT_THAT(Out(x), ElementsAre(7, 0, 0, -1));
  }
}

TEST_F(ViewTest, AnAssignmentToOtherBitsChangesTheTensor) {
  for (const bool stored : {false, true}) {
    const Tensor x = stored ? Stored({4}) : Ramp({4}) + 0.0;
    Tensor bits = x.Bitcast(Dtype::U32), part = x.Shrink({2}, {4}).Bitcast(Dtype::I32);
    bits.Assign(In({4}, {0x40800000, 0x40400000, 0x40000000, 0x3f800000}, Dtype::U32));
    EXPECT_THAT(Out(x), ElementsAre(4, 3, 2, 1));
    part.Reshape({2, 1}).Flip({0}).Assign(In({2, 1}, {0x3f800000, 0x40800000}, Dtype::I32));
    EXPECT_THAT(Out(x), ElementsAre(4, 3, 4, 1));
    bits.Bitcast(Dtype::I32).Shrink({1}, {2}).Assign(0x40000000);
    EXPECT_THAT(Out(x), ElementsAre(4, 2, 4, 1));
    EXPECT_THAT(Out(bits.Shrink({1}, {2})), ElementsAre(0x40000000));
  }
}

TEST_F(ViewTest, EachReadSeesTheValueOfItsMoment) {
  const Tensor x = Stored({4}), before = x + 0.0, view = x.Shrink({0}, {2});
  x.Shrink({0}, {1}).Assign(5);
  const Tensor between = x + 0.0;
  x.Shrink({0}, {3}).Assign(x.Shrink({1}, {4}) *
                            2.0);  // what is assigned overlaps what it is computed from
  EXPECT_THAT(Out(before), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Out(view), ElementsAre(0, 1));
  EXPECT_THAT(Out(between), ElementsAre(5, 1, 2, 3));
  EXPECT_THAT(Out(x), ElementsAre(2, 4, 6, 3));
}

TEST_F(ViewTest, ManyPartsAreWrittenInPlaceInOneRequest) {
  const Tensor x = Stored({6, 4});
  ASSERT_TRUE((x + 0.0).Realize().ok());
  const size_t buffers = daemon_->buffers.size(), requests = daemon_->requests.size();
  for (int64_t i = 0; i < 6; i += 2) {
    Tensor row = x.Select(0, i);
    row.Shrink({1}, {3}).Assign(row.Shrink({2}, {4}) + 100.0);
  }
  ASSERT_TRUE(x.Realize().ok());
  EXPECT_LE(daemon_->requests.size(), requests + 2);  // one, and a first try without the graph
  EXPECT_LE(daemon_->buffers.size(), buffers);
  EXPECT_THAT(Out(x.Select(0, 2)), ElementsAre(8, 110, 111, 11));
  EXPECT_THAT(Out(x.Select(0, 3)), ElementsAre(12, 13, 14, 15));
}

TEST_F(ViewTest, RealisingAViewRealisesWhatWasAssigned) {
  const Tensor x = Stored({4});
  Tensor part = x.Shrink({1}, {3});
  part.Assign(In({2}, {8, 9}));
  ASSERT_TRUE(part.Submit().ok());
  EXPECT_TRUE(x.is_realized());
  EXPECT_THAT(Out(x), ElementsAre(0, 8, 9, 3));
}

TEST_F(ViewTest, GradientsFlowThroughAssignedParts) {
  for (const bool reads : {false, true}) {
    const Tensor w = Stored({2}), x = Stored({4});
    const Tensor before = x * 1.0;
    x.Shrink({1}, {3}).Assign(w * 3.0);
    if (reads) {
      EXPECT_THAT(Out(x), ElementsAre(0, 0, 3, 3));
    }
    auto gradients = Gradient((x * x).Sum() + before.Sum(), std::vector{w});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_THAT(Out((*gradients)[0]), ElementsAre(0, 18));
  }
}

TEST_F(ViewTest, AnOperationThatMovesNothingIsAViewAsWell) {
  const Tensor x = Stored({3});
  x.Reshape({3}).Assign(1);
  EXPECT_THAT(Out(x), ElementsAre(1, 1, 1));
  Tensor same = x.Snapshot();
  same.Assign(2);
  EXPECT_THAT(Out(x), ElementsAre(1, 1, 1));
  EXPECT_FALSE(same.is_view());
  EXPECT_TRUE(x.Flip({0}).is_view());
  Tensor other = x + 1.0;
  const Tensor flipped = other.Flip({0});
  EXPECT_TRUE(flipped.is_view());
  other = x;
  EXPECT_FALSE(flipped.is_view());  // what it was a view of is gone
}

TEST_F(ViewTest, AWrongValueChangesNothing) {
  const Tensor x = Stored({3});
  Tensor part = x.Shrink({0}, {2});
  EXPECT_EQ(part.TryAssign(Ramp({3})).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Out(x), ElementsAre(0, 1, 2));
  EXPECT_THAT(Out(part), ElementsAre(0, 1));
}

TEST_F(ViewTest, ACacheUnderAJit) {
  Tensor cache = Stored({2, 4});
  Jit step(client_, [&](std::span<const Tensor> in) -> absl::StatusOr<std::vector<Tensor>> {
    const Tensor at = client_.Variable("at", 0, 3, 0);
    cache.Narrow(1, at, 1).Assign(
        in[0].Reshape({2, 1}));  // assigned, neither submitted nor returned
    return std::vector{cache.Narrow(1, 0, at + 1).Sum()};
  });
  std::vector<double> want = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int64_t i = 0; i < 4; ++i) {
    const double a = 10.0 * static_cast<double>(i), b = a + 1;
    auto out = step({In({2}, {a, b})}, {{"at", i}});
    ASSERT_TRUE(out.ok()) << out.status();
    want[static_cast<size_t>(i < 2 ? 0 : i)] = a;
    want[static_cast<size_t>(4 + (i < 2 ? 0 : i))] = b;
    EXPECT_EQ(Out(cache), want) << i;
  }
}

// Random programs.
class Model {
 public:
  Model(Client& client, uint32_t seed) : client_(client), random_(seed) {}

  void Run(int steps) {
    Input();
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) Step();
    for (size_t i = 0; i < all_.size(); ++i) Check(i);
  }

 private:
  struct Entry {
    Tensor tensor;
    std::vector<double> values;
    // The entries that it is a view of, nearest first, and where its elements are there. They may
    // be gone.
    std::vector<std::pair<std::weak_ptr<Entry>, std::vector<size_t>>> wholes;
  };
  using Ref = std::shared_ptr<Entry>;

  size_t Below(size_t n) { return random_() % n; }
  Ref& Any() { return all_[Below(all_.size())]; }
  void Add(Ref entry) {
    if (all_.size() < 8)
      all_.push_back(std::move(entry));
    else
      Any() = std::move(entry);
  }

  void Input() {
    static constexpr int64_t kRows[] = {1, 2, 3, 6};
    const int64_t rows = kRows[Below(4)], columns = kRows[Below(4)];
    auto e = std::make_shared<Entry>();
    std::vector<float> values;
    for (int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(Below(100)));
    e->tensor = client_.FromHost(values, {rows, columns});
    e->values.assign(values.begin(), values.end());
    Add(e);
  }

  // A view of x: the same movement of the positions of its elements.
  Ref ViewOf(const Ref& x) {
    const Dims d = x->tensor.dims();
    std::vector<double> positions(x->values.size());
    std::iota(positions.begin(), positions.end(), 0);
    Tensor p =
        client_.FromHost(positions.empty() ? std::vector<float>()
                                           : std::vector<float>(positions.begin(), positions.end()),
                         d);
    auto both = [&](auto move) {
      auto out = std::make_shared<Entry>();
      out->tensor = move(x->tensor);
      auto moved = move(p).template ToHost<float>();
      EXPECT_TRUE(moved.ok()) << moved.status();
      std::vector<size_t> at(moved->begin(), moved->end());
      for (size_t i : at) out->values.push_back(x->values[i]);
      out->wholes.emplace_back(x, at);
      for (const auto& [whole, places] : x->wholes) {
        std::vector<size_t> further;
        for (size_t i : at) further.push_back(places[i]);
        out->wholes.emplace_back(whole, further);
      }
      return out;
    };
    switch (Below(7)) {
      case 0:
        return both([&](const Tensor& t) { return t.Permute({1, 0}); });
      case 1:
        return both([&](const Tensor& t) { return t.Flip({0}); });
      case 2:
        return both([&](const Tensor& t) { return t.Reshape({d[1], d[0]}); });
      case 3: {
        Dims begin, end;
        for (int64_t n : d) {
          begin.push_back(static_cast<int64_t>(Below(static_cast<size_t>(n))));
          end.push_back(begin.back() + 1 +
                        static_cast<int64_t>(Below(static_cast<size_t>(n - begin.back()))));
        }
        return both([&](const Tensor& t) { return t.Shrink(begin, end); });
      }
      case 4: {
        const int64_t step = 2 + static_cast<int64_t>(Below(2));
        return both([&](const Tensor& t) { return t.Slice({{{}, {}, 1}, {{}, {}, step}}); });
      }
      case 5: {
        const auto n = static_cast<size_t>(d[1]);
        const auto at = static_cast<int64_t>(Below(n));
        const Tensor v = client_.Variable("v" + std::to_string(d[1]), 0, d[1] - 1, at);
        // Positions are computed with a number: one graph binds a variable once.
        auto out = both([&](const Tensor& t) { return t.Narrow(1, at, 1); });
        if (variables_.emplace(d[1], at).first->second == at)
          out->tensor = x->tensor.Narrow(1, v, 1);
        return out;
      }
      default:
        return both([&](const Tensor& t) { return t.Reshape(d); });
    }
  }

  void Write(const Ref& e, const std::vector<double>& values) {
    e->values = values;
    for (const auto& [weak, places] : e->wholes) {
      const Ref whole = weak.lock();
      if (whole == nullptr) continue;
      for (size_t i = 0; i < places.size(); ++i) whole->values[places[i]] = values[i];
    }
  }

  // A value of the shape of e, made of another tensor where one fits, so that parts overlap.
  std::pair<Tensor, std::vector<double>> ValueFor(const Entry& e) {
    const Ref other = Any();
    if (other->tensor.dims() == e.tensor.dims()) {
      std::vector<double> v = other->values;
      for (double& x : v) x = std::fmod(x * 3 + 1, 1000.0);
      return {(other->tensor * 3.0 + 1.0) % 1000.0, v};
    }
    std::vector<double> v(e.values.size());
    for (double& x : v) x = static_cast<double>(Below(100));
    return {client_.FromHost(std::vector<float>(v.begin(), v.end()), e.tensor.dims()), v};
  }

  void Check(size_t i) {
    auto got = all_[i]->tensor.ToHost<float>();
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(std::vector<double>(got->begin(), got->end()), all_[i]->values);
  }

  void Step() {
    switch (Below(10)) {
      case 0:
        Input();
        break;
      case 1:
      case 2:
        Add(ViewOf(Any()));
        break;
      case 3: {
        const Ref x = Any();
        auto e = std::make_shared<Entry>();
        std::tie(e->tensor, e->values) = ValueFor(*x);
        Add(e);
        break;
      }
      case 4:
      case 5: {
        const Ref x = Any();
        const auto [tensor, values] = ValueFor(*x);
        x->tensor.Assign(tensor);
        Write(x, values);
        break;
      }
      case 6:
      case 7: {  // a view of a view that nothing else holds
        Ref x = Any();
        for (size_t n = 1 + Below(3); n > 0; --n) x = ViewOf(x);
        const auto [tensor, values] = ValueFor(*x);
        x->tensor.Assign(tensor);
        Write(x, values);
        break;
      }
      case 8:
        Check(Below(all_.size()));
        break;
      default: {
        std::vector<Tensor> some = {Any()->tensor, Any()->tensor};
        EXPECT_TRUE(Submit(some).ok());
        break;
      }
    }
  }

  Client& client_;
  std::mt19937 random_;
  std::vector<Ref> all_;
  std::map<int64_t, int64_t> variables_;
};

TEST_F(ViewTest, RandomProgramsAgreeWithTheModel) {
  const auto programs = static_cast<uint32_t>(test::CasesFromEnvironment("UOPD_FUZZ_VIEWS", 200));
  for (uint32_t seed = 0; seed < programs; ++seed) {
    Client client(daemon_);
    Model(client, seed).Run(25);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    daemon_->requests.clear();
  }
}

}  // namespace
}  // namespace uopd::client
