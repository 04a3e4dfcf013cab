// SPDX-License-Identifier: MIT
// PACK on targets with blocks.
#include <algorithm>
#include <tuple>

#include "core/codegen/opts/make/pack_value.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::UOp;

UOp PackShared(ir::UOpContext& ctx, UOp value, std::span<const PackPart> parts, int64_t& next_id) {
  // A row holds the elements of one step of the reduction, each axis in its own order: a thread
  // reads its copies and lanes as vectors, and the threads of a warp read one row.
  std::vector<PackPart> layout(parts.begin(), parts.end());
  std::sort(layout.begin(), layout.end(), [](const PackPart& a, const PackPart& b) {
    const auto place = [](const PackPart& p) { return std::tuple(!p.reduced, p.axis, -p.stride); };
    return place(a) < place(b);
  });
  ir::Substitution fresh;
  std::vector<UOp> closed;
  for (const PackPart& p : layout) {
    closed.push_back(Range(ctx, p.range.src(0), next_id++, AxisType::REDUCE));
    fresh[p.range.id()] = closed.back();
  }
  return LoadFromArray(ctx, value, layout, fresh, closed);
}

}  // namespace uopd::codegen
