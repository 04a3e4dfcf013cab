// SPDX-License-Identifier: MIT
// Every convolution of ResNet-50 gets a tile for each block on GPUs, with both operands in shared
// memory: rows of 56, 28, 14 and 7 pixels, one image and many, f32 and rounded to bf16.
#include <algorithm>
#include <set>

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/ir/graph.h"
#include "core/schedule/kept/kept.h"
#include "core/schedule/prepare/round_products.h"
#include "gtest/gtest.h"
#include "tests/support/chip_kernels.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"

namespace uopd::client {
namespace {

using codegen::Opt;
using codegen::OptKind;

struct Variant {
  int64_t batch;
  bool rounded;  // factors of products are bf16
  bool kept;     // weights lie in the order in which products read them (core/schedule/kept)
};

// The graph after its weights have been packed.
absl::StatusOr<ir::UOp> KeptGraph(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  const schedule::Options& options) {
  const ir::UOp graph = schedule::RoundProducts(ctx, ir::Toposort(ctx, sink), options);
  std::set<int64_t> stored;
  std::vector<bool> stable;
  for (ir::UOp u : ir::Toposort(ctx, graph)) {
    if (u.Is(ir::Op::STORE)) stored.insert(ir::MaybeBaseOf(u.src(0)).slot());
    if (u.Is(ir::Op::PARAM))
      stable.resize(std::max(stable.size(), static_cast<size_t>(u.slot()) + 1), true);
  }
  for (int64_t slot : stored) stable[static_cast<size_t>(slot)] = false;
  // Slots are numbered as the graph uses them: the images are the first one that is read.
  *std::ranges::find(stable, true) = false;
  UOPD_ASSIGN(const auto split, schedule::SplitKept(ctx, graph, stable, target, {}));
  if (!split) return absl::InternalError("the graph keeps nothing");
  return split->main;
}

absl::StatusOr<schedule::Schedule> ResNet50For(const Target& target, const Variant& v) {
  Client client(std::make_shared<OfflineExecutor>());
  test::ResNet model(client, test::ResNet::Shape50());
  const std::vector<Tensor> logits = {model.Forward(client.Empty({v.batch, 3, 224, 224}), false)};
  UOPD_ASSIGN(const Exported graph, Export(logits));
  schedule::Options options = test::ScheduleOptionsFor(target);
  if (v.rounded) options.allowed_products = {DtypeNumber::BF16};
  test::ChangeGraph pack;
  if (v.kept) {
    pack = [&](ir::UOpContext& ctx, ir::UOp sink) { return KeptGraph(ctx, sink, target, options); };
  }
  return test::ScheduleOf(graph.graph, options, pack);
}

bool VariesAlongOutputs(const ir::UOpContext& ctx, ir::UOp factor) {
  return std::ranges::any_of(ir::Toposort(ctx, factor), [](ir::UOp u) {
    return u.Is(ir::Op::RANGE) && u.axis_type() == ir::AxisType::LOOP;
  });
}

// Whether the kernel sums products for a row of pixels or more. The head sums what is a sum itself,
// or multiplies one row.
bool IsConvolution(const ir::UOpContext& ctx, ir::UOp kernel) {
  size_t outputs = 0, products = 0, sums = 0;
  for (ir::UOp r : codegen::Axes(ctx, kernel)) outputs += r.axis_type() == ir::AxisType::LOOP;
  for (ir::UOp u : ir::Toposort(ctx, kernel)) {
    if (!u.Is(ir::Op::REDUCE)) continue;
    ++sums;
    const ir::UOp product = u.src(0);
    products += u.reduce_op() == ir::Op::ADD && product.Is(ir::Op::MUL) &&
                VariesAlongOutputs(ctx, product.src(0)) && VariesAlongOutputs(ctx, product.src(1));
  }
  return sums == 1 && products == 1 && outputs > 1;
}

// The convolutions without a tile, with their opts. `found` counts those with one.
std::string WithoutTiles(const char* arch, const Variant& v, int& found) {
  const Target target = *GpuTarget(arch);
  const auto schedule = ResNet50For(target, v);
  if (!schedule.ok()) return StatusText(schedule.status());
  std::string out;
  const auto look = [&](ir::UOpContext& ctx, ir::UOp kernel, const schedule::Item&) {
    if (!IsConvolution(ctx, kernel)) return absl::OkStatus();
    const auto opts = codegen::HeuristicOpts(ctx, codegen::PrepareStages(ctx, kernel), target);
    const auto count = [&](OptKind kind) { return std::ranges::count(opts, kind, &Opt::kind); };
    // An instruction that reads shared memory packs its operands itself.
    const bool staged = count(OptKind::kPack) == 2 ||
                        (count(OptKind::kTensorCore) == 1 && count(OptKind::kPack) == 0);
    const bool multiplies = !v.rounded || count(OptKind::kTensorCore) == 1;
    ++found;
    std::string text;
    for (const Opt& o : opts) Append(text, " ", Text(o));
    std::string sizes;
    for (ir::UOp r : codegen::Axes(ctx, kernel)) Append(sizes, " ", r.src(0).const_int());
    if (getenv("SHOW")) fprintf(stderr, "%s :%s\n", sizes.c_str(), text.c_str());
    if (!staged || !multiplies || count(OptKind::kBlock) < 1) Append(out, sizes, ":", text, "\n");
    return absl::OkStatus();
  };
  const absl::Status looked = test::ForEachKernel(*schedule, look);
  return looked.ok() ? out : StatusText(looked);
}

TEST(ConvolutionTilesTest, OfResNet50) {
  for (const char* arch : {"sm_90", "sm_90a", "gfx942"}) {
    for (const int64_t batch : {1, 64}) {
      for (const bool rounded : {false, true}) {
        for (const bool kept : {false, true}) {
          int found = 0;
          EXPECT_EQ(WithoutTiles(arch, {batch, rounded, kept}, found), "")
              << arch << ", " << batch << " images" << (rounded ? ", bf16" : "")
              << (kept ? ", kept" : "");
          EXPECT_GE(found, 53) << arch << ", " << batch << " images" << (rounded ? ", bf16" : "")
                               << (kept ? ", kept" : "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace uopd::client
