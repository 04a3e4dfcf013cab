// SPDX-License-Identifier: MIT
// What runs keep changes no bit of their results: random programs (random_products.h) over weights
// that do not change, some of them returned, each run again and again, until the daemon keeps
// values for it or refuses to. UOPD_FUZZ_KEPT_BITS sets how many programs, UOPD_FUZZ_SEED the first
// one, UOPD_FUZZ_DEVICE the device.
#include "tests/unit/server/engine/kept/random_products.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"

namespace uopd::engine::random_products {
namespace {

struct Decision {
  bool used = false, refused = false;
};

// Runs the author's program until the engine keeps values for it, or refuses to. All runs must give
// the same bits.
void RunAgainAndAgain(Engine& engine, Author& author, const std::string& graph,
                      const CompileOptions& options, Decision& out) {
  const SessionUse session = *engine.sessions().Open(std::chrono::minutes(1), {});
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
      ASSERT_TRUE(engine.buffers().OpenUpload(*session, i + 1, data[i].size(), "").ok());
      ASSERT_TRUE(engine.buffers().Write(*session, i + 1, 0, data[i]).ok());
      argument.return_data = returns_weights;
    } else {
      argument.data = data[i];
    }
  }
  const auto run = [&] {
    const auto result = Execute(engine, session, graph, options, arguments);
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
  // Programs of microseconds are never decided.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
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
  out = {KeptRunsOf("used") > used, KeptRunsOf("refused") > before};
  ASSERT_TRUE(engine.sessions().Close(session->id(), "").ok());
}

TEST(KeptBitsTest, AreThoseOfTheFirstRun) {
  const auto programs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_KEPT_BITS", 20));
  const auto start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  const auto engine = KeepingEngine(test::NamedDevice("CPU"));
  int with_kept = 0, refused = 0;
  for (int seed = start; seed < start + programs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Author author(static_cast<uint64_t>(seed));
    const std::string graph = author.Write();
    const CompileOptions options = author.Options();
    Decision decision;
    ASSERT_NO_FATAL_FAILURE(RunAgainAndAgain(*engine, author, graph, options, decision));
    with_kept += decision.used ? 1 : 0;
    refused += decision.refused ? 1 : 0;
  }
  std::printf("%d of %d programs used kept values, %d were refused\n", with_kept, programs,
              refused);
  if (programs >= 12) {
    EXPECT_GT(with_kept, programs / 8);
  }
}

// What image models are made of. Their convolutions have padding, and they end in a mean.
TEST(KeptBitsTest, AResidualBlockUsesKeptValues) {
  const auto engine = KeepingEngine(test::NamedDevice("CPU"));
  for (int seed = 0;; ++seed) {
    ASSERT_LT(seed, 8);
    Author author(static_cast<uint64_t>(seed));
    const std::string graph = author.WriteBlock();
    Decision decision;
    ASSERT_NO_FATAL_FAILURE(RunAgainAndAgain(*engine, author, graph, {}, decision));
#if defined(__x86_64__)
    // For 16 registers of 256 bits, codegen adds up the product with folded weights in another
    // order. Such a program must keep nothing.
    if (decision.refused && !__builtin_cpu_supports("avx512f"))
      GTEST_SKIP() << "a processor without AVX-512 keeps nothing of this program";
#endif
    EXPECT_FALSE(decision.refused);
    if (decision.used) break;  // else the author returns weights
  }
}

// A divided program has the rules of precision of its own device. The default device multiplies
// tf32 and the CPU does not: rounded for the default device, the program would give other bits and
// be refused.
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
  ASSERT_TRUE(engine->buffers().OpenUpload(*session, 7, w.size(), "CPU:0").ok());
  ASSERT_TRUE(engine->buffers().Write(*session, 7, 0, w).ok());
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
}  // namespace uopd::engine::random_products
