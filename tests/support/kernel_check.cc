// SPDX-License-Identifier: MIT
#include "tests/support/kernel_check.h"

#include <cmath>
#include <deque>
#include <map>
#include <random>

#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/shape.h"
#include "core/ir/verify/spec.h"
#include "core/render/formats.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/lowered_run.h"

namespace uopd::tests {

using ir::Dtype;
using ir::Scalar;
using ir::UOp;

Target WideTarget() {
  Target t;
  t.vector_bytes = 64, t.vector_registers = 32, t.threads = 2;
  return t;
}

std::vector<MatrixInstruction> DotInstructions(CompiledText::Language language) {
  using enum DtypeNumber;
#if defined(__x86_64__)
  const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0,
             vnni = __builtin_cpu_supports("avx512vnni") != 0;
#else
  const bool bf16 = false, vnni = false;
#endif
  const auto lanes = [&](bool runs) { return runs || language == CompiledText::kC ? 16 : 5; };
  return {{"avx512_bf16", 1, lanes(bf16), 2, BF16, BF16, F32},
          {"avx512_vnni", 1, lanes(vnni), 4, U8, I8, I32}};
}

std::vector<MatrixInstruction> TileInstructions(CompiledText::Language language) {
  using enum DtypeNumber;
  std::vector<MatrixInstruction> out = {{"amx_bf16", 16, 16, 32, BF16, BF16, F32},
                                        {"amx_f16", 16, 16, 32, F16, F16, F32},
                                        {"amx_int8", 16, 16, 64, U8, I8, I32}};
  for (const MatrixInstruction& i : DotInstructions(language)) out.push_back(i);
  return out;
}

UOp KernelBuilder::Buffer(int64_t slot, Dtype dtype, int64_t elements) {
  return ir::Param(ctx, slot, dtype, ir::ShapeArg(ctx, ir::Dims{elements}));
}
UOp KernelBuilder::StoreLoops(UOp buffer, UOp at, UOp value, std::initializer_list<UOp> loops,
                              UOp gate) {
  return ir::End(ctx, ir::Store(ctx, ir::Index(ctx, buffer, at, gate), value),
                 std::span<const UOp>(loops.begin(), loops.size()));
}
UOp KernelBuilder::Kernel(std::initializer_list<UOp> statements) {
  return ir::KernelSink(ctx, std::span<const UOp>(statements.begin(), statements.size()), "k");
}

UOp MatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, bool transpose_a,
                 bool transpose_b, Dtype dtype) {
  KernelBuilder b(ctx);
  const UOp c = b.Buffer(0, dtype, m * n), a = b.Buffer(1, dtype, m * k),
            w = b.Buffer(2, dtype, k * n);
  const UOp i = b.Loop(m), j = b.Loop(n), l = b.Reduced(k);
  const UOp x = b.Load(a, transpose_a ? b.At(l, m, i) : b.At(i, k, l)),
            y = b.Load(w, transpose_b ? b.At(j, k, l) : b.At(l, n, j));
  const UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, ir::Mul(ctx, x, y), std::array<UOp, 1>{l});
  return b.Kernel({b.StoreLoops(c, b.At(i, n, j), sum, {i, j})});
}

UOp WideningMatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, bool transpose_a,
                         bool transpose_b, Dtype a, Dtype b, Dtype sum) {
  KernelBuilder build(ctx);
  const UOp c = build.Buffer(0, sum, m * n), x = build.Buffer(1, a, m * k),
            y = build.Buffer(2, b, k * n);
  const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k);
  const UOp left = build.Load(x, transpose_a ? build.At(l, m, i) : build.At(i, k, l)),
            right = build.Load(y, transpose_b ? build.At(j, k, l) : build.At(l, n, j));
  const UOp product = ir::Mul(ctx, ir::Cast(ctx, left, sum), ir::Cast(ctx, right, sum));
  return build.Kernel({build.StoreLoops(
      c, build.At(i, n, j), ir::ReduceRanges(ctx, ir::Op::ADD, product, std::array<UOp, 1>{l}),
      {i, j})});
}

UOp WordsMatmulKernel(ir::UOpContext& ctx, int64_t m, int64_t n, int64_t k, Dtype a, Dtype b,
                      Dtype sum) {
  KernelBuilder build(ctx);
  const int bits = ir::Bits(b);
  const int64_t elements = 32 / bits;
  const UOp c = build.Buffer(0, sum, m * n), x = build.Buffer(1, a, m * k),
            words = build.Buffer(2, Dtype::U32, k * n / elements);
  const UOp i = build.Loop(m), j = build.Loop(n), l = build.Reduced(k);
  const UOp group = ir::Alu(ctx, ir::Op::FLOORDIV, {l, ctx.Idx(elements)}),
            at = ir::Alu(ctx, ir::Op::FLOORMOD, {l, ctx.Idx(elements)});
  const UOp word = build.Load(words, build.At(group, n, j));
  const UOp shift = ir::Mul(ctx, ir::Cast(ctx, at, Dtype::U32), ctx.Int(Dtype::U32, bits));
  const UOp element =
      ir::Cast(ctx, ir::Alu(ctx, ir::Op::SHR, {word, shift}), bits == 16 ? Dtype::U16 : Dtype::U8);
  const UOp right = element.dtype() == b ? element : ir::Bitcast(ctx, element, b);
  const UOp product =
      ir::Mul(ctx, ir::Cast(ctx, build.Load(x, build.At(i, k, l)), sum), ir::Cast(ctx, right, sum));
  return build.Kernel({build.StoreLoops(
      c, build.At(i, n, j), ir::ReduceRanges(ctx, ir::Op::ADD, product, std::array<UOp, 1>{l}),
      {i, j})});
}

namespace {

std::string TextOf(const Scalar& s) { return ir::IsFloat(s.dtype) ? Cat(s.f) : Cat(s.i); }

double Ulp(Dtype d, double v) {
  const int mantissa = d == Dtype::F64    ? 52
                       : d == Dtype::F32  ? 23
                       : d == Dtype::F16  ? 10
                       : d == Dtype::TF32 ? 10
                       : d == Dtype::BF16 ? 7
                                          : 2;
  const int smallest = d == Dtype::F64      ? -1022
                       : d == Dtype::F16    ? -14
                       : d == Dtype::F8E4M3 ? -6
                       : d == Dtype::F8E5M2 ? -14
                                            : -126;
  return std::ldexp(1.0, std::max(v == 0 ? smallest : std::ilogb(v), smallest) - mantissa);
}

bool Same(const Scalar& want, const Scalar& got, double largest, const CheckOptions& check) {
  if (!ir::IsFloat(want.dtype)) return want.i == got.i;
  if (std::isnan(want.f) || std::isnan(got.f)) return std::isnan(want.f) && std::isnan(got.f);
  if (want.f == got.f) return true;
  if (std::isinf(want.f) != std::isinf(got.f)) {
    // Just over the edge on one side only.
    const double finite = std::isinf(want.f) ? got.f : want.f;
    return check.ulps > 0 &&
           std::abs(finite) >
               0.9 * std::ldexp(1.0, want.dtype == Dtype::F16 || want.dtype == Dtype::F8E5M2 ? 15
                                     : want.dtype == Dtype::F64                              ? 1023
                                                                                             : 127);
  }
  const double error = std::abs(want.f - got.f);
  return error <= check.tolerance * largest || error <= check.ulps * Ulp(want.dtype, want.f);
}

// What a kernel only writes holds no numbers before it runs.
void Poison(const codegen::LoweredKernel& kernel, Memory& memory) {
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    if (kernel.buffers[i].written && !kernel.buffers[i].read)
      std::fill(memory[i].begin(), memory[i].end(), uint8_t{0xff});
  }
}

// Compiles and runs the kernel for a CPU. Returns what is wrong, or nothing.
std::string RunCompiled(ir::UOpContext& ctx, const codegen::LoweredKernel& lowered,
                        const Memory& memory, const CheckOptions& check, std::string& out_text,
                        Memory& got) {
  const bool c = check.language == CompiledText::kC;
  auto text = c ? render::RenderC(ctx, lowered.linear, lowered.name, lowered.variables)
                : render::RenderLlvmIr(ctx, lowered.linear, lowered.name, lowered.variables);
  if (!text.ok())
    return "render: " + StatusText(text.status()) + "\n" + ir::Print(ctx, lowered.linear);
  auto compiled = CompiledText::Compile(check.language, EmulateAmx(*text));
  if (!compiled.ok()) return StatusText(compiled.status());
  uint32_t stop = 0;
  std::vector<uint64_t> shared(static_cast<size_t>(lowered.launch.shared_bytes / 8));
  std::vector<void*> buffers = {shared.data(), &stop};  // buffers[-2] and buffers[-1] of the ABI
  std::deque<GuardedBytes> guarded;
  for (const auto& b : memory) buffers.push_back(guarded.emplace_back(b).data());
  std::vector<int64_t> vars;
  for (const std::string& v : lowered.variables) vars.push_back(check.variables.at(v));
  const KernelFunction run = (*compiled)->Find(lowered.name);
  if (run == nullptr) return "no function " + lowered.name;
  const int64_t threads = lowered.launch.grid[0].Evaluate(vars);
  for (int64_t t = 0; t < threads; ++t) run(buffers.data() + 2, vars.data(), t);
  for (const GuardedBytes& b : guarded) got.push_back(b.Copy());
  out_text = *std::move(text);
  return "";
}

// What the interpreter leaves in memory. Tests check one kernel with many opts over the same
// memory, so the last results are kept.
Memory Wanted(ir::UOpContext& ctx, UOp sink, const Memory& before,
              const std::map<std::string, int64_t>& variables) {
  struct Known {
    std::string kernel;
    std::map<std::string, int64_t> variables;
    Memory before, after;
  };
  constexpr size_t kKept = 32;
  static std::deque<Known>& known = *new std::deque<Known>;
  const std::string kernel = ir::Print(ctx, sink);
  for (const Known& k : known) {
    if (k.kernel == kernel && k.variables == variables && k.before == before) return k.after;
  }
  Memory after = before;
  Interpret(ctx, sink, after, variables);
  if (known.size() == kKept) known.pop_front();
  known.push_back({kernel, variables, before, after});
  return after;
}

}  // namespace

std::string CheckKernel(ir::UOpContext& ctx, UOp sink, const Memory& memory,
                        const CheckOptions& check) {
  if (absl::Status s = ir::Verify(ctx, sink, ir::Level::kKernel); !s.ok())
    return "kernel: " + StatusText(s);
  auto lowered = codegen::Lower(ctx, sink, check.target, check.options);
  if (!lowered.ok()) return "lower: " + StatusText(lowered.status());
  Memory before = memory, got;
  if (check.target.blocks) Poison(*lowered, before);
  const Memory want = Wanted(ctx, sink, before, check.variables);
  std::string text;
  if (check.target.blocks) {
    got = before;
    text = ir::Print(ctx, lowered->linear);
    const absl::Status s = check.run_blocks
                               ? check.run_blocks(ctx, *lowered, got)
                               : RunLowered(ctx, *lowered, check.target, got, check.variables);
    if (!s.ok()) return Cat("run: ", StatusText(s), "\n", text);
  } else if (std::string why = RunCompiled(ctx, *lowered, memory, check, text, got); !why.empty()) {
    return why;
  }
  for (size_t slot = 0; slot < lowered->buffers.size(); ++slot) {
    const Dtype d = lowered->buffers[slot].dtype;
    if (d == Dtype::Void) continue;  // a slot that the kernel does not use
    const auto size = static_cast<size_t>(ir::ByteSize(d));
    double largest = 0;
    for (size_t at = 0; at + size <= want[slot].size(); at += size) {
      const double v = LoadScalar(d, &want[slot][at]).f;
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    }
    for (size_t at = 0; at + size <= want[slot].size(); at += size) {
      const Scalar w = LoadScalar(d, &want[slot][at]), g = LoadScalar(d, &got[slot][at]);
      if (!Same(w, g, largest, check)) {
        return Cat("buffer ", slot, " element ", at / size, ": want ", TextOf(w), ", got ",
                   TextOf(g), "\n", text);
      }
    }
  }
  return "";
}

std::vector<uint8_t> SampleBuffer(Dtype dtype, int64_t n, uint64_t seed, bool tame) {
  const double kFloats[] = {0.0,    -0.0,     1,         -1,         0.5,   2,      -3.25,
                            NAN,    INFINITY, -INFINITY, 1e-45,      1e-40, -1e-39, 1.17549435e-38,
                            3.4e38, -3.4e38,  65504,     65520,      448,   460,    57344,
                            1e5,    1e10,     3e9,       2147483647, 1e20,  100.5,  -127.5,
                            1e-8,   7,        0.1,       1e30};
  const int64_t kInts[] = {0,
                           1,
                           -1,
                           2,
                           -2,
                           3,
                           7,
                           -7,
                           31,
                           32,
                           33,
                           63,
                           64,
                           127,
                           -128,
                           128,
                           255,
                           256,
                           32767,
                           -32768,
                           65535,
                           INT32_MAX,
                           INT32_MIN,
                           int64_t{1} << 32,
                           INT64_MAX,
                           INT64_MIN,
                           (int64_t{1} << 53) + 1,
                           (int64_t{1} << 62) + 1,
                           1000000007,
                           -1000000007};
  std::mt19937_64 random(seed);
  const auto size = static_cast<size_t>(ir::ByteSize(dtype));
  std::vector<uint8_t> out(size * static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const bool special = !tame && i % 3 != 2;
    Scalar v;
    if (dtype == Dtype::Bool) {
      v = Scalar::Int(dtype, random() & 1);
    } else if (ir::IsFloat(dtype)) {
      const double tame_value =
          static_cast<double>(static_cast<int64_t>(random() % 2001) - 1000) / 500;
      v = Scalar::Float(dtype, special ? kFloats[random() % std::size(kFloats)]
                               : tame
                                   ? tame_value
                                   : std::ldexp(tame_value, static_cast<int>(random() % 60) - 30));
    } else {
      v = Scalar::Int(dtype,
                      special ? kInts[random() % std::size(kInts)]
                      : tame  ? static_cast<int64_t>(random() % 7) - (ir::IsUnsigned(dtype) ? 0 : 3)
                              : static_cast<int64_t>(random()));
    }
    StoreScalar(v, &out[static_cast<size_t>(i) * size]);
  }
  return out;
}

std::string CheckOpts(ir::UOpContext& ctx, UOp kernel, const Memory& memory,
                      const std::vector<codegen::Opt>& opts, double tolerance) {
  std::string out;
  for (const auto language : {CompiledText::kC, CompiledText::kLlvmIr}) {
    CheckOptions check;
    check.target = WideTarget(), check.options.opts = &opts, check.language = language;
    check.target.matrix_instructions = DotInstructions(language);
    check.tolerance = tolerance;
    out += CheckKernel(ctx, kernel, memory, check);
  }
  return out;
}

}  // namespace uopd::tests
