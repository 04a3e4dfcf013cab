// SPDX-License-Identifier: MIT
#include "core/base/target/speeds.h"

#include <algorithm>
#include <charconv>

#include "core/base/text.h"

namespace uopd {
namespace {

// What cost models take for every chip but its clock: an H100. Sources: NVIDIA's white paper of
// H100 (products, shared memory), its data sheet (memory: 3.35 TB/s, and 4.8 TB/s of an H200, for
// 132 processors). The second level, the barrier and the launch are about what kernels showed on an
// H200; no run of their own is kept. Each field decides tiles, so a chip gets a figure of its own
// together with timings of its kernels.
constexpr Speeds kGpu = {
    .vector_products = 0,
    .products = 128,
    .warp_products = 1024,
    .warpgroup_products = 2048,
    .shared_bytes = 128,
    .second_level_bytes = 40,
    .memory_bytes = 16,
    .product_cycles = 4,
    .barrier_cycles = 40,
    .launch_cycles = 6000,
    .thread_ns = 0,
    .clock_ghz = 1.95,  // of a chip without a row below: about an H100
};

// The highest clocks, which say how long a launch takes at least. Sources: the makers' data sheets
// of RTX 6000, A100, A6000, L40S, H100 SXM, B200, RTX 5090, MI250X, MI300X, RX 7900 XTX, RX 9070
// XT.
struct ChipClock {
  std::string_view arch;
  double ghz;
};
constexpr ChipClock kClocks[] = {
    {"sm_75", 1.77},  {"sm_80", 1.41},  {"sm_86", 1.80},   {"sm_89", 2.52},
    {"sm_90", 1.98},  {"sm_90a", 1.98}, {"sm_100", 1.97},  {"sm_120", 2.41},
    {"gfx90a", 1.70}, {"gfx942", 2.10}, {"gfx1100", 2.50}, {"gfx1201", 2.97},
};

}  // namespace

Speeds Speeds::OfGpu(std::string_view arch) {
  Speeds out = kGpu;
  const auto chip = std::ranges::find(kClocks, arch, &ChipClock::arch);
  if (chip != std::end(kClocks)) out.clock_ghz = chip->ghz;
  return out;
}

std::span<const Speeds::Field> Speeds::Fields() {
  static constexpr Field kFields[] = {
      {"vector_products", "a cycle", &Speeds::vector_products},
      {"products", "a cycle", &Speeds::products},
      {"warp_products", "a cycle", &Speeds::warp_products},
      {"warpgroup_products", "a cycle", &Speeds::warpgroup_products},
      {"shared_bytes", "bytes a cycle", &Speeds::shared_bytes},
      {"second_level_bytes", "bytes a cycle", &Speeds::second_level_bytes},
      {"memory_bytes", "bytes a cycle", &Speeds::memory_bytes},
      {"product_cycles", "cycles", &Speeds::product_cycles},
      {"barrier_cycles", "cycles", &Speeds::barrier_cycles},
      {"launch_cycles", "cycles", &Speeds::launch_cycles},
      {"thread_ns", "ns", &Speeds::thread_ns},
      {"clock_ghz", "GHz", &Speeds::clock_ghz},
  };
  return kFields;
}

std::string Speeds::Text() const {
  std::string out;
  for (const Field& field : Fields()) {
    const double value = this->*field.value;
    if (value != 0) Append(out, out.empty() ? "" : " ", field.name, "=", value);
  }
  return out;
}

std::optional<Speeds> Speeds::FromText(std::string_view text) {
  Speeds out;
  for (const Field& field : Fields()) out.*field.value = 0;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equals = item.find('=');
    const auto field = std::ranges::find(Fields(), item.substr(0, equals), &Field::name);
    if (equals == std::string_view::npos || field == Fields().end()) return std::nullopt;
    const std::string_view digits = item.substr(equals + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out.*field->value);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  }
  return out;
}

}  // namespace uopd
