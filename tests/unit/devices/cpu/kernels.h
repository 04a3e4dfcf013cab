// SPDX-License-Identifier: MIT
// LLVM IR kernels for the tests of devices/cpu, of the ABI of cpu_device.h. Constants.
#pragma once

namespace uopd::devices::cpu {

// b2[i] = b0[i] + b1[i] for i in [0, v0), f32
inline constexpr char kAdd[] = R"(
define void @add(ptr %buffers, ptr %vars, i64 %thread) {
entry:
  %a = load ptr, ptr %buffers
  %pb = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %pb
  %pc = getelementptr ptr, ptr %buffers, i64 2
  %c = load ptr, ptr %pc
  %n = load i64, ptr %vars
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %loop, label %exit
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pai = getelementptr float, ptr %a, i64 %i
  %pbi = getelementptr float, ptr %b, i64 %i
  %pci = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pai
  %y = load float, ptr %pbi
  %z = fadd float %x, %y
  store float %z, ptr %pci
  %next = add nuw nsw i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
)";

// b0[thread] += v0 * b1[thread], f64
inline constexpr char kSaxpy[] = R"(
define void @saxpy(ptr %buffers, ptr %vars, i64 %thread) {
  %y = load ptr, ptr %buffers
  %px = getelementptr ptr, ptr %buffers, i64 1
  %x = load ptr, ptr %px
  %v = load i64, ptr %vars
  %a = sitofp i64 %v to double
  %pxi = getelementptr double, ptr %x, i64 %thread
  %pyi = getelementptr double, ptr %y, i64 %thread
  %xi = load double, ptr %pxi
  %yi = load double, ptr %pyi
  %p = fmul double %a, %xi
  %s = fadd double %yi, %p
  store double %s, ptr %pyi
  ret void
}
)";

// b0[thread] = 1, i32, and then nothing until it is stopped
inline constexpr char kEndless[] = R"(
define void @endless(ptr %buffers, ptr %vars, i64 %thread) {
entry:
  %out = load ptr, ptr %buffers
  %ps = getelementptr ptr, ptr %buffers, i64 -1
  %stop = load ptr, ptr %ps
  %po = getelementptr i32, ptr %out, i64 %thread
  store atomic i32 1, ptr %po monotonic, align 4
  br label %loop
loop:
  %word = load atomic i32, ptr %stop monotonic, align 4
  %go = icmp eq i32 %word, 0
  br i1 %go, label %loop, label %exit
exit:
  ret void
}
)";

// b0[thread] = thread, i64
inline constexpr char kIndex[] = R"(
define void @index(ptr %buffers, ptr %vars, i64 %thread) {
  %out = load ptr, ptr %buffers
  %p = getelementptr i64, ptr %out, i64 %thread
  store i64 %thread, ptr %p
  ret void
}
)";

// b0[thread] = pow(exp2f(b1[thread]), 1.5): libm in both widths
inline constexpr char kMath[] = R"(
declare float @exp2f(float)
declare double @pow(double, double)
define void @math(ptr %buffers, ptr %vars, i64 %thread) {
  %out = load ptr, ptr %buffers
  %pin = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %pin
  %pi = getelementptr float, ptr %in, i64 %thread
  %x = load float, ptr %pi
  %e = call float @exp2f(float %x)
  %d = fpext float %e to double
  %q = call double @pow(double %d, double 1.5)
  %po = getelementptr double, ptr %out, i64 %thread
  store double %q, ptr %po
  ret void
}
)";

// b1[thread] = bf16(b0[thread]), b2[thread] = f16(b0[thread]), and back again to b3 and b4; b0, b3,
// b4 are f32
inline constexpr char kConvert[] = R"(
define void @convert(ptr %buffers, ptr %vars, i64 %thread) {
  %in = load ptr, ptr %buffers
  %p1 = getelementptr ptr, ptr %buffers, i64 1
  %bf = load ptr, ptr %p1
  %p2 = getelementptr ptr, ptr %buffers, i64 2
  %hf = load ptr, ptr %p2
  %p3 = getelementptr ptr, ptr %buffers, i64 3
  %bo = load ptr, ptr %p3
  %p4 = getelementptr ptr, ptr %buffers, i64 4
  %ho = load ptr, ptr %p4
  %pi = getelementptr float, ptr %in, i64 %thread
  %x = load float, ptr %pi
  %b = fptrunc float %x to bfloat
  %h = fptrunc float %x to half
  %pb = getelementptr bfloat, ptr %bf, i64 %thread
  store bfloat %b, ptr %pb
  %ph = getelementptr half, ptr %hf, i64 %thread
  store half %h, ptr %ph
  %bx = fpext bfloat %b to float
  %pbo = getelementptr float, ptr %bo, i64 %thread
  store float %bx, ptr %pbo
  %hx = fpext half %h to float
  %pho = getelementptr float, ptr %ho, i64 %thread
  store float %hx, ptr %pho
  ret void
}
)";

// b1[thread] = bf16(b0[thread]), from f64
inline constexpr char kDoubleToBfloat[] = R"(
define void @narrow(ptr %buffers, ptr %vars, i64 %thread) {
  %in = load ptr, ptr %buffers
  %p1 = getelementptr ptr, ptr %buffers, i64 1
  %out = load ptr, ptr %p1
  %pi = getelementptr double, ptr %in, i64 %thread
  %x = load double, ptr %pi
  %b = fptrunc double %x to bfloat
  %po = getelementptr bfloat, ptr %out, i64 %thread
  store bfloat %b, ptr %po
  ret void
}
)";

// b0[0] = b1[0] / b1[1], i128
inline constexpr char kDivide128[] = R"(
define void @divide(ptr %buffers, ptr %vars, i64 %thread) {
  %out = load ptr, ptr %buffers
  %p1 = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %p1
  %a = load i128, ptr %in
  %pb = getelementptr i128, ptr %in, i64 1
  %b = load i128, ptr %pb
  %q = sdiv i128 %a, %b
  store i128 %q, ptr %out
  ret void
}
)";

// Calls into the process around it, which it may not.
inline constexpr char kEscape[] = R"(
declare i32 @getpid()
define void @escape(ptr %buffers, ptr %vars, i64 %thread) {
  %out = load ptr, ptr %buffers
  %pid = call i32 @getpid()
  store i32 %pid, ptr %out
  ret void
}
)";

}  // namespace uopd::devices::cpu
