// SPDX-License-Identifier: MIT
// Every op, through a real daemon, compared with the tensor interpreter: all dtypes, odd shapes,
// special values. Outputs start poisoned, so elements that a kernel does not write become visible.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "tests/support/daemon.h"
#include "tests/support/graph_generator.h"
#include "tests/support/tensor_interpreter.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd {
namespace {

using ir::Dims;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::HostArray;

class OpsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto daemon = test::Daemon::Start({UOPD_BINARY, "", {}});
    ASSERT_TRUE(daemon.ok()) << StatusText(daemon.status());
    daemon_ = std::move(*daemon);
    stub_ = v1::UopdService::NewStub(
        grpc::CreateChannel(daemon_->address(), grpc::InsecureChannelCredentials()));
  }
  static void TearDownTestSuite() {
    stub_.reset();
    daemon_.reset();
  }

  // All slots go in with their contents (poison for outputs) and come back.
  static absl::StatusOr<std::vector<HostArray>> RunOnDaemon(
      ir::UOpContext& ctx, UOp sink, std::vector<HostArray> slots,
      const std::vector<int64_t>& variables = {}) {
    v1::RunRequest request;
    request.mutable_variables()->Add(variables.begin(), variables.end());
    request.set_graph(ir::Encode(ctx, sink));
    std::vector<bool> used(slots.size());
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (u.Is(Op::PARAM)) used[static_cast<size_t>(u.slot())] = true;
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      v1::Argument* argument = request.add_arguments();
      if (!used[i]) continue;  // a graph may skip slots; data for them is refused
      argument->set_data(slots[i].ToBytes());
      argument->set_return_data(true);
    }
    v1::RunResponse response;
    grpc::ClientContext call;
    const grpc::Status s = stub_->Run(&call, request, &response);
    if (!s.ok()) return absl::InternalError(s.error_message());
    compiled_ = response.cache().kernels_compiled();
    int next = 0;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (used[i])
        slots[i] = HostArray::FromBytes(slots[i].dtype, slots[i].dims, response.data(next++));
    }
    return slots;
  }

  static std::unique_ptr<test::Daemon> daemon_;
  static std::unique_ptr<v1::UopdService::Stub> stub_;
  static uint32_t compiled_;  // kernels of the last graph that were not known
};
uint32_t OpsTest::compiled_ = 0;
std::unique_ptr<test::Daemon> OpsTest::daemon_;
std::unique_ptr<v1::UopdService::Stub> OpsTest::stub_;

std::vector<double> SpecialValues(Dtype d) {
  if (d == Dtype::Bool) return {0, 1};
  if (!ir::IsFloat(d)) {
    const ir::IntRange r = ir::RangeOf(d);
    return {0,
            1,
            2,
            3,
            7,
            static_cast<double>(r.min),
            static_cast<double>(r.min) / 2,
            100,
            ir::IsSigned(d) ? -1.0 : 5.0};
  }
  const double inf = std::numeric_limits<double>::infinity();
  return {0.0, -0.0, 1,     -1,    0.5, -2.5, 3.75, inf, -inf, std::nan(""), ir::DecodeFloat(d, 1),
          100, -0.1, 1e300, -1e300};
}

HostArray RandomArray(Dtype d, const Dims& dims, std::mt19937_64& random) {
  HostArray a = HostArray::Zeros(d, dims);
  const std::vector<double> special = SpecialValues(d);
  for (ir::Scalar& v : a.values) {
    const double x = random() % 3 == 0 ? special[random() % special.size()]
                                       : static_cast<double>(random() % 2001) / 100 - 10;
    v = ir::IsFloat(d) ? ir::Scalar::Float(d, x)
                       : ir::Scalar::Int(d, d == Dtype::Bool    ? random() % 2
                                            : random() % 4 == 0 ? static_cast<ir::Int128>(random())
                                                                : static_cast<ir::Int128>(x));
  }
  return a;
}

HostArray Poison(Dtype d, const Dims& dims) {
  HostArray a = HostArray::Zeros(d, dims);
  return HostArray::FromBytes(d, dims,
                              std::string(a.ToBytes().size(), d == Dtype::Bool ? '\1' : '\x5a'));
}

// Distance in representable values; 0 for two NaNs.
double UlpDistance(Dtype d, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : 1e30;
  auto key = [&](double v) {
    const auto bits = static_cast<int64_t>(ir::EncodeFloat(d, std::abs(v)));
    return std::signbit(v) ? -bits : bits;
  };
  return std::abs(static_cast<double>(key(a)) - static_cast<double>(key(b)));
}

struct Expectation {
  UOp value;
  double ulps = 0;  // 0: bit for bit (any NaN equals any NaN)
};

class AllOps {
 public:
  AllOps(ir::UOpContext& ctx, Dtype d, UOp x, UOp y, UOp c) {
    const bool is_float = ir::IsFloat(d), is_bool = d == Dtype::Bool;
    for (int i = 0; i < ir::kOpCount; ++i) {
      const Op op = static_cast<Op>(i);
      if (!ir::kAluOps.Has(op)) continue;
      if (ir::kFloatOnlyOps.Has(op) && !is_float) continue;
      if (ir::kIntOnlyOps.Has(op) && is_float) continue;
      if (op == Op::THREEFRY && d != Dtype::U64) continue;
      constexpr ir::OpSet kNoBool = {Op::SUB,      Op::NEG, Op::CDIV, Op::CMOD,   Op::FLOORDIV,
                                     Op::FLOORMOD, Op::SHL, Op::SHR,  Op::MULACC, Op::POW};
      if (is_bool && kNoBool.Has(op)) continue;
      UOp value;
      if (op == Op::WHERE)
        value = ir::Where(ctx, c, x, y);
      else if (op == Op::MULACC)
        value = ir::Alu(ctx, op, {x, y, x});
      else if (ir::kUnaryOps.Has(op))
        value = ir::Alu(ctx, op, {x});
      else
        value = ir::Alu(ctx, op, {x, y});
      constexpr ir::OpSet kRounded = {Op::EXP2, Op::EXP, Op::LOG2, Op::LOG,
                                      Op::SIN,  Op::COS, Op::POW};
      // MULACC may round once or twice; RECIPROCAL and the rest are IEEE operations.
      cases.push_back({value, is_float && kRounded.Has(op)   ? 4.0
                              : op == Op::MULACC && is_float ? -1.0
                                                             : 0.0});
    }
    for (int i = 2; i < ir::kDtypeCount; ++i) {
      if (static_cast<Dtype>(i) != d) cases.push_back({ir::Cast(ctx, x, static_cast<Dtype>(i))});
    }
    for (Dtype to : {Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U64, Dtype::F8E5M2, Dtype::F16,
                     Dtype::F32, Dtype::F64}) {
      if (!is_bool && to != d && ir::Bits(to) == ir::Bits(d))
        cases.push_back({ir::Bitcast(ctx, x, to)});
    }
  }
  std::vector<Expectation> cases;
};

class EveryDtype : public OpsTest, public ::testing::WithParamInterface<Dtype> {};

TEST_P(EveryDtype, ElementwiseOpsAgree) {
  const Dtype d = GetParam();
  std::mt19937_64 random(static_cast<uint64_t>(d));
  for (const Dims& dims : {Dims{}, Dims{17}, Dims{3, 1, 5}, Dims{131}}) {
    ir::UOpContext ctx;
    const UOp shape = ir::ShapeArg(ctx, dims);
    const UOp x = ir::Param(ctx, 0, d, shape), y = ir::Param(ctx, 1, d, shape),
              c = ir::Param(ctx, 2, Dtype::Bool, shape);
    std::vector<HostArray> slots = {RandomArray(d, dims, random), RandomArray(d, dims, random),
                                    RandomArray(Dtype::Bool, dims, random)};
    const AllOps ops(ctx, d, x, y, c);
    // A few ops per graph: enough for the ops to share values, few enough to read the graph.
    constexpr size_t kPerGraph = 12;
    for (size_t first = 0; first < ops.cases.size(); first += kPerGraph) {
      const size_t last = std::min(first + kPerGraph, ops.cases.size());
      std::vector<HostArray> in = slots;
      std::vector<UOp> stores;
      for (size_t i = first; i < last; ++i) {
        const UOp v = ops.cases[i].value;
        stores.push_back(
            ir::Store(ctx, ir::Param(ctx, static_cast<int64_t>(in.size()), v.dtype(), shape), v));
        in.push_back(Poison(v.dtype(), dims));
      }
      const UOp sink = ir::Sink(ctx, stores);
      ASSERT_TRUE(ir::Verify(ctx, sink, ir::Level::kTensor).ok())
          << StatusText(ir::Verify(ctx, sink, ir::Level::kTensor));
      const auto want = test::TensorInterpreter(ctx).Run(sink, in);
      ASSERT_TRUE(want.ok()) << StatusText(want.status());
      const auto got = RunOnDaemon(ctx, sink, in);
      ASSERT_TRUE(got.ok()) << StatusText(got.status());
      for (size_t i = first; i < last; ++i) {
        const HostArray& w = (*want)[3 + i - first];
        const HostArray& g = (*got)[3 + i - first];
        const UOp v = ops.cases[i].value;
        for (size_t k = 0; k < w.values.size(); ++k) {
          const std::string where =
              Cat(ir::Name(v.op()), "<", ir::Name(v.dtype()), "> of ", ir::Name(d), " at ", k,
                  ": x ", slots[0].ToDoubles()[k], ", y ", slots[1].ToDoubles()[k]);
          if (!ir::IsFloat(v.dtype())) {
            ASSERT_EQ(g.values[k].i, w.values[k].i) << where;
            continue;
          }
          const double distance = UlpDistance(v.dtype(), g.values[k].f, w.values[k].f);
          if (ops.cases[i].ulps == 0) {
            ASSERT_EQ(distance, 0)
                << where << " want " << w.values[k].f << " got " << g.values[k].f;
          } else if (ops.cases[i].ulps > 0) {
            ASSERT_LE(distance, ops.cases[i].ulps)
                << where << " want " << w.values[k].f << " got " << g.values[k].f;
          } else {  // x * y + x, rounded twice, against rounded once
            const double a = slots[0].values[k].f, b = slots[1].values[k].f;
            const double twice = ir::RoundTo(d, ir::RoundTo(d, a * b) + a);
            ASSERT_TRUE(distance == 0 || UlpDistance(d, g.values[k].f, twice) == 0)
                << where << " want " << w.values[k].f << " got " << g.values[k].f;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, EveryDtype,
                         ::testing::Values(Dtype::Bool, Dtype::I8, Dtype::U8, Dtype::I16,
                                           Dtype::U16, Dtype::I32, Dtype::U32, Dtype::I64,
                                           Dtype::U64, Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16,
                                           Dtype::BF16, Dtype::TF32, Dtype::F32, Dtype::F64),
                         [](const auto& info) { return std::string(ir::Name(info.param)); });

// Movement, reduction, broadcasting and assignment on small random graphs with exact values.
TEST_F(OpsTest, RandomGraphsAgree) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    ir::UOpContext ctx;
    const test::GeneratedGraph g =
        test::GenerateGraph(ctx, seed, {.ops = 6 + static_cast<int>(seed) % 25});
    const auto want = test::TensorInterpreter(ctx).Run(g.sink, g.slots);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    const auto got = RunOnDaemon(ctx, g.sink, g.slots);
    ASSERT_TRUE(got.ok()) << "seed " << seed << " " << StatusText(got.status())
                          << ir::Print(ctx, g.sink);
    for (size_t i = 0; i < want->size(); ++i) {
      ASSERT_EQ((*got)[i].ToDoubles(), (*want)[i].ToDoubles())
          << "seed " << seed << " slot " << i << "\n"
          << ir::Print(ctx, g.sink);
    }
  }
}

// Concatenation, numbers in a row, flattening, and a row appended to a cache, of v rows: compiled
// once, against loops.
TEST_F(OpsTest, SymbolicSizesRunForEveryValue) {
  constexpr int64_t kMost = 64, kColumns = 3;
  ir::UOpContext ctx;
  const UOp v = ir::Variable(ctx, "v", 1, kMost), more = ir::Add(ctx, v, ctx.Idx(1)),
            columns = ctx.Idx(kColumns), zero = ctx.Idx(0), one = ctx.Idx(1);
  auto shape = [&](std::initializer_list<UOp> dims) { return ir::ShapeArg(ctx, dims); };
  auto param = [&](int64_t slot, std::initializer_list<UOp> dims, Dtype d = Dtype::F32) {
    return ir::Param(ctx, slot, d, shape(dims));
  };
  const UOp rows = param(0, {v, columns}), last = param(1, {one, columns});
  const UOp whole = shape({more, columns});
  const UOp row = ir::Iota(ctx, Dtype::I32, whole, 0);
  const UOp joined = ir::Where(ctx, ir::Lt(ctx, row, ir::Cast(ctx, v, Dtype::I32)),
                               ir::Pad(ctx, rows, shape({zero, zero}), whole),
                               ir::Pad(ctx, last, shape({v, zero}), whole));
  const UOp flat = ir::Mul(ctx, more, columns);
  const Dims axis = {0};
  const UOp reversed = ir::Flip(ctx, ir::Reshape(ctx, joined, shape({flat})), axis);
  const UOp numbers =
      ir::Add(ctx, ir::Iota(ctx, Dtype::I32, shape({more}), 0), ir::Cast(ctx, v, Dtype::I32));
  const UOp cache = param(4, {ctx.Idx(kMost), columns});
  const UOp before = ir::Sub(ctx, v, one);
  const UOp append =
      ir::Store(ctx, ir::Shrink(ctx, cache, shape({before, zero}), shape({one, columns})), last);
  const UOp filled =
      ir::Shrink(ctx, ir::After(ctx, cache, {append}), shape({zero, zero}), shape({v, columns}));
  const UOp roots[] = {
      ir::Store(ctx, param(2, {more, columns}), joined),
      ir::Store(ctx, param(3, {more}, Dtype::I32), numbers), append,
      ir::Store(ctx, param(5, {one, columns}), ir::ReduceAxes(ctx, Op::ADD, filled, axis)),
      ir::Store(ctx, param(6, {flat}), reversed)};
  const UOp sink = ir::Sink(ctx, roots);
  std::mt19937_64 random(5);
  for (const int64_t n : {7, 1, 2, 33, 64}) {
    SCOPED_TRACE(::testing::Message() << "v = " << n);
    std::vector<HostArray> slots = {RandomArray(Dtype::I8, {kMost, kColumns}, random),
                                    RandomArray(Dtype::I8, {1, kColumns}, random),
                                    Poison(Dtype::F32, {kMost + 1, kColumns}),
                                    Poison(Dtype::I32, {kMost + 1}),
                                    RandomArray(Dtype::I8, {kMost, kColumns}, random),
                                    Poison(Dtype::F32, {1, kColumns}),
                                    Poison(Dtype::F32, {(kMost + 1) * kColumns})};
    for (const size_t i : {0, 1, 4})  // whole numbers, so that sums are exact
      slots[i] = HostArray::Of(Dtype::F32, slots[i].dims, slots[i].ToDoubles());
    const auto got = RunOnDaemon(ctx, sink, slots, {n});
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    EXPECT_EQ(compiled_ > 0, n == 7);
    const auto x = slots[0].ToDoubles(), y = slots[1].ToDoubles(), old = slots[4].ToDoubles(),
               out = (*got)[2].ToDoubles(), counted = (*got)[3].ToDoubles(),
               kept = (*got)[4].ToDoubles(), sums = (*got)[5].ToDoubles(),
               back = (*got)[6].ToDoubles();
    for (int64_t c = 0; c < kColumns; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < kMost; ++r) {
        const auto at = static_cast<size_t>(r * kColumns + c), column = static_cast<size_t>(c);
        const double held = r == n - 1 ? y[column] : old[at];
        ASSERT_EQ(kept[at], held) << r;
        if (r < n) sum += held;
      }
      ASSERT_EQ(sums[static_cast<size_t>(c)], sum);
      for (int64_t r = 0; r <= n; ++r) {
        const auto at = static_cast<size_t>(r * kColumns + c), column = static_cast<size_t>(c);
        const double want = r < n ? x[at] : y[column];
        ASSERT_EQ(out[at], want) << r;
        ASSERT_EQ(back[static_cast<size_t>((n + 1) * kColumns) - 1 - at], want) << r;
      }
    }
    for (int64_t r = 0; r <= n; ++r)
      ASSERT_EQ(counted[static_cast<size_t>(r)], static_cast<double>(r + n));
  }
}

// The values are the bits of a double, rounded to the dtype. They are no part of the graph.
TEST_F(OpsTest, VariablesOfFloatDtype) {
  ir::UOpContext ctx;
  const Dtype dtypes[] = {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F8E5M2};
  const Dims dims = {5};
  std::vector<UOp> roots;
  std::vector<HostArray> slots;
  for (Dtype d : dtypes) {
    const UOp a = ir::FloatVariable(ctx, Cat("a_", ir::Name(d)), d),
              b = ir::FloatVariable(ctx, Cat("b_", ir::Name(d)), d);
    auto slot = [&] {
      slots.push_back(Poison(d, dims));
      return ir::Param(ctx, static_cast<int64_t>(slots.size()) - 1, d, ir::ShapeArg(ctx, dims));
    };
    const UOp out = slot(), x = slot(), alone = slot();
    slots[slots.size() - 2] = HostArray::Of(d, dims, std::array<double, 5>{1, -2, 0.5, 3, -0.25});
    roots.push_back(ir::Store(ctx, out, ir::Mul(ctx, x, b)));
    roots.push_back(ir::Store(ctx, alone, ir::Expand(ctx, a, dims)));
  }
  const UOp sink = ir::Sink(ctx, roots);
  const auto variables = ir::Variables(ctx, sink);
  ASSERT_EQ(variables.size(), 10u);
  const double inf = INFINITY;
  bool first = true;
  for (const auto& [a, b] : {std::pair(0.1, 3.0), {-0.0, inf}, {NAN, -0.1}, {1e300, -1e-310}}) {
    std::vector<int64_t> values;
    for (UOp u : variables) values.push_back(std::bit_cast<int64_t>(u.text()[0] == 'a' ? a : b));
    const auto got = RunOnDaemon(ctx, sink, slots, values);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    EXPECT_EQ(compiled_ > 0, first);
    first = false;
    for (size_t i = 0; i < std::size(dtypes); ++i) {
      const Dtype d = dtypes[i];
      const auto x = slots[3 * i + 1].ToDoubles(), out = (*got)[3 * i].ToDoubles(),
                 alone = (*got)[3 * i + 2].ToDoubles();
      for (size_t k = 0; k < x.size(); ++k) {
        ASSERT_EQ(UlpDistance(d, alone[k], ir::RoundTo(d, a)), 0) << ir::Name(d) << " " << a;
        ASSERT_EQ(UlpDistance(d, out[k], ir::RoundTo(d, x[k] * ir::RoundTo(d, b))), 0)
            << ir::Name(d) << " " << b;
      }
    }
  }
}

TEST_F(OpsTest, ZeroSizesGiveNothingAndIdentities) {
  ir::UOpContext ctx;
  const int64_t empty[] = {0, 4}, row[] = {1, 4};
  const UOp x = ir::Param(ctx, 0, Dtype::F32, ir::ShapeArg(ctx, empty));
  const int64_t axis = 0;
  const UOp sum = ir::ReduceAxes(ctx, Op::ADD, x, std::span(&axis, 1)),
            max = ir::ReduceAxes(ctx, Op::MAX, x, std::span(&axis, 1)),
            kept = ctx.Make(Op::CONTIGUOUS, Dtype::F32, {ir::Add(ctx, x, x)});
  const UOp roots[] = {ir::Store(ctx, ir::Param(ctx, 1, Dtype::F32, ir::ShapeArg(ctx, row)), sum),
                       ir::Store(ctx, ir::Param(ctx, 2, Dtype::F32, ir::ShapeArg(ctx, row)), max),
                       ir::Store(ctx, ir::Param(ctx, 3, Dtype::F32, ir::ShapeArg(ctx, empty)),
                                 ir::Add(ctx, kept, x))};
  const UOp sink = ir::Sink(ctx, roots);
  const std::vector<HostArray> slots = {HostArray::Zeros(Dtype::F32, {0, 4}),
                                        Poison(Dtype::F32, {1, 4}), Poison(Dtype::F32, {1, 4}),
                                        HostArray::Zeros(Dtype::F32, {0, 4})};
  const auto got = RunOnDaemon(ctx, sink, slots);
  ASSERT_TRUE(got.ok()) << StatusText(got.status());
  EXPECT_EQ((*got)[1].ToDoubles(), std::vector<double>(4, 0));
  EXPECT_EQ((*got)[2].ToDoubles(), std::vector<double>(4, -INFINITY));
}

}  // namespace
}  // namespace uopd
