// SPDX-License-Identifier: MIT
#include "tests/perf/peers/gather_peer.h"

#include <algorithm>
#include <memory>
#include <random>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "devices/cpu/thread_pool.h"
#include "tests/perf/peers/lines.h"

namespace uopd::perf {
namespace {

constexpr int64_t kAhead = 32;  // rows

struct State {
  State(int64_t rows, int64_t columns, int threads)
      : lines(columns / kLineFloats),
        table(static_cast<size_t>(rows * lines), Line{}),
        out(table.size(), Line{}),
        pool(threads, std::chrono::microseconds(30)) {
    std::mt19937_64 random(1);
    for (int64_t i = 0; i < rows; ++i)
      index.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(rows)));
  }
  const int64_t lines;  // of a row
  Array<Line> table, out;
  Array<int32_t> index;
  devices::cpu::ThreadPool pool;
};

template <bool kAround>
void Loop(State& s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const Line* next = &s.table[static_cast<size_t>(
        s.index[static_cast<size_t>(std::min(i + kAhead, end - 1))] * s.lines)];
    for (int64_t l = 0; l < s.lines; ++l) __builtin_prefetch(next + l, 0, 2);
    const Line* from = &s.table[static_cast<size_t>(s.index[static_cast<size_t>(i)] * s.lines)];
    Line* to = &s.out[static_cast<size_t>(i * s.lines)];
    for (int64_t l = 0; l < s.lines; ++l) {
      for (int k = 0; k < kParts; ++k) {
#if defined(__x86_64__)
        if constexpr (kAround) {
          _mm_stream_ps(reinterpret_cast<float*>(&to[l].parts[k]), from[l].parts[k]);
          continue;
        }
#endif
        to[l].parts[k] = from[l].parts[k];
      }
    }
  }
}

template <bool kAround>
PeerRun Make(const char* name, const std::shared_ptr<State>& state, int threads) {
  return {name, [state, threads] {
            const auto rows = static_cast<int64_t>(state->index.size());
            state->pool.ParallelFor(threads, [&](int64_t t) {
              Loop<kAround>(*state, rows * t / threads, rows * (t + 1) / threads);
            });
          }};
}

}  // namespace

std::vector<PeerRun> GatherPeers(int64_t rows, int64_t columns, int threads) {
  auto state = std::make_shared<State>(rows, columns, threads);
  return {Make<false>("a prefetching loop", state, threads),
          Make<true>("a prefetching loop, stores around the caches", state, threads)};
}

}  // namespace uopd::perf
