// SPDX-License-Identifier: MIT
#include "core/base/target/target.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd {

std::string_view Name(DtypeNumber dtype) {
  switch (dtype) {
#define UOPD_DTYPE(name, text, ...) \
  case DtypeNumber::name:           \
    return text;
#include "core/base/target/dtype.def"
#undef UOPD_DTYPE
  }
  return "?";
}

int64_t Target::OwnCacheBytes() const {
  constexpr int64_t kUnknown = 256 << 10;
  if (caches.empty()) return kUnknown;
  const CacheLevel& cache = caches[std::min<size_t>(1, caches.size() - 1)];
  return cache.bytes / std::max(cache.shared_by, 1);
}

std::string Target::Key() const {
  const auto three = [](const int64_t(&v)[3]) { return Cat(v[0], "x", v[1], "x", v[2]); };
  std::string out =
      Cat("kind=", kind, " arch=", arch, " features=", features, " toolchain=", toolchain,
          " text=", static_cast<int>(format), " vector_lanes=", vector_lanes,
          " fma=", has_fma ? 1 : 0, " scaling=", has_scaling ? 1 : 0, " exp2=", has_exp2 ? 1 : 0,
          " max=", has_max ? 1 : 0, " dtypes=", dtypes.bits(), " matrix=");
  for (const MatrixInstruction& i : matrix_instructions) {
    Append(out, i.name, ":", i.m, "x", i.n, "x", i.k, ":", Name(i.a), ":", Name(i.b), ":",
           Name(i.sum));
    if (i.of_warp())
      Append(out, ":", i.a_place.Text(), ":", i.b_place.Text(), ":", i.sum_place.Text());
    out += ',';
  }
  Append(out, " vector_bytes=", vector_bytes, " vector_registers=", vector_registers,
         " private_bytes=", private_bytes, " caches=");
  for (const CacheLevel& cache : caches) Append(out, cache.bytes, "/", cache.shared_by, ",");
  Append(out, " threads=", threads, " warp_lanes=", warp_lanes, " max_buffers=", max_buffers,
         " blocks=", blocks ? 1 : 0, " shuffles=", shuffles ? 1 : 0,
         " matrix_loads=", matrix_loads ? 1 : 0, " async_copies=", async_copies ? 1 : 0,
         " bulk_copies=", bulk_copies ? 1 : 0, " narrow_index=", narrow_index ? 1 : 0,
         " units=", units, " max_grid=", three(max_grid), " max_block=", three(max_block),
         " max_block_threads=", max_block_threads, " shared_bytes=", shared_bytes);
  // The speeds of a chip follow from its name, and no kernel of a CPU depends on its clock.
  Speeds mine = speeds;
  if (!blocks) mine.clock_ghz = 0;
  if (mine != (blocks ? Speeds::OfGpu(arch) : Speeds())) Append(out, " speeds=", mine.Text());
  return out;
}

}  // namespace uopd
