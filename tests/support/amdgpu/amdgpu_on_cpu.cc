// SPDX-License-Identifier: MIT
#include "tests/support/amdgpu/amdgpu_on_cpu.h"

#include <regex>

#include "core/base/text.h"
#include "core/render/formats.h"
#include "devices/cpu/cpu_compiler.h"
#include "devices/cpu/cpu_jit.h"
#include "tests/support/amdgpu/block_runner.h"

namespace uopd::tests {
namespace {

static_assert(offsetof(GpuThread, number) == 12 && offsetof(GpuThread, lane) == 24 &&
              offsetof(GpuThread, wait) == 32 && offsetof(GpuThread, permute) == 40 &&
              offsetof(GpuThread, multiply) == 48);

// The instructions of the chip but those for matrices, as functions whose first argument is the
// thread.
constexpr char kChip[] = R"(
define internal i32 @chip.field(ptr %t, i64 %at) alwaysinline {
  %p = getelementptr i8, ptr %t, i64 %at
  %x = load i32, ptr %p
  ret i32 %x
}
define internal i32 @chip.workgroup.id.x(ptr %t) {
  %x = call i32 @chip.field(ptr %t, i64 0)
  ret i32 %x
}
define internal i32 @chip.workitem.id.x(ptr %t) {
  %x = call i32 @chip.field(ptr %t, i64 12)
  ret i32 %x
}
define internal i32 @chip.mbcnt.lo(ptr %t, i32 %mask, i32 %x) {
  ret i32 %x
}
define internal i32 @chip.mbcnt.hi(ptr %t, i32 %mask, i32 %x) {
  %lane = call i32 @chip.field(ptr %t, i64 24)
  %sum = add i32 %x, %lane
  ret i32 %sum
}
define internal i32 @chip.readfirstlane.i32(ptr %t, i32 %x) {
  ret i32 %x
}
define internal void @chip.s.barrier(ptr %t) {
  %p = getelementptr i8, ptr %t, i64 32
  %f = load ptr, ptr %p
  call void %f(ptr %t)
  ret void
}
define internal i32 @chip.ds.bpermute(ptr %t, i32 %from, i32 %word) {
  %p = getelementptr i8, ptr %t, i64 40
  %f = load ptr, ptr %p
  %x = call i32 %f(ptr %t, i32 %from, i32 %word)
  ret i32 %x
}
)";

// A matrix instruction with operands in memory. `name` is "mfma.f32.16x16x16f16" or another one.
std::string MatrixFunction(const std::string& name, const std::string& sums,
                           const std::string& operand) {
  const DtypeNumber dtype = name.find("bf16") != std::string::npos  ? DtypeNumber::BF16
                            : name.find("f16") != std::string::npos ? DtypeNumber::F16
                                                                    : DtypeNumber::I8;
  const std::string more = name.starts_with("mfma") ? ", i32 %x, i32 %y, i32 %z" : "";
  return Cat("define internal ", sums, " @chip.", name, "(ptr %t, ", operand, " %a, ", operand,
             " %b, ", sums, " %c", more, ") {\n  %pa = alloca ", operand, "\n  %pb = alloca ",
             operand, "\n  %pc = alloca ", sums, "\n  %po = alloca ", sums, "\n  store ", operand,
             " %a, ptr %pa\n  store ", operand, " %b, ptr %pb\n  store ", sums,
             " %c, ptr %pc\n  %p = getelementptr i8, ptr %t, i64 48\n  %f = load ptr, ptr %p\n"
             "  call void %f(ptr %t, i32 ",
             static_cast<int>(dtype), ", ptr %pa, ptr %pb, ptr %pc, ptr %po)\n  %out = load ", sums,
             ", ptr %po\n  ret ", sums, " %out\n}\n");
}

// The text for this machine: address spaces and the kernel's calling convention are gone,
// instructions are calls of functions, and the entry is that of kernels of the CPU, with the thread
// in place of its number.
std::string ForCpu(const std::string& text, const codegen::LoweredKernel& kernel, size_t slots) {
  std::string functions = kChip;
  const std::regex matrix(
      R"(declare (\S.*) @llvm\.amdgcn\.((?:mfma|wmma)[\w.]*)\((<[^>]*>|\w+),.*)");
  for (std::sregex_iterator i(text.begin(), text.end(), matrix), end; i != end; ++i)
    functions += MatrixFunction((*i)[2], (*i)[1], (*i)[3]);
  std::string out = std::regex_replace(text, std::regex(R"(target triple.*)"), "");
  out = std::regex_replace(out, std::regex(R"(declare .*@llvm\.amdgcn\..*)"), "");
  out = std::regex_replace(out, std::regex(R"(,? addrspace\(\d\))"), "");
  out = std::regex_replace(out, std::regex(R"(@llvm\.amdgcn\.([\w.]+)\()"), "@chip.$1(ptr %t, ");
  out = std::regex_replace(out, std::regex(R"(, \))"), ")");
  out = std::regex_replace(out, std::regex(R"(define protected amdgpu_kernel void @(\w+)\()"),
                           "define internal void @$1.body(ptr %t, ");
  std::string loads, arguments;
  for (size_t slot = 0; slot <= slots; ++slot) {
    Append(loads, "  %q", slot, " = getelementptr ptr, ptr %buffers, i64 ", slot, "\n  %b", slot,
           " = load ptr, ptr %q", slot, "\n");
  }
  for (size_t slot = 0; slot < slots; ++slot) Append(arguments, ", ptr %b", slot);
  for (size_t i = 0; i < kernel.variables.size(); ++i) {
    Append(loads, "  %w", i, " = getelementptr i64, ptr %vars, i64 ", i, "\n  %v", i,
           " = load i64, ptr %w", i, "\n");
    Append(arguments, ", i64 %v", i);
  }
  return Cat(out, functions, "define void @", kernel.name,
             "(ptr %buffers, ptr %vars, i64 %thread) {\n  %t = inttoptr i64 %thread to ptr\n",
             loads, "  call void @", kernel.name, ".body(ptr %t", arguments, ", ptr %b", slots,
             ")\n  ret void\n}\n");
}

}  // namespace

absl::Status RunAmdgpuOnCpu(ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                            const Target& target, Memory& memory,
                            const std::map<std::string, int64_t>& variables) {
  using namespace devices::cpu;
  static CpuJit& jit = *CpuJit::Create().value().release();
  static const CpuCompiler& compiler =
      *CpuCompiler::Create(MakeCpuTarget(std::nullopt)).value().release();
  const size_t slots = kernel.buffers.size();
  UOPD_ASSIGN(const std::string text, render::RenderAmdgpuIr({ctx, kernel.linear, kernel.name,
                                                              kernel.variables, target, slots}));
  const std::string own = ForCpu(text, kernel, slots);
  const auto object = compiler.CompileDraft(own);
  if (!object.ok()) return absl::InternalError(Cat(StatusText(object.status()), "\n", own));
  UOPD_ASSIGN(const auto code, jit.Load(*object, kernel.name));
  std::vector<int64_t> values;
  for (const std::string& v : kernel.variables) values.push_back(variables.at(v));
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  int32_t stop = 0;
  buffers.resize(slots);
  buffers.push_back(&stop);
  BlockRunner runner(target, kernel.launch.block[0].Evaluate(values));
  const int64_t blocks = kernel.launch.grid[0].Evaluate(values);
  for (int64_t block = 0; block < blocks; ++block) {
    runner.Run(block, [&](GpuThread& thread) {
      code->entry()(buffers.data(), values.data(), reinterpret_cast<int64_t>(&thread));
    });
  }
  return absl::OkStatus();
}

}  // namespace uopd::tests
