// SPDX-License-Identifier: MIT
// Texts for GPUs are accepted by the compilers they are for: kernels of many kinds, for every
// architecture.
#include <gtest/gtest.h>

#include <functional>

#include "core/base/target/gpu_targets.h"
#include "core/base/text.h"
#include "core/codegen/attention/warp_rows/row_fragment.h"
#include "core/codegen/codegen.h"
#include "core/codegen/opts/choose/heuristic.h"
#include "core/render/renderer.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/gpu/compilers.h"
#include "tests/support/gpu/cubin.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

// Every row of `in` minus its largest element, as an exponential, divided by the sum of the row's.
UOp Softmax(UOpContext& ctx, int64_t rows, int64_t columns) {
  tests::KernelBuilder b(ctx);
  const UOp out = b.Buffer(0, Dtype::F32, rows * columns),
            in = b.Buffer(1, Dtype::F32, rows * columns);
  const UOp i = b.Loop(rows), j = b.Loop(columns), k = b.Reduced(columns), l = b.Reduced(columns);
  const auto reduced = [&](Op op, UOp value, UOp range) {
    return ir::ReduceRanges(ctx, op, value, std::array<UOp, 1>{range});
  };
  const UOp most = reduced(Op::MAX, b.Load(in, b.At(i, columns, k)), k);
  const auto power = [&](UOp at) {
    return ir::Alu(ctx, Op::EXP2,
                   {ir::Alu(ctx, Op::SUB, {b.Load(in, b.At(i, columns, at)), most})});
  };
  const UOp sum = reduced(Op::ADD, power(l), l);
  return b.Kernel(
      {b.StoreLoops(out, b.At(i, columns, j), ir::Alu(ctx, Op::FDIV, {power(j), sum}), {i, j})});
}

// out[i] = (to) in[i], for a number of elements that is no multiple of anything.
UOp Convert(UOpContext& ctx, Dtype from, Dtype to) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(1003);
  return b.Kernel({b.StoreLoops(b.Buffer(0, to, 1003), i,
                                ir::Cast(ctx, b.Load(b.Buffer(1, from, 1003), i), to), {i})});
}

UOp Elementwise(UOpContext& ctx, Dtype d, Op op) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(4096);
  std::vector<UOp> x = {b.Load(b.Buffer(1, d, 4096), i)};
  if (!ir::kUnaryOps.Has(op)) x.push_back(b.Load(b.Buffer(2, d, 4096), i));
  return b.Kernel({b.StoreLoops(b.Buffer(0, d, 4096), i, ctx.Make(op, d, x), {i})});
}

UOp Sum(UOpContext& ctx, Dtype d, int64_t n) {
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(3), k = b.Reduced(n);
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, b.Load(b.Buffer(1, d, 3 * n), b.At(i, n, k)),
                                   std::array<UOp, 1>{k});
  return b.Kernel({b.StoreLoops(b.Buffer(0, d, 3), i, sum, {i})});
}

struct Sample {
  std::string name;
  std::function<UOp(UOpContext&)> kernel;
  bool f64 = false;
};

std::vector<Sample> Samples() {
  std::vector<Sample> out = {
      {"matmul", [](UOpContext& c) { return tests::MatmulKernel(c, 512, 512, 512, false, false); }},
      {"matmul_odd", [](UOpContext& c) { return tests::MatmulKernel(c, 45, 67, 33, true, true); }},
      {"matmul_long",
       [](UOpContext& c) { return tests::MatmulKernel(c, 8192, 8192, 1 << 20, false, false); }},
      {"softmax", [](UOpContext& c) { return Softmax(c, 100, 1000); }},
      {"softmax_long", [](UOpContext& c) { return Softmax(c, 1, 1 << 27); }},
      {"sum_f16", [](UOpContext& c) { return Sum(c, Dtype::F16, 10000); }},
      {"sum_i64", [](UOpContext& c) { return Sum(c, Dtype::I64, 10000); }},
      {"sum_f64", [](UOpContext& c) { return Sum(c, Dtype::F64, 999); }, true},
      {"idiv_i8", [](UOpContext& c) { return Elementwise(c, Dtype::I8, Op::FLOORDIV); }},
      {"mod_i64", [](UOpContext& c) { return Elementwise(c, Dtype::I64, Op::FLOORMOD); }},
      {"max_f16", [](UOpContext& c) { return Elementwise(c, Dtype::F16, Op::MAX); }},
      {"pow", [](UOpContext& c) { return Elementwise(c, Dtype::F32, Op::POW); }},
      {"exp2_f64", [](UOpContext& c) { return Elementwise(c, Dtype::F64, Op::EXP2); }, true},
      {"log2_f64", [](UOpContext& c) { return Elementwise(c, Dtype::F64, Op::LOG2); }, true},
      {"sin_f64", [](UOpContext& c) { return Elementwise(c, Dtype::F64, Op::SIN); }, true},
      {"pow_f64", [](UOpContext& c) { return Elementwise(c, Dtype::F64, Op::POW); }, true},
      {"add_f64", [](UOpContext& c) { return Elementwise(c, Dtype::F64, Op::ADD); }, true},
      {"and_bool", [](UOpContext& c) { return Elementwise(c, Dtype::Bool, Op::AND); }}};
  for (const Dtype d : {Dtype::BF16, Dtype::F16, Dtype::TF32, Dtype::F8E4M3, Dtype::F8E5M2}) {
    out.push_back({Cat("product_", Name(d)), [d](UOpContext& c) {
                     return tests::WideningMatmulKernel(c, 64, 48, 128, false, false, d, d,
                                                        Dtype::F32);
                   }});
  }
  out.push_back({"product_i8", [](UOpContext& c) {
                   return tests::WideningMatmulKernel(c, 64, 48, 128, false, false, Dtype::I8,
                                                      Dtype::I8, Dtype::I32);
                 }});
  const Dtype all[] = {Dtype::Bool, Dtype::I8,  Dtype::U8,  Dtype::I16, Dtype::U16,
                       Dtype::I32,  Dtype::U32, Dtype::I64, Dtype::U64, Dtype::BF16,
                       Dtype::F16,  Dtype::F32, Dtype::F64};
  for (const auto& [from, to] :
       {std::pair(Dtype::F32, Dtype::TF32), {Dtype::I64, Dtype::TF32}, {Dtype::TF32, Dtype::F16}}) {
    out.push_back(
        {Cat(Name(from), "_to_", Name(to)), [=](UOpContext& c) { return Convert(c, from, to); }});
  }
  for (const Dtype from : all) {
    for (const Dtype to :
         {Dtype::I8, Dtype::U64, Dtype::I64, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
      if (from == to) continue;
      out.push_back({Cat(Name(from), "_to_", Name(to)),
                     [=](UOpContext& c) { return Convert(c, from, to); },
                     from == Dtype::F64 || to == Dtype::F64});
    }
  }
  return out;
}

absl::StatusOr<std::string> Rendered(UOpContext& ctx, UOp kernel, const Target& target,
                                     const std::vector<Opt>* opts) {
  codegen::Options options;
  options.opts = opts;
  UOPD_ASSIGN(const codegen::LoweredKernel lowered, codegen::Lower(ctx, kernel, target, options));
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(target.format));
  return renderer->render(
      {ctx, lowered.linear, lowered.name, lowered.variables, target, lowered.buffers.size()});
}

absl::StatusOr<std::string> Compiled(const std::string& text, const Target& target) {
  switch (target.format) {
    case CodeFormat::kCudaC:
      return tests::CompileCuda(text, target.arch);
    case CodeFormat::kPtx:
      return tests::AssemblePtx(text, target.arch);
    case CodeFormat::kHipC:
      return tests::CompileHip(text, target.arch);
    case CodeFormat::kAmdgpuIr:
      return tests::CompileAmdgpuIr(text, target.arch);
    default:
      return tests::CompileOpenCl(text);
  }
}

// An architecture; with "_ptx" or "_ir" after it: its kernels as PTX, or as LLVM IR for AMDGPU.
Target TargetNamed(std::string_view name) {
  const bool ptx = name.ends_with("_ptx"), ir = name.ends_with("_ir");
  Target out = *GpuTarget(name.substr(0, name.size() - (ptx ? 4 : ir ? 3 : 0)));
  if (ptx) out.format = CodeFormat::kPtx;
  if (ir) out.format = CodeFormat::kAmdgpuIr;
  return out;
}

class GpuCompileTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  // Skips the test if there is no compiler for the target.
  void SetUp() override {
    target_ = TargetNamed(GetParam());
    UOpContext ctx;
    const auto text = Rendered(ctx, Elementwise(ctx, Dtype::F32, Op::ADD), target_, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto compiled = Compiled(*text, target_);
    if (tests::MaySkipCompiler(compiled.status())) GTEST_SKIP() << compiled.status().message();
    ASSERT_TRUE(compiled.ok()) << compiled.status();
  }

  Target target_;
};

TEST_P(GpuCompileTest, KernelsOfManyKindsCompile) {
  for (const Sample& sample : Samples()) {
    // Each conversion once: they do not differ from chip to chip.
    const bool first =
        target_.arch == "sm_80" || target_.arch == "gfx942" || target_.arch == "opencl";
    if (!first && sample.name.find("_to_") != std::string::npos) continue;
    UOpContext ctx;
    const auto text = Rendered(ctx, sample.kernel(ctx), target_, nullptr);
    ASSERT_TRUE(text.ok()) << sample.name << ": " << text.status();
    const auto compiled = Compiled(*text, target_);
    EXPECT_TRUE(compiled.ok()) << sample.name << ": " << compiled.status();
  }
}

TEST_P(GpuCompileTest, MatrixInstructionsCompile) {
  const std::vector<MatrixInstruction> all = target_.matrix_instructions;
  for (const MatrixInstruction& i : all) {
    target_.matrix_instructions = {i};
    const auto dtype = [](DtypeNumber n) { return *ir::DtypeByWire(static_cast<uint64_t>(n)); };
    for (const bool packed : {false, true}) {
      if (i.in_shared() && (packed || i.n != 64)) continue;  // they differ in one number
      UOpContext ctx;
      const UOp kernel = tests::WideningMatmulKernel(ctx, 64, 48, 128, false, true, dtype(i.a),
                                                     dtype(i.b), dtype(i.sum));
      std::vector<Opt> opts = {
          {OptKind::kTensorCore, 2, 0}, {OptKind::kUpcast, 0, 2}, {OptKind::kLocal, 1, 2}};
      if (i.in_shared()) opts = {opts[0], {OptKind::kBlock, 2, 1}};
      if (packed && !i.in_shared()) {
        opts.push_back({OptKind::kBlock, 2, 2});
        opts.push_back({OptKind::kPack, 0, 0});
        opts.push_back({OptKind::kPack, 1, 0});
      }
      const auto text = Rendered(ctx, kernel, target_, &opts);
      ASSERT_TRUE(text.ok()) << i.name << ": " << text.status();
      const auto compiled = Compiled(*text, target_);
      ASSERT_TRUE(compiled.ok()) << i.name << ": " << compiled.status();
      // Assembly says which instruction it is.
      if (target_.format == CodeFormat::kHipC || target_.format == CodeFormat::kAmdgpuIr) {
        const std::string_view kind = i.name.starts_with("mfma") ? "v_mfma_" : "v_wmma_";
        EXPECT_NE(compiled->find(kind), std::string::npos) << i.name;
      } else if (i.in_shared()) {
        EXPECT_NE(text->find("wgmma.mma_async.sync"), std::string::npos) << i.name;
        EXPECT_NE(text->find("fence.proxy.async"), std::string::npos) << i.name;
      } else {
        EXPECT_NE(text->find("mma.sync"), std::string::npos) << i.name;
        const bool loads = packed && i.name != "mma_tf32_pairs";
        EXPECT_EQ(text->find("ldmatrix.sync") != std::string::npos, loads) << i.name;
      }
    }
  }
}

// Long attention by matrix instructions of warps: its fragments and states are registers, and those
// suffice.
TEST_P(GpuCompileTest, LongAttentionFitsInRegisters) {
  const bool applies = std::ranges::any_of(
      target_.matrix_instructions,
      [](const MatrixInstruction& i) { return i.of_warp() && codegen::RowFragment::MaybeOf(i); });
  if (!applies) GTEST_SKIP() << "the chip has no instruction whose results are operands";
  const bool hip = target_.format == CodeFormat::kHipC,
             ir = target_.format == CodeFormat::kAmdgpuIr;
  for (const int64_t depth : {64, 128}) {
    tests::AttentionShape shape{2, 4096, 4096, depth, Dtype::F16, true};
    shape.widens = true;
    // A chip for each kind of text: they differ in the last lines only.
    shape.rounds = depth == 64 && (target_.arch == "sm_80" || target_.arch == "gfx942");
    UOpContext ctx;
    const auto text = Rendered(ctx, tests::AttentionKernel(ctx, shape), target_, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto compiled = Compiled(*text, target_);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    if (hip || ir) {
      EXPECT_TRUE(compiled->find("v_mfma_") != std::string::npos ||
                  compiled->find("v_wmma_") != std::string::npos);
      continue;
    }
    for (const std::string_view instruction : {"mma.sync", "ldmatrix.sync", "cp.async.cg"})
      EXPECT_NE(text->find(instruction), std::string::npos) << instruction;
    // With few registers the compiler may keep a word in memory, so that four blocks fit in a
    // processor instead of three.
    EXPECT_LE(tests::LocalBytes(*compiled).value_or(1000), depth == 128 ? 0 : 8) << depth;
  }
}

// The product of two 4096 x 4096 matrices of bf16, the second one transposed, as bf16.
UOp RoundedProduct(UOpContext& ctx) {
  constexpr int64_t kSize = 4096;
  tests::KernelBuilder b(ctx);
  const UOp i = b.Loop(kSize), j = b.Loop(kSize), k = b.Reduced(kSize);
  const auto load = [&](int64_t slot, UOp at) {
    return ir::Cast(ctx, b.Load(b.Buffer(slot, Dtype::BF16, kSize * kSize), at), Dtype::F32);
  };
  const UOp sum = ir::ReduceRanges(
      ctx, Op::ADD, ir::Mul(ctx, load(1, b.At(i, kSize, k)), load(2, b.At(j, kSize, k))),
      std::array<UOp, 1>{k});
  return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::BF16, kSize * kSize), b.At(i, kSize, j),
                                ir::Cast(ctx, sum, Dtype::BF16), {i, j})});
}

// What the heuristic makes of a large product of small elements, for chips that copy to shared
// memory on their own.
TEST_P(GpuCompileTest, LargeProductsCopyWhileTheyCompute) {
  if (!target_.async_copies) GTEST_SKIP() << "the chip has no such copies";
  for (const bool transposed : {false, true}) {
    UOpContext ctx;
    const UOp kernel = transposed
                           ? RoundedProduct(ctx)
                           : tests::WideningMatmulKernel(ctx, 4096, 4096, 4096, false, false,
                                                         Dtype::BF16, Dtype::BF16, Dtype::F32);
    const auto text = Rendered(ctx, kernel, target_, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    // Lanes exchange results of 16 bits before they store them.
    EXPECT_EQ(text->find("shfl") != std::string::npos, transposed);
    const bool groups = target_.arch == "sm_90a";
    for (const std::string_view instruction :
         {groups ? "wgmma.mma_async" : "mma.sync", groups ? "wgmma.fence" : "ldmatrix.sync",
          groups ? "cp.async.bulk.tensor" : "cp.async.cg",
          groups ? "mbarrier.try_wait" : "cp.async.wait_group"})
      EXPECT_NE(text->find(instruction), std::string::npos) << instruction;
    if (groups) {
      EXPECT_EQ(text->find(", 1, 1, 1, 0, 1;") != std::string::npos, !transposed);
    } else {
      EXPECT_EQ(text->find(".trans.") != std::string::npos, !transposed);
    }
    const auto compiled = Compiled(*text, target_);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(tests::LocalBytes(*compiled).value_or(1000), 0);
  }
}

// The chip whose groups of warps multiply, in CUDA C and in PTX.
class GroupCompileTest : public GpuCompileTest {};

// The compiler finds nothing that makes products of groups wait for each other, and room for their
// accumulators.
TEST_P(GroupCompileTest, GroupsRunOn) {
  const bool ptx = target_.format == CodeFormat::kPtx;
  for (const bool transposed : {false, true}) {
    UOpContext ctx;
    // So many steps that the kernel polls its stop word in the loop.
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, 4096, 4096, transposed ? 4096 : 1 << 30, transposed,
                                    !transposed, Dtype::BF16, Dtype::BF16, Dtype::F32);
    const auto text = Rendered(ctx, kernel, target_, nullptr);
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_NE(text->find("wgmma.wait_group.sync.aligned 1"), std::string::npos);
    const auto messages =
        ptx ? tests::PtxMessages(*text, target_.arch) : tests::CudaMessages(*text, target_.arch);
    ASSERT_TRUE(messages.ok()) << messages.status();
    EXPECT_NE(messages->find(" 0 bytes spill stores"), std::string::npos) << *messages;
    // "(C7510) ... wgmma.mma_async instructions are serialized", "(C7517) wgmma.wait_group is
    // injected", and others.
    EXPECT_EQ(messages->find("(C75"), std::string::npos) << *messages;
    if (transposed || ptx) continue;
    // A use of an accumulator before the wait is one of them.
    std::string bad = *text;
    const size_t wait = bad.find("asm volatile(\"wgmma.commit_group");
    ASSERT_NE(wait, std::string::npos);
    const size_t at = bad.find("acc", bad.find("\"+f\"("));
    bad.insert(wait, Cat("b0[0] = ", bad.substr(at, bad.find(' ', at) - at), "[0];\n"));
    const auto said = tests::CudaMessages(bad, target_.arch);
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_NE(said->find("(C75"), std::string::npos) << *said;
  }
}

// Warps that copy alone, as PIPELINE says: the compilers take the numbers of registers of the
// roles, keep nothing in memory and let the products run on.
TEST_P(GroupCompileTest, WarpsCopyForGroups) {
  for (const bool transposed : {false, true}) {
    const int64_t parts = transposed ? 4 : 3, warps = transposed ? 4 : 1;
    UOpContext ctx;
    const UOp kernel = transposed
                           ? RoundedProduct(ctx)
                           : tests::WideningMatmulKernel(ctx, 4096, 4096, 4096, false, false,
                                                         Dtype::BF16, Dtype::BF16, Dtype::F32);
    std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, target_);
    for (Opt& o : opts) {
      if (o.kind == OptKind::kPipeline) o.amount = parts, o.warps = warps;
    }
    const auto text = Rendered(ctx, kernel, target_, &opts);
    ASSERT_TRUE(text.ok()) << text.status();
    for (const std::string_view instruction :
         {"wgmma.wait_group.sync.aligned 1", "mbarrier.arrive.shared"})
      EXPECT_NE(text->find(instruction), std::string::npos) << instruction << *text;
    for (const std::string_view instruction :
         {"setmaxnreg.dec.sync.aligned.u32 40", "setmaxnreg.inc.sync.aligned.u32 232"})
      EXPECT_EQ(text->find(instruction) != std::string::npos, warps == 4) << instruction;
    const bool ptx = target_.format == CodeFormat::kPtx;
    // Nothing waits for the block in the loops.
    const std::string_view barrier = ptx ? "bar.sync" : "__syncthreads();";
    EXPECT_EQ(text->find(barrier), text->rfind(barrier));
    const auto messages =
        ptx ? tests::PtxMessages(*text, target_.arch) : tests::CudaMessages(*text, target_.arch);
    ASSERT_TRUE(messages.ok()) << messages.status();
    EXPECT_NE(messages->find(" 0 bytes spill stores"), std::string::npos) << *messages;
    // "(C7508) ... setmaxnreg ignored", "(C7510) ... instructions are serialized", and others.
    EXPECT_EQ(messages->find("(C75"), std::string::npos) << *messages;
    EXPECT_EQ(messages->find("setmaxnreg"), std::string::npos) << *messages;
    if (warps != 4) continue;
    EXPECT_NE(messages->find("Used 168 registers"), std::string::npos) << *messages;
    // Without its bounds the compiler ignores them, and says so.
    std::string bad = *text;
    for (const std::string_view bounds :
         {ptx ? ".maxntid 384, 1, 1" : "__launch_bounds__(384, 1)", ptx ? ".minnctapersm 1" : ""}) {
      const size_t at = bad.find(bounds);
      ASSERT_NE(at, std::string::npos) << bad;
      bad.erase(at, bounds.size());
    }
    const auto said =
        ptx ? tests::PtxMessages(bad, target_.arch) : tests::CudaMessages(bad, target_.arch);
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_NE(said->find("setmaxnreg"), std::string::npos) << *said;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuCompileTest,
                         ::testing::Values("opencl", "sm_80", "sm_90", "sm_90a", "sm_120", "gfx90a",
                                           "gfx942", "gfx1100", "gfx1201", "gfx90a_ir", "gfx942_ir",
                                           "gfx1100_ir", "gfx1201_ir", "sm_75_ptx", "sm_80_ptx",
                                           "sm_89_ptx", "sm_90_ptx", "sm_90a_ptx", "sm_100_ptx",
                                           "sm_120_ptx"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(All, GroupCompileTest, ::testing::Values("sm_90a", "sm_90a_ptx"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace uopd
