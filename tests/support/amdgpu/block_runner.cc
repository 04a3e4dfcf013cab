// SPDX-License-Identifier: MIT
#include "tests/support/amdgpu/block_runner.h"

#include <cstring>

#include "core/base/status.h"
#include "core/ir/dtype.h"

namespace uopd::tests {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;

double ElementOf(ir::Dtype dtype, const void* from, int64_t index) {
  const int bytes = ir::ByteSize(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const std::byte*>(from) + index * bytes,
              static_cast<size_t>(bytes));
  if (ir::IsFloat(dtype)) return ir::DecodeFloat(dtype, bits);
  return dtype == ir::Dtype::I8 ? static_cast<int8_t>(bits) : static_cast<uint8_t>(bits);
}

}  // namespace

BlockRunner::BlockRunner(const Target& target, int64_t threads)
    : target_(target),
      states_(static_cast<size_t>(threads)),
      warps_(static_cast<size_t>((threads + target.warp_lanes - 1) / target.warp_lanes)) {
  for (State& s : states_) s.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
}

void BlockRunner::Enter(unsigned low, unsigned high) {
  auto* thread = reinterpret_cast<GpuThread*>(uintptr_t{low} | uintptr_t{high} << 32);
  BlockRunner& self = *thread->runner;
  State& state = self.states_[self.NumberOf(thread)];
  (*self.body_)(*thread);
  state.done = true;
  swapcontext(&state.context, &self.scheduler_);
}

void BlockRunner::Run(int64_t block, const std::function<void(GpuThread&)>& body) {
  body_ = &body;
  for (size_t i = 0; i < states_.size(); ++i) {
    State& s = states_[i];
    s.done = false;
    s.thread = {.lane = static_cast<int32_t>(i) % target_.warp_lanes,
                .wait = Wait,
                .permute = Permute,
                .multiply = Multiply,
                .runner = this};
    s.thread.block[0] = static_cast<int32_t>(block);
    s.thread.number[0] = static_cast<int32_t>(i);
    getcontext(&s.context);
    s.context.uc_stack.ss_sp = s.stack.get();
    s.context.uc_stack.ss_size = kStackBytes;
    s.context.uc_link = nullptr;
    const auto at = reinterpret_cast<uintptr_t>(&s.thread);
    makecontext(&s.context, reinterpret_cast<void (*)()>(Enter), 2, static_cast<unsigned>(at),
                static_cast<unsigned>(at >> 32));
  }
  // All threads come to the same points, so that one turn of each is one wait of all.
  for (bool any = true; any;) {
    any = false;
    for (State& s : states_) {
      if (s.done) continue;
      swapcontext(&scheduler_, &s.context);
      any |= !s.done;
    }
  }
}

void BlockRunner::Wait(GpuThread* thread) {
  BlockRunner& self = *thread->runner;
  swapcontext(&self.states_[self.NumberOf(thread)].context, &self.scheduler_);
}

int32_t BlockRunner::Permute(GpuThread* thread, int32_t from, int32_t word) {
  BlockRunner& self = *thread->runner;
  const size_t number = self.NumberOf(thread);
  self.states_[number].word = word;
  Wait(thread);
  const size_t first = number - static_cast<size_t>(thread->lane);
  const int32_t out = self.states_.at(first + static_cast<size_t>(from / 4)).word;
  Wait(thread);  // before the word is written again
  return out;
}

void BlockRunner::Multiply(GpuThread* thread, int32_t dtype, const void* a, const void* b,
                           const void* sum, void* out) {
  BlockRunner& self = *thread->runner;
  const MatrixInstruction* found = nullptr;
  for (const MatrixInstruction& i : self.target_.matrix_instructions) {
    if (i.of_warp() && static_cast<int32_t>(i.a) == dtype) found = &i;
  }
  UOPD_CHECK(found != nullptr);
  const MatrixInstruction& of = *found;
  const auto elements = *ir::DtypeByWire(static_cast<uint64_t>(of.a));
  Matrices& warp =
      self.warps_[self.NumberOf(thread) / static_cast<size_t>(self.target_.warp_lanes)];
  const auto at = [](int64_t row, int64_t columns, int64_t column) {
    return static_cast<size_t>(row * columns + column);
  };
  warp.a.resize(at(of.m, of.k, 0));
  warp.b.resize(at(of.k, of.n, 0));
  const int64_t lane = thread->lane;
  for (int64_t e = 0; e < of.a_place.elements(); ++e)
    warp.a[at(of.a_place.Place('r', lane, e), of.k, of.a_place.Place('k', lane, e))] =
        ElementOf(elements, a, e);
  for (int64_t e = 0; e < of.b_place.elements(); ++e)
    warp.b[at(of.b_place.Place('k', lane, e), of.n, of.b_place.Place('c', lane, e))] =
        ElementOf(elements, b, e);
  Wait(thread);
  for (int64_t e = 0; e < of.sum_place.elements(); ++e) {
    const int64_t r = of.sum_place.Place('r', lane, e), c = of.sum_place.Place('c', lane, e);
    double total = 0;
    for (int64_t k = 0; k < of.k; ++k) total += warp.a[at(r, of.k, k)] * warp.b[at(k, of.n, c)];
    if (of.sum == DtypeNumber::F32) {
      static_cast<float*>(out)[e] = static_cast<float>(static_cast<const float*>(sum)[e] + total);
    } else {
      static_cast<int32_t*>(out)[e] =
          static_cast<int32_t>(static_cast<uint32_t>(static_cast<const int32_t*>(sum)[e]) +
                               static_cast<uint32_t>(static_cast<int64_t>(total)));
    }
  }
  Wait(thread);  // before the matrices are written again
}

}  // namespace uopd::tests
