// SPDX-License-Identifier: MIT
#include "tests/perf/peers/stream_peer.h"

#include <atomic>
#include <memory>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "devices/cpu/thread_pool.h"
#include "tests/perf/peers/lines.h"

namespace uopd::perf {
namespace {

struct State {
  State(int reads, int writes, int64_t n, int threads)
      : lines(n / kLineFloats),
        in(static_cast<size_t>(reads)),
        pool(threads, std::chrono::microseconds(30)) {
    for (auto& array : in) array.resize(static_cast<size_t>(lines), Line{});
    if (writes > 0) out.resize(static_cast<size_t>(lines), Line{});
  }
  const int64_t lines;
  std::vector<Array<Line>> in;
  Array<Line> out;
  devices::cpu::ThreadPool pool;
  std::atomic<float> sum{0};  // so that what is read is needed
};

void StoreAround(Part* to, Part value) {
#if defined(__x86_64__)
  _mm_stream_ps(reinterpret_cast<float*>(to), value);
#else
  *to = value;
#endif
}

template <int kReads, bool kWrites, bool kAround>
void Loop(State& s, int64_t begin, int64_t end) {
  const Line* a = s.in[0].data();
  const Line* b = s.in[kReads - 1].data();
  Line* out = s.out.data();
  Line sums[2] = {};  // independent, as additions wait for each other
#pragma GCC unroll 2
  for (int64_t i = begin; i < end; ++i) {
    Line& sum = sums[i % 2];
#pragma GCC unroll 4
    for (int k = 0; k < kParts; ++k) {
      const Part x = kReads > 1 ? a[i].parts[k] + b[i].parts[k] : a[i].parts[k];
      if constexpr (!kWrites) {
        sum.parts[k] += x;
      } else if constexpr (kAround) {
        StoreAround(&out[i].parts[k], x);
      } else {
        out[i].parts[k] = x;
      }
    }
  }
  if constexpr (!kWrites) {
    Part all = {};
    for (const Line& line : sums)
      for (const Part& part : line.parts) all += part;
    s.sum.store(all[0]);
  };
}

template <int kReads, bool kWrites, bool kAround>
PeerRun Make(const char* name, const std::shared_ptr<State>& state, int threads) {
  return {name, [state, threads] {
            state->pool.ParallelFor(threads, [&](int64_t t) {
              Loop<kReads, kWrites, kAround>(*state, state->lines * t / threads,
                                             state->lines * (t + 1) / threads);
            });
          }};
}

}  // namespace

std::vector<PeerRun> StreamPeers(int reads, int writes, int64_t n, int threads) {
  auto state = std::make_shared<State>(reads, writes, n, threads);
  if (writes == 0) return {Make<1, false, false>("a loop", state, threads)};
  if (reads == 1)
    return {Make<1, true, false>("a loop", state, threads),
            Make<1, true, true>("a loop, stores around the caches", state, threads)};
  return {Make<2, true, false>("a loop", state, threads),
          Make<2, true, true>("a loop, stores around the caches", state, threads)};
}

}  // namespace uopd::perf
