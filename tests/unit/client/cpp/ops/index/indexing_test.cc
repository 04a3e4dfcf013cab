// SPDX-License-Identifier: MIT
// Parts of tensors by numbers, variables and index tensors, and assignment to parts.
#include <cmath>

#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/functional.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class IndexingTest : public OperationTest {
 protected:
  Tensor At(int64_t position) { return client_.Variable("at", 0, 5, position); }
};

TEST_F(IndexingTest, GradientsFlowThroughAssignedParts) {
  auto input = [](const Dims& dims, int salt) {
    return std::pair(dims, Scattered(static_cast<size_t>(ir::Product(dims)), salt));
  };
  for (const bool stored : {true, false}) {  // memory that is written in place, and a value
    CheckGradient({input({3, 4}, 1), input({1, 4}, 2)}, [&](const std::vector<Tensor>& in) {
      Tensor x = stored ? In({3, 4}, Scattered(12, 3), Dtype::F64) : in[0] * in[0];
      x.AssignNarrow(0, client_.Variable("row", 0, 2, 1), in[1] * in[1]);
      return x * in[0];
    });
  }
}

TEST_F(IndexingTest, NarrowsByNumbers) {
  const Tensor x = Ramp({3, 4});
  EXPECT_THAT(Out(x.Narrow(1, 1, 2)), ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(Out(x.Narrow(-2, 2, 1)), ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(Out(x.Narrow(0, 3, 0)), IsEmpty());
  EXPECT_EQ(Out(x.Narrow(0, 0, 3)), Out(x));
  EXPECT_FALSE(x.Narrow(0, 2, 2).status().ok());
  EXPECT_FALSE(x.Narrow(0, -1, 2).status().ok());
  EXPECT_FALSE(x.Narrow(2, 0, 1).status().ok());
  EXPECT_THAT(StatusText(x.Narrow(0, 2, 2).status()), HasSubstr("indexing_test.cc"));
}

TEST_F(IndexingTest, NarrowsByAVariable) {
  const Tensor x = Ramp({6, 2});
  for (int64_t i : {0, 3, 5}) {
    const double d = static_cast<double>(2 * i);
    EXPECT_THAT(Out(x.Narrow(0, At(i), 1)), ElementsAre(d, d + 1));
    EXPECT_THAT(Out(x.Narrow(0, 5 - At(i), 1)), ElementsAre(10 - d, 11 - d));
    // A length that depends on it: of a reduction, of a product, of a mean.
    const Tensor part = x.Narrow(0, 0, At(i) + 1);
    EXPECT_TRUE(part.is_symbolic());
    EXPECT_EQ(part.dims(), (Dims{6, 2}));
    const double n = static_cast<double>(i + 1);
    EXPECT_THAT(Out(part.Sum({0})), ElementsAre(n * (n - 1), n * n));
    EXPECT_THAT(Out(part.Mean({0})), Pointwise(DoubleNear(1e-6), {n - 1, n}));
    EXPECT_THAT(Out(part.Max()), ElementsAre(d + 1));
    EXPECT_THAT(Out(part.Var({0}, false, 0)),
                Pointwise(DoubleNear(1e-4), {(n * n - 1) / 3, (n * n - 1) / 3}));
    double squares = 0;
    for (int64_t k = 0; k <= i; ++k) squares += static_cast<double>(4 * k * k);
    const Tensor row = part.Transpose().Select(0, 0);
    EXPECT_THAT(Out(row.Unsqueeze(0).MatMul(row.Unsqueeze(-1))), ElementsAre(squares));
    EXPECT_THAT(Out((part.Softmax(0) * part).Sum({0})).size(), 2u);
    EXPECT_THAT(Out(part.Softmax(0).Sum({0})), Pointwise(DoubleNear(1e-6), {1.0, 1.0}));
  }
}

// Concatenated and padded where a size is a variable: the same graph for every value.
TEST_F(IndexingTest, SymbolicPartsAreJoinedAndPadded) {
  daemon_->check_schedule = true;
  const Tensor x = Ramp({6, 2}, 1, 1), y = In({1, 2}, {-1, -2});
  ASSERT_TRUE(Realize({x, y}).ok());
  const uint64_t before = client_.stats().graphs_sent;
  for (int64_t i : {0, 3, 5}) {
    const Tensor part = x.Narrow(0, 0, At(i));  // i rows
    const Tensor joined = Concat(std::array{part, y, part}, 0);
    EXPECT_EQ(joined.dims(), (Dims{11, 2}));
    const double n = static_cast<double>(i), sum = n * (2 * n + 1);  // of 1, 2, ..., 2 n
    // Weighed by row, so that it matters where each is.
    const Tensor rows = (x * 0 + 1).Narrow(0, 0, At(i)), one = y * 0 + 1;
    const Tensor place = Concat(std::array{rows, one * 10, rows * 100}, 0);
    EXPECT_THAT(Out((joined * place).Sum()), ElementsAre(101 * sum - 30));
    EXPECT_THAT(Out(joined.Narrow(0, At(i), 1)), ElementsAre(-1, -2));
    EXPECT_THAT(Out(part.Pad({1, 0}, {2, 1}, 3).Sum()), ElementsAre(sum + 3 * 9 + 3 * n));
    EXPECT_THAT(Out(part.Pad({1, 0}, {2, 0}, 3).Narrow(0, 0, 1)), ElementsAre(3, 3));
  }
  EXPECT_EQ(client_.stats().graphs_sent, before + 4);
}

TEST_F(IndexingTest, VariablesDoNotChangeTheGraph) {
  const Tensor x = Ramp({6, 2});
  ASSERT_TRUE(x.Realize().ok());
  auto digest = [&](int64_t i) {
    const Tensor y = x.Narrow(0, 0, At(i) + 1).Sum({0});
    const auto out = Export(std::span(&y, 1));
    EXPECT_TRUE(out.ok()) << out.status();
    return out.ok() ? out->digest : std::string();
  };
  EXPECT_EQ(digest(1), digest(4));
}

TEST_F(IndexingTest, SymbolicShapesAreRefusedWhereTheyMakeNoSense) {
  const Tensor x = Ramp({6, 2}), part = x.Narrow(0, 0, At(2) + 1);
  EXPECT_FALSE(part.Reshape({2, 6}).status().ok());
  EXPECT_FALSE((part + x).status().ok());
  EXPECT_FALSE(x.Narrow(0, 0, At(5) + 2).status().ok());  // leaves the tensor
  EXPECT_FALSE(x.Narrow(0, 0, At(2).Cast(Dtype::F32)).status().ok());
  EXPECT_FALSE(x.Narrow(0, 0, x.Sum()).status().ok());
  Tensor y = Ramp({6, 2});
  y.Assign(part);
  EXPECT_FALSE(y.status().ok());
}

TEST_F(IndexingTest, AttentionOverWhatHasBeenSeen) {
  const auto q = Scattered(4 * 2, 1), k = Scattered(6 * 2 * 2, 2), v = Scattered(6 * 2 * 2, 3);
  for (int64_t i : {0, 4}) {
    const auto n = i + 1;
    std::vector<double> want;
    for (int64_t h = 0; h < 4; ++h) {
      std::vector<double> p;
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < 2; ++d)
          dot +=
              q[static_cast<size_t>(h * 2 + d)] * k[static_cast<size_t>((j * 2 + h / 2) * 2 + d)];
        p.push_back(std::exp(dot / std::sqrt(2.0))), sum += p.back();
      }
      for (int64_t d = 0; d < 2; ++d) {
        double y = 0;
        for (int64_t j = 0; j < n; ++j)
          y += p[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((j * 2 + h / 2) * 2 + d)];
        want.push_back(y);
      }
    }
    auto seen = [&](const std::vector<double>& values) {
      return In({6, 2, 2}, values, Dtype::F64).Narrow(0, 0, At(i) + 1).Transpose(0, 1);
    };
    const Tensor y = fn::Attention(In({4, 1, 2}, q, Dtype::F64), seen(k), seen(v));
    EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-12), want));
  }
}

TEST_F(IndexingTest, AssignsToAPart) {
  Tensor x = Ramp({4, 2});
  ASSERT_TRUE(x.Realize().ok());
  const size_t buffers = daemon_->buffers.size();
  const Tensor before = x + 0.0;
  x.AssignNarrow(0, client_.Variable("row", 0, 3, 2), In({1, 2}, {-1, -2}));
  const Tensor after = x * 10.0;
  EXPECT_THAT(Out(after), ElementsAre(0, 10, 20, 30, -10, -20, 60, 70));
  EXPECT_THAT(Out(before), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Out(x), ElementsAre(0, 1, 2, 3, -1, -2, 6, 7));
  // Along another axis, twice, before anything is computed.
  x.AssignNarrow(1, 0, In({4, 1}, {9, 9, 9, 9}));
  x.AssignNarrow(0, 3, In({1, 2}, {5, 5}));
  EXPECT_THAT(Out(x), ElementsAre(9, 1, 9, 3, 9, -2, 5, 5));
  x.AssignNarrow(0, 0, Ramp({4, 2}));
  EXPECT_THAT(Out(x), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  x.AssignNarrow(0, 1, Ramp({0, 2}));
  EXPECT_THAT(Out(x), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_GE(daemon_->buffers.size(), buffers);
}

// The request of a step stores the part alone, and what reads the cache sees it.
TEST_F(IndexingTest, PartsAreWrittenInPlace) {
  Tensor cache = client_.Zeros({4, 2});
  ASSERT_TRUE(cache.Realize().ok());
  const size_t handles = daemon_->buffers.size();
  for (int64_t i = 0; i < 4; ++i) {
    const Tensor at = client_.Variable("at", 0, 3, i);
    cache.AssignNarrow(0, at, client_.Full({1, 2}, static_cast<double>(i + 1)));
    const Tensor sum = cache.Narrow(0, 0, at + 1).Sum();
    ASSERT_TRUE(Realize({sum, cache}).ok());
    EXPECT_THAT(Out(sum), ElementsAre(static_cast<double>((i + 1) * (i + 2))));
    ir::UOpContext ctx;
    if (daemon_->requests.back().graph().empty()) continue;
    const auto sink = ir::Decode(ctx, daemon_->requests.back().graph(), ir::Level::kTensor);
    ASSERT_TRUE(sink.ok());
    size_t parts = 0;
    for (ir::UOp s : sink->srcs()) parts += s.src(0).Is(ir::Op::SHRINK);
    EXPECT_EQ(parts, 1u);
  }
  EXPECT_THAT(Out(cache), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_LE(daemon_->buffers.size(), handles + 1);  // the last sum
}

TEST_F(IndexingTest, PartsThatOthersStillNeedAreNotOverwritten) {
  Tensor x = Ramp({3});
  ASSERT_TRUE(x.Realize().ok());
  const Tensor old = x * 1.0;  // reads the buffer, and lives on
  x.AssignNarrow(0, 1, In({1}, {50}));
  EXPECT_THAT(Out(x), ElementsAre(0, 50, 2));
  EXPECT_THAT(Out(old), ElementsAre(0, 1, 2));
  // A reader of the new value computed without the tensor itself: nothing is stored.
  x.AssignNarrow(0, 0, In({1}, {7}));
  const Tensor sum = x.Sum();
  EXPECT_THAT(Out(sum), ElementsAre(59));
  EXPECT_THAT(Out(x), ElementsAre(7, 50, 2));
}

TEST_F(IndexingTest, PartsThatDoNotFit) {
  auto error = [&](auto f) {
    Tensor x = Ramp({3, 2});
    f(x);
    return StatusText(x.status());
  };
  EXPECT_THAT(error([&](Tensor& x) { x.AssignNarrow(0, 2, Ramp({2, 2})); }),
              HasSubstr("Narrow: SHRINK"));
  EXPECT_THAT(error([&](Tensor& x) { x.AssignNarrow(0, 0, Ramp({1, 3})); }),
              HasSubstr("AssignNarrow: a value of shape (1, 3)"));
  EXPECT_THAT(error([&](Tensor& x) { x.AssignNarrow(0, 0, Ramp({2})); }),
              HasSubstr("indexing_test.cc"));
  EXPECT_THAT(error([&](Tensor& x) { x.AssignNarrow(0, 0, In({1, 2}, {1, 2}, Dtype::I32)); }),
              HasSubstr("dtype"));
  EXPECT_THAT(error([&](Tensor& x) { x.AssignNarrow(0, 0, Tensor()); }), HasSubstr("empty"));
}

TEST_F(IndexingTest, SplitsAndChunks) {
  const Tensor x = Ramp({2, 5});
  const auto parts = x.Split(1, {1, 0, 4});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(Out(parts[0]), ElementsAre(0, 5));
  EXPECT_THAT(Out(parts[1]), IsEmpty());
  EXPECT_THAT(Out(parts[2]), ElementsAre(1, 2, 3, 4, 6, 7, 8, 9));
  const auto chunks = x.Chunk(-1, 3);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[2].dims(), (Dims{2, 1}));
  EXPECT_EQ(x.Chunk(0, 5).size(), 2u);
  EXPECT_EQ(Ramp({0, 2}).Chunk(0, 3).size(), 1u);
  EXPECT_FALSE(x.Split(1, {2, 2})[0].status().ok());
  EXPECT_FALSE(x.Split(1, {-1, 6})[0].status().ok());
  EXPECT_FALSE(x.Chunk(0, 0)[0].status().ok());
  // Only the split axis needs a fixed length.
  const Tensor part = Ramp({6, 4}).Narrow(0, 0, At(1) + 1);
  EXPECT_THAT(Out(part.Chunk(1, 2)[1].Sum({0})), ElementsAre(8, 10));
  EXPECT_FALSE(part.Split(0, {6})[0].status().ok());
}

TEST_F(IndexingTest, Repeats) {
  EXPECT_THAT(Out(Ramp({2}).Repeat({3})), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(Out(Ramp({2, 1}).Repeat({2, 1, 2})), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(Out(Ramp({2}).Repeat({0})), IsEmpty());
  EXPECT_FALSE(Ramp({2, 2}).Repeat({2}).status().ok());
  EXPECT_FALSE(Ramp({2}).Repeat({-1}).status().ok());
  CheckGradient({Input({2, 3})},
                [](const std::vector<Tensor>& t) { return t[0].Repeat({2, 1, 2}); });
}

TEST_F(IndexingTest, Triangles) {
  const Tensor x = Ramp({3, 4}, 1, 1);
  for (int64_t d = -4; d <= 5; ++d) {
    std::vector<double> lower, upper;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        const auto v = static_cast<double>(i * 4 + j + 1);
        lower.push_back(j <= i + d ? v : 0), upper.push_back(j >= i + d ? v : 0);
      }
    EXPECT_EQ(Out(x.Tril(d)), lower) << d;
    EXPECT_EQ(Out(x.Triu(d)), upper) << d;
  }
  EXPECT_THAT(Out(In({2, 2}, {1, NAN, 1, 1}).Tril()), ElementsAre(1, 0, 1, 1));
  EXPECT_FALSE(Ramp({3}).Tril().status().ok());
}

TEST_F(IndexingTest, GathersElements) {
  const auto x = Scattered(3 * 4 * 2, 1);
  const std::vector<double> index = {2, 0, -1, 3, 1, 7};
  for (const int64_t axis : {0, 1, 2}) {
    const Dims from = {3, 4, 2}, dims = {3, 2, 1};
    std::vector<double> want;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        int64_t at[3] = {i, j, 0};
        auto k = static_cast<int64_t>(index[static_cast<size_t>(i * 2 + j)]);
        const int64_t n = from[static_cast<size_t>(axis)];
        if (k < 0) k += n;
        at[axis] = k;
        want.push_back(k < n ? x[static_cast<size_t>((at[0] * 4 + at[1]) * 2 + at[2])] : 0);
      }
    const Tensor y = In(from, x, Dtype::F64).Gather(axis, In(dims, index, Dtype::I32));
    ASSERT_TRUE(y.status().ok()) << y.status();
    EXPECT_EQ(y.dims(), dims);
    EXPECT_EQ(Out(y), want) << axis;
  }
  EXPECT_THAT(Out(In({2}, {INFINITY, 1}).Gather(0, In({1}, {1}, Dtype::U8))), ElementsAre(1));
  EXPECT_FALSE(Ramp({3}).Gather(0, Ramp({1})).status().ok());
  EXPECT_FALSE(Ramp({3, 2}).Gather(0, In({1, 3}, {0, 0, 0}, Dtype::I32)).status().ok());
  CheckGradient({Input({3, 2})}, [&](const std::vector<Tensor>& t) {
    return t[0].Gather(0, In({2, 2}, {0, 2, 0, 1}, Dtype::I32));
  });
}

TEST_F(IndexingTest, WindowsAreViews) {
  EXPECT_THAT(Out(Ramp({5}).Windows({3}, {1}, {1})), ElementsAre(0, 1, 2, 1, 2, 3, 2, 3, 4));
  EXPECT_THAT(Out(Ramp({5}).Windows({2}, {2}, {2})), ElementsAre(0, 2, 2, 4));
  EXPECT_EQ(Ramp({2, 5, 6}).Windows({2, 3}, {1, 2}, {1, 1}).dims(), (Dims{2, 4, 2, 2, 3}));
  EXPECT_EQ(Ramp({2}).Windows({3}, {1}, {1}).dims(), (Dims{0, 3}));
  EXPECT_EQ(Ramp({0}).Windows({1}, {1}, {1}).dims(), (Dims{0, 1}));
  // Every small size against the definition.
  for (int64_t n = 1; n <= 7; ++n) {
    for (int64_t k = 1; k <= 4; ++k) {
      for (int64_t s = 1; s <= 4; ++s) {
        for (int64_t d = 1; d <= 3; ++d) {
          std::vector<double> want;
          for (int64_t o = 0; o * s + (k - 1) * d < n; ++o)
            for (int64_t i = 0; i < k; ++i) want.push_back(static_cast<double>(o * s + i * d));
          EXPECT_EQ(Out(Ramp({n}).Windows({k}, {s}, {d})), want)
              << n << " by " << k << " stride " << s << " dilation " << d;
        }
      }
    }
  }
  EXPECT_FALSE(Ramp({5}).Windows({2, 2}, {1, 1}, {1, 1}).status().ok());
  EXPECT_FALSE(Ramp({5}).Windows({0}, {1}, {1}).status().ok());
}

TEST_F(IndexingTest, EmptyReadsAsZeros) {
  const Tensor x = client_.Empty({3});
  EXPECT_TRUE(x.is_realized());
  EXPECT_EQ(daemon_->requests.size(), 0u);
  EXPECT_THAT(Out(x + 1.0), ElementsAre(1, 1, 1));
  EXPECT_THAT(Out(client_.Empty({2}, Dtype::I32)), ElementsAre(0, 0));
  Tensor row = client_.Empty({3});
  row.AssignNarrow(0, 1, In({1}, {4}));
  EXPECT_THAT(Out(row), ElementsAre(0, 4, 0));
  EXPECT_EQ(client_.Empty({0, 2}).dims(), (Dims{0, 2}));
  EXPECT_FALSE(client_.Empty({-1}).status().ok());
}

TEST_F(IndexingTest, ExportsWithoutADaemon) {
  Client offline(std::make_shared<OfflineExecutor>());
  const Tensor x = offline.Empty({1 << 20, 1 << 10});  // 4 GiB that are never there
  Tensor y = offline.Empty({1 << 10});
  y.Assign(y + x.Sum({0}));
  for (int i = 0; i < 2; ++i) {  // nothing is changed by it
    const auto graph = Export(std::span(&y, 1));
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->slots, 2u);
    EXPECT_EQ(graph->digest, std::string(HashBytes(graph->graph).view()));
  }
  EXPECT_EQ(y.Realize().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Export({}).ok());
  EXPECT_FALSE(Export(std::span(&x, 1)).ok());
}

// Each operation on integer scalars asks whether its operands are sizes.
TEST_F(IndexingTest, LongComputationsOfSizesCostLittle) {
  Tensor n = client_.Variable("n", 1, 3, 2), deep = n, wide = n;
  for (int i = 0; i < 40; ++i) wide = wide + wide;  // 2^40 paths to n
  for (int i = 0; i < 20'000; ++i) deep = deep + 1;
  EXPECT_TRUE(deep.status().ok()) << deep.status();
  const Tensor few = client_.Zeros({4}).Narrow(0, 0, n + n - n);
  EXPECT_TRUE(few.status().ok()) << few.status();
  EXPECT_THAT(StatusText(client_.Zeros({4}).Narrow(0, 0, deep).status()),
              HasSubstr("a size is computed by more than 256 operations"));
}

}  // namespace
}  // namespace uopd::client
