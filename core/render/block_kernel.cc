// SPDX-License-Identifier: MIT
#include "core/render/block_kernel.h"

#include <algorithm>

namespace uopd::render {

using ir::Op;
using ir::UOp;

BlockKernel BlockKernel::Of(UOp linear, size_t buffers) {
  BlockKernel out;
  out.slots.resize(buffers);
  out.maps = ir::TensorMapsOf(linear);
  for (UOp u : linear.srcs()) {
    if (u.Is({Op::BARRIER, Op::SHUFFLE, Op::MMA, Op::MATRIX_LOAD, Op::ASYNC_COPY, Op::BULK_WAIT,
              Op::GROUP_MMA}))
      out.together = true;
    if (u.Is({Op::GROUP_MMA, Op::BULK_COPY})) {
      out.has_groups |= u.Is(Op::GROUP_MMA);
      out.shared_alignment = ir::SharedLayout::kMostAlignment;
    }
    if (u.Is(Op::ROLE)) out.roles.push_back(ir::WarpRole::Of(u));
    if (u.Is(Op::PARAM)) {
      const auto slot = static_cast<size_t>(u.slot());
      out.slots.resize(std::max(out.slots.size(), slot + 1));
      out.slots[slot] = u;
    }
    if (u.Is(Op::SPECIAL) && static_cast<ir::AxisType>(u.ints()[0]) == ir::AxisType::LOCAL)
      out.threads = u.src(0).const_int();
    if (!u.Is(Op::STORE)) continue;
    if (const UOp base = ir::MaybeBaseOf(u.src(0).src(0)); base.Is(Op::PARAM))
      out.stored.insert(base.slot());
  }
  return out;
}

const ir::WarpRole& BlockKernel::RoleOf(UOp role) const {
  return *std::ranges::find(roles, ir::WarpRole::Of(role).first, &ir::WarpRole::first);
}

size_t BlockKernel::MapNumber(UOp copy) const {
  const auto it = std::ranges::find(maps, *ir::MaybeTensorMap(copy));
  return static_cast<size_t>(it - maps.begin());
}

int64_t WideLanes(UOp index, int64_t most_bytes, Alignment& alignment) {
  const int64_t n = index.arg().AsInt(), bytes = ir::ByteSize(index.dtype());
  if (n < 2 || IsRegister(ir::MaybeBaseOf(index.src(0)))) return 1;
  int64_t lanes = std::min(most_bytes / bytes, alignment.Of(index.src(1)));
  while (lanes > 1 && n % lanes != 0) lanes /= 2;
  return lanes;
}

}  // namespace uopd::render
