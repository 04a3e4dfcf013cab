// SPDX-License-Identifier: MIT
#include "devices/cpu/measure_speeds.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace uopd::devices::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5, kMemoryRuns = 3;
constexpr int64_t kSteps = 120'000;         // of a loop of arithmetic
constexpr int64_t kBytesOfAPart = 8 << 20;  // that a thread reads from memory
constexpr int64_t kLeastPart = 1 << 20;
constexpr int64_t kBytesOfARun = 8 << 20;  // read from the second level
constexpr int64_t kLine = 64;              // bytes
constexpr int kLaunches = 200;
constexpr int64_t kChains = 12;

double NsOf(auto&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The shortest of several runs.
double BestNs(auto&& work) {
  double best = NsOf(work);
  for (int i = 1; i < kRuns; ++i) best = std::min(best, NsOf(work));
  return best;
}

size_t Size(int64_t n) { return static_cast<size_t>(n); }

// Keeps a value from being computed at compile time, or not at all.
template <class T>
void Keep(T& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

#if defined(__x86_64__)

// A multiplication of 64-bit integers takes 3 cycles on every x86-64 processor since 2011 (Agner
// Fog's instruction tables). An addition does not do: some processors add up chains of constants.
double CyclesOfANs() {
  constexpr double kCycles = 3;
  uint64_t x = 3;
  const double ns = BestNs([&] {
    for (int64_t i = 0; i < kSteps; i += 4)
      asm volatile("imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0" : "+r"(x));
  });
  return kCycles * kSteps / ns;
}

// Products of whole vectors: in one chain, or in twelve, which is more than a processor needs to be
// busy. The registers hold zeros, since some numbers take longer.
#define UOPD_CHAIN(r, number) \
  asm volatile("vfmadd213ps %%" r "0, %%" r "0, %%" r number : : : "xmm" number)
#define UOPD_PRODUCT_LOOP(name, features, r)                    \
  __attribute__((target(features))) void name(int64_t chains) { \
    asm volatile("vzeroall" : : : "xmm0");                      \
    for (int64_t i = 0; chains == 1 && i < kSteps; ++i) {       \
      UOPD_CHAIN(r, "1");                                       \
    }                                                           \
    for (int64_t i = 0; chains > 1 && i < kSteps; i += 12) {    \
      UOPD_CHAIN(r, "1");                                       \
      UOPD_CHAIN(r, "2");                                       \
      UOPD_CHAIN(r, "3");                                       \
      UOPD_CHAIN(r, "4");                                       \
      UOPD_CHAIN(r, "5");                                       \
      UOPD_CHAIN(r, "6");                                       \
      UOPD_CHAIN(r, "7");                                       \
      UOPD_CHAIN(r, "8");                                       \
      UOPD_CHAIN(r, "9");                                       \
      UOPD_CHAIN(r, "10");                                      \
      UOPD_CHAIN(r, "11");                                      \
      UOPD_CHAIN(r, "12");                                      \
    }                                                           \
  }
UOPD_PRODUCT_LOOP(Products32, "avx2,fma", "ymm")
UOPD_PRODUCT_LOOP(Products64, "avx512f", "zmm")
#undef UOPD_CHAIN
#undef UOPD_PRODUCT_LOOP

// Reads all bytes, in vectors. Returns something that depends on them.
#define UOPD_READ_LOOP(name, features, vector, load, add, zero)                                \
  __attribute__((target(features))) uint64_t name(const char* bytes, int64_t n) {              \
    constexpr int64_t kSize = sizeof(vector), kTogether = 4;                                   \
    vector sums[kTogether] = {zero(), zero(), zero(), zero()};                                 \
    for (int64_t at = 0; at + kTogether * kSize <= n; at += kTogether * kSize) {               \
      for (int64_t i = 0; i < kTogether; ++i)                                                  \
        sums[i] = add(sums[i], load(reinterpret_cast<const vector*>(bytes + at + i * kSize))); \
    }                                                                                          \
    uint64_t out = 0;                                                                          \
    for (const vector& sum : sums) out ^= static_cast<uint64_t>(sum[0]);                       \
    return out;                                                                                \
  }
UOPD_READ_LOOP(Read16, "sse2", __m128i, _mm_loadu_si128, _mm_add_epi64, _mm_setzero_si128)
UOPD_READ_LOOP(Read32, "avx2", __m256i, _mm256_loadu_si256, _mm256_add_epi64, _mm256_setzero_si256)
UOPD_READ_LOOP(Read64, "avx512f", __m512i, _mm512_loadu_si512, _mm512_add_epi64,
               _mm512_setzero_si512)
#undef UOPD_READ_LOOP

// Takes the bytes out of all caches.
constexpr bool kFlushes = true;
void Flush(const char* bytes, int64_t n) {
  for (int64_t at = 0; at < n; at += kLine) _mm_clflush(bytes + at);
  _mm_mfence();
}

using ReadLoop = uint64_t (*)(const char* bytes, int64_t n);
ReadLoop ReaderFor(const Target& target) {
  return target.vector_bytes >= 64 ? Read64 : target.vector_bytes >= 32 ? Read32 : Read16;
}

void MeasureProducts(const Target& target, Speeds& out) {
  if (!target.has_fma || target.vector_bytes < 32) return;
  void (*const loop)(int64_t) = target.vector_bytes >= 64 ? Products64 : Products32;
  out.product_cycles = BestNs([&] { loop(1); }) * out.clock_ghz / kSteps;
  out.vector_products = kSteps / (BestNs([&] { loop(kChains); }) * out.clock_ghz);
}

#else

double CyclesOfANs() { return 0; }
void MeasureProducts(const Target&, Speeds&) {}

constexpr bool kFlushes = false;
void Flush(const char*, int64_t) {}

using ReadLoop = uint64_t (*)(const char* bytes, int64_t n);
ReadLoop ReaderFor(const Target&) {
  return [](const char* bytes, int64_t n) {
    uint64_t sum = 0, word = 0;
    for (int64_t at = 0; at + 8 <= n; at += 8) {
      std::memcpy(&word, bytes + at, sizeof word);
      sum += word;
    }
    return sum;
  };
}

#endif

double SecondLevelBytes(const Target& target, double clock_ghz) {
  if (target.caches.size() < 2) return 0;
  // More than the first level, and half of the second one.
  const int64_t n = target.OwnCacheBytes() / 2;
  if (n < 2 * target.caches[0].bytes) return 0;
  const std::vector<char> bytes(Size(n), 1);
  const int64_t times = std::max<int64_t>(kBytesOfARun / n, 1);
  const ReadLoop read = ReaderFor(target);
  const double ns = BestNs([&] {
    for (int64_t i = 0; i < times; ++i) {
      uint64_t sum = read(bytes.data(), n);
      Keep(sum);
    }
  });
  return static_cast<double>(n * times) / (ns * clock_ghz);
}

// What all threads get from memory together, for each of them.
double MemoryBytes(const Target& target, ThreadPool& threads, int64_t most_bytes,
                   double clock_ghz) {
  const int64_t parts = threads.threads();
  const int64_t part = std::min(kBytesOfAPart, most_bytes / parts);
  if (!kFlushes || part < kLeastPart) return 0;
  const auto bytes = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(part * parts));
  const auto part_of = [&](int64_t i) { return bytes.get() + i * part; };
  threads.ParallelFor(parts, [&](int64_t i) { std::memset(part_of(i), 1, Size(part)); });
  const ReadLoop read = ReaderFor(target);
  double best = 0;
  for (int run = 0; run < kMemoryRuns; ++run) {
    threads.ParallelFor(parts, [&](int64_t i) { Flush(part_of(i), part); });
    const double ns = NsOf([&] {
      threads.ParallelFor(parts, [&](int64_t i) {
        uint64_t sum = read(part_of(i), part);
        Keep(sum);
      });
    });
    best = std::max(best, static_cast<double>(part) / (ns * clock_ghz));
  }
  return best;
}

double ThreadNs(ThreadPool& threads) {
  if (threads.threads() < 2) return 0;
  std::vector<double> times;
  for (int i = 0; i < kLaunches; ++i) {
    times.push_back(
        NsOf([&] { threads.ParallelFor(threads.threads(), [](int64_t i) { Keep(i); }); }));
  }
  std::ranges::nth_element(times, times.begin() + kLaunches / 2);
  return times[kLaunches / 2];
}

}  // namespace

Speeds MeasureSpeeds(const Target& target, ThreadPool& threads, int64_t most_bytes) {
  Speeds out = *Speeds::FromText("");
  out.thread_ns = ThreadNs(threads);
  out.clock_ghz = CyclesOfANs();
  if (out.clock_ghz == 0) return out;
  MeasureProducts(target, out);
  out.second_level_bytes = SecondLevelBytes(target, out.clock_ghz);
  out.memory_bytes = MemoryBytes(target, threads, most_bytes, out.clock_ghz);
  return out;
}

}  // namespace uopd::devices::cpu
