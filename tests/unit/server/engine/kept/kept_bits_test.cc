// SPDX-License-Identifier: MIT
// What runs keep changes no bit of their results: random programs over weights that do not change, each
// run again and again, until the daemon keeps values for it or refuses to.
//
// The programs: products of one or two layers; weights of all small floats, floats and integers, through
// chains of casts, computed, padded or plain; permissions of precision; epilogues with reductions; weights
// that are returned; normal, tiny and huge data. UOPD_FUZZ_KEPT_BITS sets how many programs,
// UOPD_FUZZ_SEED the first one.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/escaping.h"
#include "cache/store.h"
#include "core/base/telemetry/metrics.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/engine.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ir::Dtype;
using ir::UOp;
using uopd::test::GraphBuilder;

constexpr Dtype kWeightDtypes[] = {Dtype::F32, Dtype::BF16,   Dtype::F16,    Dtype::F64,
                                   Dtype::I8,  Dtype::F8E4M3, Dtype::F8E5M2, Dtype::U8,
                                   Dtype::I16, Dtype::I32};
constexpr Dtype kChainDtypes[] = {Dtype::U16, Dtype::I32, Dtype::U32, Dtype::BF16,
                                  Dtype::F16, Dtype::F32, Dtype::I64};

struct ProductSlot {
  Dtype dtype;
  ir::Dims dims;
  bool weight = false;
  int exponent = 0;  // floats are around 2^exponent
};

// A random program. Sizes are beyond those of programs that run in microseconds, which keep nothing.
class Author {
 public:
  explicit Author(uint64_t seed) : random_(seed) {}

  std::string Write() {
    int64_t rows = 32 + Pick(100), terms = 100 + Pick(300);
    const Dtype first = Pick(3) == 0 ? kWeightDtypes[Pick(std::size(kWeightDtypes))] : Dtype::F32;
    UOp x = Input({rows, terms}, ir::IsInt(first) ? Dtype::I32 : first, false);
    for (int layers = 1 + Pick(2); layers > 0; --layers) {
      const int64_t columns = 100 + Pick(400);
      UOp w = Weights(terms, columns, x.dtype());
      if (Pick(4) == 0 && ir::IsFloat(x.dtype())) x = Cast(Cast(x, Dtype::BF16), x.dtype());
      x = g_.MatMul(x, w);
      x = Epilogue(x);
      terms = columns;
    }
    g_.Output(x);
    out_ = ProductSlot{x.dtype(), g_.DimsOf(x)};
    slots.push_back(out_);
    return ir::Encode(ctx_, sink_ = g_.Finish());
  }
  std::string Print() { return ir::Print(ctx_, sink_); }

  CompileOptions Options() {
    CompileOptions options;
    options.allow_bf16 = Pick(3) == 0;
    options.allow_f16 = Pick(4) == 0;
    options.fast_math = Pick(8) == 0;
    return options;
  }
  std::string Data(const ProductSlot& slot) {
    std::normal_distribution<double> normal;
    const auto size = static_cast<size_t>(ir::ByteSize(slot.dtype));
    std::string out(static_cast<size_t>(ir::Product(slot.dims)) * size, '\0');
    for (size_t at = 0; at < out.size(); at += size) {
      const uint64_t bits =
          ir::IsFloat(slot.dtype)
              ? ir::EncodeFloat(slot.dtype, std::ldexp(normal(random_), slot.exponent))
              : random_();
      std::memcpy(out.data() + at, &bits, size);
    }
    return out;
  }
  int Pick(uint64_t n) { return static_cast<int>(random_() % n); }

  std::vector<ProductSlot> slots;

 private:
  UOp Cast(UOp x, Dtype dtype) { return x.dtype() == dtype ? x : ir::Cast(ctx_, x, dtype); }
  UOp Input(const ir::Dims& dims, Dtype dtype, bool weight) {
    constexpr int kExponents[] = {0, 0, 0, -131, -60, 30};
    int exponent = kExponents[Pick(std::size(kExponents))];
    if (ir::ByteSize(dtype) == 1 || dtype == Dtype::F16) exponent = exponent < 0 ? -10 : 0;
    slots.push_back({dtype, dims, weight, exponent});
    return g_.Input(dims, dtype);
  }
  UOp Weights(int64_t rows, int64_t columns, Dtype dtype) {
    Dtype stored = kWeightDtypes[Pick(std::size(kWeightDtypes))];
    if (Pick(2) == 0) stored = dtype;
    const bool transposed = Pick(3) == 0, padded = Pick(4) == 0;
    const ir::Dims dims = {rows, padded ? columns - 3 : columns};
    UOp w = Input(transposed ? ir::Dims{dims[1], dims[0]} : dims, stored, true);
    if (Pick(3) == 0) w = ir::Mul(ctx_, w, g_.Const(w, 2));
    if (Pick(3) == 0) w = Cast(w, kChainDtypes[Pick(std::size(kChainDtypes))]);
    if (transposed) w = g_.Transpose(w);
    if (padded) w = g_.Pad(w, {0, 1}, {rows, columns});
    if (Pick(4) == 0) w = Cast(w, kChainDtypes[Pick(std::size(kChainDtypes))]);
    return Cast(w, dtype);
  }
  UOp Epilogue(UOp x) {
    const ir::Dims dims = g_.DimsOf(x);
    if (Pick(3) == 0)
      x = ir::Add(ctx_, x,
                  g_.Reshape(Cast(Input({dims[1]}, Dtype::F32, true), x.dtype()), {1, dims[1]}));
    if (!ir::IsFloat(x.dtype())) return x;
    switch (Pick(5)) {
      case 0:
        return g_.Relu(x);
      case 1:
        return x.dtype() == Dtype::F32 ? g_.Softmax(x) : x;
      case 2:
        return Cast(Cast(x, Dtype::BF16), x.dtype());
      case 3:
        return x.dtype() == Dtype::F32 ? g_.LayerNorm(x) : x;
      default:
        return x;
    }
  }

  std::mt19937_64 random_;
  ir::UOpContext ctx_;
  GraphBuilder g_{ctx_};
  UOp sink_;
  ProductSlot out_;
};

// All bytes that a run returned. The result is the last piece; all its NaNs are one: processors choose the bits of a NaN by
// the order of the operands.
std::string Result(const std::vector<std::string>& data, const std::vector<ProductSlot>& slots) {
  std::string out;
  for (const std::string& piece : data) out += piece;
  const ir::Dtype dtype = slots.back().dtype;
  if (!ir::IsFloat(dtype)) return out;
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  for (size_t at = out.size() - data.back().size(); at < out.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, out.data() + at, size);
    if (std::isnan(ir::DecodeFloat(dtype, bits))) std::memset(out.data() + at, 0xff, size);
  }
  return out;
}

double KeptRunsOf(const char* outcome) {
  return static_cast<double>(metrics::KeptRuns({outcome}).value());
}

double LeftAlone() { return KeptRunsOf("refused") + KeptRunsOf("none"); }

// Fresh memory holds another byte each time, so a value that is not written whole changes a result.
std::unique_ptr<Engine> KeepingEngine(const std::string& device_list) {
  Config config;
  EXPECT_TRUE(config.Set("limits.session_kept_bytes", "64MiB", ConfigSource::kFlag).ok());
  EXPECT_TRUE(config.ResolveDefaults().ok());
  devices::RegistryOptions options = TestDevices();
  options.devices = device_list;
  options.memory_limit_bytes = 512 << 20;
  options.cpu_threads = 2;
  options.memory_pattern = [next = std::make_shared<std::atomic<uint8_t>>(0)] {
    return std::byte{(*next)++};
  };
  return *Engine::Create(config, std::make_unique<CoreCompiler>(),
                         std::make_unique<cache::Store>(64 << 20),
                         *devices::Registry::Create(options), nullptr);
}

absl::StatusOr<ExecuteResult> Execute(Engine& engine, const SessionUse& session,
                                      const std::string& graph, const CompileOptions& options,
                                      std::span<const Argument> arguments) {
  RequestContext request;
  ExecuteCall call;
  call.where = ExecuteCall::Where::kHere;
  call.graph = {"", graph};
  call.options = options;
  call.run.arguments = arguments;
  return Await<absl::StatusOr<ExecuteResult>>(
      [&](auto done) { engine.Execute(request, *session, call, std::move(done)); });
}

TEST(KeptBitsTest, AreThoseOfTheFirstRun) {
  const auto programs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_KEPT_BITS", 20));
  const auto start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  const auto engine = KeepingEngine("CPU");
  int with_kept = 0, refused = 0;
  for (int seed = start; seed < start + programs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Author author(static_cast<uint64_t>(seed));
    const std::string graph = author.Write();
    const CompileOptions options = author.Options();
    const SessionUse session = *engine->sessions().Open(std::chrono::minutes(1), {});
    std::vector<std::string> data;
    std::vector<Argument> arguments;
    const bool returns_weights = author.Pick(4) == 0;
    for (const ProductSlot& slot : author.slots) data.push_back(author.Data(slot));
    for (size_t i = 0; i < author.slots.size(); ++i) {
      Argument& argument = arguments.emplace_back();
      if (i + 1 == author.slots.size()) {
        argument.return_data = true;
      } else if (author.slots[i].weight) {
        argument.buffer = i + 1;
        ASSERT_TRUE(engine->OpenUpload(*session, i + 1, data[i].size(), "").ok());
        ASSERT_TRUE(engine->Write(*session, i + 1, 0, data[i]).ok());
        argument.return_data = returns_weights;
      } else {
        argument.data = data[i];
      }
    }
    const auto run = [&] {
      const auto result = Execute(*engine, session, graph, options, arguments);
      if (!result.ok()) return StatusText(result.status());
      return Result(result->data, author.slots);
    };
    const std::string first = run();
    const double used = KeptRunsOf("used"), before = KeptRunsOf("refused"), alone = LeftAlone();
    int runs = 1;
    // Weights that are returned are not kept, so such a program runs undivided for ever.
    const auto decided = [&] {
      if (returns_weights) return true;
      return KeptRunsOf("used") > used + 2 || LeftAlone() > alone;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (; runs < 12 || (!decided() && std::chrono::steady_clock::now() < limit); ++runs) {
      const std::string again = run();
      if (again == first) continue;
      const auto at = static_cast<size_t>(std::ranges::mismatch(again, first).in1 - again.begin());
      FAIL() << "run " << runs << " byte " << at << " of " << first.size() << ": "
             << absl::BytesToHexString(again.substr(at / 4 * 4, 8)) << ", first "
             << absl::BytesToHexString(first.substr(at / 4 * 4, 8)) << "\n"
             << options.Text() << "\n"
             << author.Print();
    }
    with_kept += KeptRunsOf("used") > used ? 1 : 0;
    refused += KeptRunsOf("refused") > before ? 1 : 0;
    ASSERT_TRUE(engine->sessions().Close(session->id(), "").ok());
  }
  std::printf("%d of %d programs used kept values, %d were refused\n", with_kept, programs,
              refused);
  if (programs >= 12) {
    EXPECT_GT(with_kept, programs / 8);
  }
}

// A divided program has the rules of precision of its own device. The default device multiplies tf32 and the
// CPU does not: rounded for the default device, the program would give other bits and be refused.
TEST(KeptBitsTest, PrecisionIsThatOfTheProgramsDevice) {
  constexpr int64_t kSide = 97;
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  const auto param = [&](int64_t slot) {
    return ir::Param(ctx, slot, Dtype::F32, ir::ShapeArg(ctx, ir::Dims{kSide, kSide}), "CPU:0");
  };
  const UOp store = ir::Store(ctx, param(2), g.MatMul(param(0), param(1)));
  const std::string graph = ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
  // Fourteen bits each, which tf32 rounds to eleven. The sums are exact.
  std::string x(kSide * kSide * 4, '\0'), w = x;
  for (size_t i = 0; i < x.size(); i += 4) {
    const auto a = static_cast<float>(i % 16001) - 8000, b = static_cast<float>(i % 7);
    std::memcpy(&x[i], &a, 4);
    std::memcpy(&w[i], &b, 4);
  }
  const auto engine = KeepingEngine("INTERP:2,CPU");
  const SessionUse session = *engine->sessions().Open(std::chrono::minutes(1), {});
  ASSERT_TRUE(engine->OpenUpload(*session, 7, w.size(), "CPU:0").ok());
  ASSERT_TRUE(engine->Write(*session, 7, 0, w).ok());
  const std::vector<Argument> arguments = {{.data = x}, {.buffer = 7}, {.return_data = true}};
  const double used = KeptRunsOf("used"), alone = LeftAlone();
  std::vector<std::string> first;
  EXPECT_TRUE(uopd::test::Eventually([&] {
    const auto result = Execute(*engine, session, graph, {.allow_tf32 = true}, arguments);
    EXPECT_TRUE(result.ok()) << StatusText(result.status());
    if (!result.ok()) return true;
    if (first.empty()) first = result->data;
    EXPECT_TRUE(result->data == first);
    return KeptRunsOf("used") > used + 2 || LeftAlone() > alone;
  }));
  EXPECT_GT(KeptRunsOf("used"), used) << "it was refused, or nothing was worth keeping";
}

}  // namespace
}  // namespace uopd::engine
