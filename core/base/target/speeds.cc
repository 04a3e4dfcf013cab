// SPDX-License-Identifier: MIT
#include "core/base/target/speeds.h"

#include <algorithm>
#include <charconv>

#include "core/base/text.h"

namespace uopd {
namespace {

// What cost models take for every chip: an H100 at its highest clock. Sources: NVIDIA's white paper
// of H100 (products, shared memory); the second level, the memory, the barrier and the launch were
// measured on H100 and H200 (docs/figures.md).
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
    .clock_ghz = 1.95,
};

}  // namespace

Speeds Speeds::OfGpu(std::string_view /*arch*/) { return kGpu; }

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
