// SPDX-License-Identifier: MIT
#include "core/tools/passes.h"

#include <charconv>
#include <limits>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/schedule/kept/kept.h"
#include "core/schedule/multi/multi_device.h"
#include "core/schedule/prepare/round_products.h"
#include "core/schedule/prepare/softmax_exp.h"
#include "core/schedule/prepare/split_softmax.h"
#include "core/schedule/schedule.h"

namespace uopd::tools {
namespace {

using ir::UOp;
using ir::UOpContext;
using Result = absl::StatusOr<UOp>;

Result Rules(UOpContext& ctx, UOp root, std::string_view value) {
  for (const rewrite::RuleSet* set : rules::AllRuleSets()) {
    if (set->name() == value) return rewrite::Rewrite(ctx, root, *set);
  }
  return Invalid(Cat("rule set (", value, ") is unknown"));
}

Result Verify(UOpContext& ctx, UOp root, std::string_view value) {
  ir::Level level;
  if (value == "tensor")
    level = ir::Level::kTensor;
  else if (value == "kernel")
    level = ir::Level::kKernel;
  else if (value == "linear")
    level = ir::Level::kLinear;
  else
    return Invalid(Cat("level (", value, ") is none of tensor, kernel, linear"));
  UOPD_TRY(ir::Verify(ctx, root, level));
  return root;
}

Result Unbind(UOpContext& ctx, UOp root, std::string_view) {
  UOPD_ASSIGN(const ir::Unbound out, ir::Unbind(ctx, root));
  return out.graph;
}

Result ResolveMulti(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  const schedule::Options defaults;
  schedule::MultiDeviceOptions options = {defaults.default_device, defaults.ring_threshold};
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, options.ring_threshold);
  if (!value.empty() && (read.ptr != end || read.ec != std::errc()))
    return Invalid(Cat("ring threshold (", value, ") is no number"));
  return schedule::ResolveMulti(ctx, ir::Toposort(ctx, root), options);
}

// `value`: the stable slots, as 1+2+5.
absl::StatusOr<schedule::KeptSplit> Split(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  std::vector<bool> stable;
  while (!value.empty()) {
    const size_t end = std::min(value.find('+'), value.size());
    size_t slot = 0;
    const auto read = std::from_chars(value.data(), value.data() + end, slot);
    if (read.ptr != value.data() + end || slot > 1'000'000)
      return Invalid(Cat("slots (", value, ") are not numbers with + between them"));
    if (stable.size() <= slot) stable.resize(slot + 1);
    stable[slot] = true;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  const auto is_there = [&](size_t slot) {
    return std::ranges::any_of(ir::Toposort(ctx, root), [&](UOp u) {
      return u.Is(ir::Op::PARAM) && u.slot() == static_cast<int64_t>(slot);
    });
  };
  for (size_t slot = 0; slot < stable.size(); ++slot)
    if (stable[slot] && !is_there(slot)) return Invalid(Cat("the graph has no slot ", slot));
  UOPD_ASSIGN(const auto split, schedule::SplitKept(ctx, root, stable, DefaultTarget(), {}));
  if (!split) return Invalid("nothing is worth keeping");
  return *split;
}
Result KeptMain(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_ASSIGN(const schedule::KeptSplit split, Split(ctx, root, value));
  return split.main;
}
Result KeptPrologue(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_ASSIGN(const schedule::KeptSplit split, Split(ctx, root, value));
  return split.prologue;
}
Result RoundProducts(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  UOPD_ASSIGN(const schedule::Options options, RoundingOptions(value));
  return schedule::RoundProducts(ctx, ir::Toposort(ctx, root), options);
}

Result LowerSoftmaxExponentials(UOpContext& ctx, UOp root, std::string_view) {
  return schedule::LowerSoftmaxExponentials(ctx, ir::Toposort(ctx, root));
}
Result SplitSoftmaxes(UOpContext& ctx, UOp root, std::string_view value) {
  UOPD_TRY(ir::Verify(ctx, root, ir::Level::kTensor));
  schedule::Options options;
  if (!value.empty() &&
      (!absl::SimpleAtoi(std::string(value), &options.stage_bytes) || options.stage_bytes < 1)) {
    return Invalid(Cat("split_softmax takes the bytes that may be staged, and got ", value));
  }
  return schedule::SplitSoftmaxes(ctx, ir::Toposort(ctx, root), options);
}

constexpr Pass kPasses[] = {
    {"rules", "SET", "rewrite with one rule set", Rules},
    {"verify", "tensor|kernel|linear", "check the graph, change nothing", Verify},
    {"unbind", "", "bound variables become variables", Unbind},
    {"kept_main", "SLOT+SLOT...", "the graph without what depends on these slots alone", KeptMain},
    {"kept_prologue", "SLOT+SLOT...", "what depends on these slots alone", KeptPrologue},
    {"multi", "[ring threshold]",
     "resolve sharded values: pieces on several devices, and the transfers between them",
     ResolveMulti},
    {"round_products", "bf16|f16|tf32", "round the operands of f32 products", RoundProducts},
    {"softmax_exp", "", "EXP in softmaxes as EXP2", LowerSoftmaxExponentials},
    {"split_softmax", "[bytes]", "divide attention over more keys than can be staged into chunks",
     SplitSoftmaxes},
};

}  // namespace

Target DefaultTarget() {
  using enum DtypeNumber;
  Target out;
  const int lanes = out.vector_bytes / 4;
  out.matrix_instructions = {{"avx512_bf16", 1, lanes, 2, BF16, BF16, F32},
                             {"avx512_vnni", 1, lanes, 4, U8, I8, I32}};
  return out;
}

Target Avx512Target() {
  Target out = DefaultTarget();
  out.vector_bytes = 64, out.vector_registers = 32;
  for (MatrixInstruction& i : out.matrix_instructions) i.n = out.vector_bytes / 4;
  return out;
}

Target AmxTarget() {
  using enum DtypeNumber;
  Target out = Avx512Target();
  out.matrix_instructions.push_back({"amx_bf16", 16, 16, 32, BF16, BF16, F32});
  out.matrix_instructions.push_back({"amx_f16", 16, 16, 32, F16, F16, F32});
  out.matrix_instructions.push_back({"amx_int8", 16, 16, 64, U8, I8, I32});
  return out;
}

Target PlainGpuTarget() {
  Target out;
  out.kind = "gpu";
  out.blocks = out.shuffles = out.narrow_index = true;
  out.warp_lanes = 32;
  out.vector_bytes = 16;
  out.vector_lanes = 16;
  out.vector_registers = 255;
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.speeds = Speeds::OfGpu();
  out.shared_bytes = 48 << 10;
  return out;
}

std::span<const Pass> Passes() { return kPasses; }

absl::StatusOr<schedule::Options> RoundingOptions(std::string_view dtype) {
  schedule::Options options;
  for (const DtypeNumber known : {DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32}) {
    if (Name(known) != dtype) continue;
    options.allowed_products = {known};
    options.limits.product_dtypes = {known};
    return options;
  }
  return Invalid(Cat("dtype (", dtype, ") is none of bf16, f16, tf32"));
}

}  // namespace uopd::tools
