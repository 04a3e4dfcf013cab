// SPDX-License-Identifier: MIT
#include "devices/cpu/thread_pool.h"

#include <atomic>
#include <numeric>
#include <set>

#include "gtest/gtest.h"

namespace uopd::devices::cpu {
namespace {

using std::chrono::microseconds;

TEST(ThreadPoolTest, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads, microseconds(20));
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t n : {0, 1, 2, 3, 100, 1000}) {
      std::vector<int> hits(n, 0);  // not atomic: each index belongs to one thread
      pool.ParallelFor(n, [&](int64_t i) { ++hits[i]; });
      EXPECT_EQ(hits, std::vector<int>(n, 1));
    }
  }
}

TEST(ThreadPoolTest, OneIndexStaysOnTheCaller) {
  ThreadPool pool(4, microseconds(20));
  for (int i = 0; i < 100; ++i) {
    std::thread::id id;
    pool.ParallelFor(1, [&](int64_t) { id = std::this_thread::get_id(); });
    EXPECT_EQ(id, std::this_thread::get_id());
  }
}

TEST(ThreadPoolTest, IndicesRunAtTheSameTime) {
  // Each index waits until all have begun, so one thread alone would never finish.
  for (microseconds spin : {microseconds(0), microseconds(50)}) {
    ThreadPool pool(4, spin);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> begun = 0;
      pool.ParallelFor(4, [&](int64_t) {
        ++begun;
        while (begun.load() < 4) std::this_thread::yield();
      });
      EXPECT_EQ(begun.load(), 4);
    }
  }
}

// Plain (not atomic) data goes from the caller to the workers and back: ThreadSanitizer checks that
// it is ordered.
TEST(ThreadPoolTest, FourCallersShareThePool) {
  for (microseconds spin : {microseconds(0), microseconds(30)}) {
    ThreadPool pool(3, spin);
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&, c] {
        for (int round = 0; round < 500; ++round) {
          const int64_t n = 2 + (round * 7 + c) % 13;
          std::vector<int64_t> in(n), out(n, -1);
          std::iota(in.begin(), in.end(), round);
          pool.ParallelFor(n, [&](int64_t i) { out[i] = in[i] * 2; });
          int64_t sum = std::accumulate(out.begin(), out.end(), int64_t{0});
          ASSERT_EQ(sum, 2 * n * round + n * (n - 1));
        }
      });
    }
    for (auto& caller : callers) caller.join();
  }
}

TEST(ThreadPoolTest, LoopsNest) {
  ThreadPool pool(3, microseconds(20));
  std::atomic<int64_t> sum = 0;
  pool.ParallelFor(8,
                   [&](int64_t i) { pool.ParallelFor(8, [&](int64_t j) { sum += i * 8 + j; }); });
  EXPECT_EQ(sum.load(), 64 * 63 / 2);
}

TEST(ThreadPoolTest, StopsWhetherParkedOrSpinning) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(4, microseconds(i % 2 ? 0 : 100));
    if (i % 3) pool.ParallelFor(4, [](int64_t) {});
  }
}

}  // namespace
}  // namespace uopd::devices::cpu
