// SPDX-License-Identifier: MIT
// Functions that saturate, and their gradients, at the ends of f32 with fast math: kernels as they
// are compiled, against the functions themselves in double.
#include <cmath>
#include <functional>

#include "core/codegen/codegen.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "tests/support/compiled_kernel.h"
#include "tests/support/schedule_interpreter.h"
#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using test::HostArray;

constexpr double kInf = INFINITY;
const std::vector<double> kAt = {0,   -0.0, 1,   -1,   3.5, -3.5, 20,   -20,   50,   -50,
                                 87,  -87,  89,  -89,  100, -100, 127,  -127,  128,  -128,
                                 150, -150, 300, -300, 999, -999, 1000, -1000, kInf, -kInf};

absl::Status RunFast(ir::UOpContext& ctx, ir::UOp sink, tests::Memory& memory,
                     const test::Variables&) {
  codegen::Options options;
  options.fast_math = true;
  UOPD_ASSIGN(const codegen::LoweredKernel k, codegen::Lower(ctx, sink, {}, options));
  UOPD_ASSIGN(const std::string text, render::RenderC(ctx, k.linear, k.name, k.variables));
  UOPD_ASSIGN(const auto compiled, tests::CompiledText::Compile(tests::CompiledText::kC, text));
  std::vector<void*> buffers;
  for (auto& b : memory) buffers.push_back(b.data());
  for (int64_t t = 0; t < k.launch.grid[0].Evaluate({}); ++t)
    compiled->Find(k.name)(buffers.data(), nullptr, t);
  return absl::OkStatus();
}

// The values of a tensor that is computed from one input, at kAt.
std::vector<double> Compiled(const Tensor& y) {
  const auto graph = Export(std::span(&y, 1));
  EXPECT_TRUE(graph.ok()) << graph.status();
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, graph->graph, ir::Level::kTensor);
  const auto schedule = schedule::MakeSchedule(ctx, *sink, {});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  const auto n = static_cast<int64_t>(kAt.size());
  std::vector<HostArray> slots;
  size_t written = 0;
  for (const schedule::Slot& slot : schedule->slots) {
    if (slot.written) written = slots.size();
    slots.push_back(HostArray::Of(Dtype::F32, {n}, kAt));
  }
  const auto out = test::RunSchedule(*schedule, slots, {}, RunFast);
  EXPECT_TRUE(out.ok()) << out.status();
  return out.ok() ? (*out)[written].ToDoubles() : std::vector<double>(kAt.size());
}

double Sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double SigmoidSlope(double x) { return Sigmoid(x) * Sigmoid(-x); }
double Silu(double x) { return x * Sigmoid(x); }
double SiluSlope(double x) { return Sigmoid(x) + x * SigmoidSlope(x); }
double TanhSlope(double x) { return 4 * SigmoidSlope(2 * x); }
double Inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
double Gelu(double x) { return x * Sigmoid(2 * Inner(x)); }
double GeluSlope(double x) {
  return Sigmoid(2 * Inner(x)) +
         x * SigmoidSlope(2 * Inner(x)) * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> make;
  double (*value)(double);
  double (*slope)(double);
};

const Function kFunctions[] = {
    {"sigmoid", [](const Tensor& x) { return x.Sigmoid(); }, Sigmoid, SigmoidSlope},
    {"tanh", [](const Tensor& x) { return x.Tanh(); }, std::tanh, TanhSlope},
    {"silu", [](const Tensor& x) { return x.Silu(); }, Silu, SiluSlope},
    {"gelu", [](const Tensor& x) { return x.Gelu(); }, Gelu, GeluSlope},
    // As others write a sigmoid.
    {"1 / (1 + exp(-x))", [](const Tensor& x) { return 1.0 / (1.0 + x.Neg().Exp()); }, Sigmoid,
     SigmoidSlope},
    {"reciprocal of 1 + exp(-x)",
     [](const Tensor& x) { return (1.0 + x.Neg().Exp()).Reciprocal(); }, Sigmoid, SigmoidSlope},
    {"e / (1 + e)", [](const Tensor& x) { return x.Exp() / (1.0 + x.Exp()); }, Sigmoid, nullptr},
    {"e * (1 / (1 + e))", [](const Tensor& x) { return x.Exp() * (1.0 + x.Exp()).Reciprocal(); },
     Sigmoid, nullptr},
    {"(1 / (1 + e)) * 3 * e",
     [](const Tensor& x) { return (1.0 + x.Exp()).Reciprocal() * 3.0 * x.Exp(); },
     [](double x) { return 3 * Sigmoid(x); }, nullptr},
    {"e / ((1 + e) * (1 + e))",
     [](const Tensor& x) { return x.Exp() / ((1.0 + x.Exp()) * (1.0 + x.Exp())); }, SigmoidSlope,
     nullptr},
    {"2 / (1 + exp(-2 x)) - 1",
     [](const Tensor& x) { return 2.0 / (1.0 + (x * -2.0).Exp()) - 1.0; }, std::tanh, TanhSlope},
    {"x / (1 + exp(-x))", [](const Tensor& x) { return x / (1.0 + x.Neg().Exp()); }, Silu,
     SiluSlope},
};

void Check(const std::vector<double>& got, double (*want)(double), const std::string& what) {
  for (size_t i = 0; i < kAt.size(); ++i) {
    const double w = want(kAt[i]);
    if (std::isnan(w) || got[i] == w) continue;  // infinity times 0; infinity itself
    EXPECT_NEAR(got[i], w, 2e-6 * std::max(1.0, std::abs(w))) << what << " at " << kAt[i];
  }
}

TEST(ExtremesTest, FastMathHasNoNanWhereTheFunctionHasNone) {
  for (const Function& f : kFunctions) {
    Client client(std::make_shared<OfflineExecutor>());
    Tensor x = client.Empty({static_cast<int64_t>(kAt.size())});
    Check(Compiled(f.make(x)), f.value, f.name);
    if (f.slope == nullptr) continue;
    x.RequireGrad();
    ASSERT_TRUE(f.make(x).Sum().Backward().ok());
    Check(Compiled(x.grad()), f.slope, std::string("slope of ") + f.name);
  }
}

}  // namespace
}  // namespace uopd::client
