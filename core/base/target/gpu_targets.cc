// SPDX-License-Identifier: MIT
#include "core/base/target/gpu_targets.h"

#include <algorithm>
#include <limits>

#include "core/base/target/matrix_instructions.h"

namespace uopd {
namespace {

struct Chip {
  std::string_view arch;
  int units;           // of the largest chip
  int64_t shared_kib;  // that one block can have
  int64_t second_level_mib;
  int capability = 0;  // of NVIDIA: 80 is 8.0
  int warp_lanes = 32;
};
// Sources: CUDA C programming guide, technical specifications per compute capability; AMD's white
// papers of CDNA2, CDNA3, RDNA3 and RDNA4.
constexpr Chip kChips[] = {
    {"sm_75", 72, 64, 6, 75},       {"sm_80", 108, 163, 40, 80},  {"sm_86", 84, 99, 6, 86},
    {"sm_89", 128, 99, 72, 89},     {"sm_90", 132, 227, 50, 90},  {"sm_90a", 132, 227, 50, 90},
    {"sm_100", 148, 227, 126, 100}, {"sm_120", 170, 99, 96, 120}, {"gfx90a", 104, 64, 8, 0, 64},
    {"gfx942", 304, 64, 4, 0, 64},  {"gfx1100", 96, 64, 6},       {"gfx1201", 64, 64, 8},
    {"opencl", 8, 32, 4, 0, 1},     {"metal", 16, 32, 8},
};

}  // namespace

void AddNvidiaInstructions(int capability, Target& target) {
  target.has_exp2 = true;
  target.has_max = capability >= 80;
  if (capability < 80) return;
  target.dtypes.Add(DtypeNumber::BF16);
  target.dtypes.Add(DtypeNumber::TF32);
}

std::optional<Target> GpuTarget(std::string_view arch) {
  const auto* chip = std::find_if(std::begin(kChips), std::end(kChips),
                                  [&](const Chip& c) { return c.arch == arch; });
  if (chip == std::end(kChips)) return std::nullopt;
  Target out;
  out.arch = arch;
  out.toolchain = "none";
  out.blocks = out.narrow_index = true;
  out.units = chip->units;
  out.warp_lanes = chip->warp_lanes;
  out.shuffles = chip->warp_lanes > 1;
  out.shared_bytes = chip->shared_kib << 10;
  out.vector_bytes = 16;  // of an access
  out.vector_lanes = 16;
  out.vector_registers = 255;
  out.private_bytes = 16 << 10;
  out.caches = {{chip->shared_kib << 10, 1}, {chip->second_level_mib << 20, chip->units}};
  std::fill_n(out.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(out.max_block, 3, int64_t{1024});
  out.max_block_threads = 1024;
  out.speeds = Speeds::OfGpu(arch);
  if (chip->capability > 0) {
    out.kind = "cuda";
    out.format = CodeFormat::kCudaC;
    out.matrix_instructions = NvidiaMatrixInstructions(chip->capability);
    // Instructions of one warp come first: tiles of any size have some.
    if (arch == "sm_90a") {
      for (MatrixInstruction& i : WarpgroupMatrixInstructions())
        out.matrix_instructions.push_back(std::move(i));
      out.bulk_copies = true;
    }
    out.matrix_loads = chip->capability >= 75;
    out.async_copies = chip->capability >= 80;
    AddNvidiaInstructions(chip->capability, out);
  } else if (arch.starts_with("gfx")) {
    out.kind = "hip";
    out.format = CodeFormat::kHipC;
    out.shared_bytes -= 128;  // for the word by which the threads of a block poll together
    out.matrix_instructions = AmdMatrixInstructions(arch);
  } else if (arch == "metal") {
    out.kind = "metal";
    out.format = CodeFormat::kMetal;
    using enum DtypeNumber;
    out.dtypes = {Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32};
  } else {
    out.kind = "opencl";
    out.format = CodeFormat::kOpenClC;
    out.max_block_threads = 256;
    std::fill_n(out.max_block, 3, int64_t{256});
  }
  return out;
}

std::vector<std::string_view> GpuArchitectures() {
  std::vector<std::string_view> out;
  for (const Chip& c : kChips) out.push_back(c.arch);
  return out;
}

}  // namespace uopd
