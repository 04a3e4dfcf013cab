// SPDX-License-Identifier: MIT
// Probes: random contents of slots that show whether two programs compute the same bits.
//
// The order in which a program adds up, and the instructions that it multiplies with, do not depend
// on the data. So two programs that give equal bits for a few sets of random numbers do the same
// work in the same order: sums of random mantissas in another order nearly always differ in some
// bit.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/ir/dtype.h"

namespace uopd::engine {

// What the floats of a probe are. Integers are small in all of them.
enum class ProbeKind : uint8_t {
  kOrdinary,  // magnitudes around 1
  kWide,      // magnitudes that differ by many powers of two
  kTiny,      // denormals, and normals whose products are denormal: are they flushed to zero?
  kMixed,     // a third of each kind, one after the other
};
inline constexpr ProbeKind kProbes[] = {ProbeKind::kOrdinary, ProbeKind::kWide, ProbeKind::kTiny};
inline constexpr ProbeKind kOneProbe[] = {ProbeKind::kMixed};
// The probes of a program whose runs take this time, in nanoseconds. Each is two runs beside those
// of the clients.
inline std::span<const ProbeKind> ProbesFor(int64_t run_ns) {
  constexpr int64_t kDear = 20'000'000;
  return run_ns < kDear ? std::span<const ProbeKind>(kProbes) : kOneProbe;
}

// `bytes` bytes of elements of the dtype. The same seed gives the same bytes.
std::string ProbeData(ir::Dtype dtype, int64_t bytes, ProbeKind kind, uint64_t seed);

// True if the elements are the same, bit for bit. One NaN is as good as another: processors choose
// its bits by the order of the operands, which is no promise of a program.
bool SameElements(ir::Dtype dtype, std::string_view a, std::string_view b);

}  // namespace uopd::engine
