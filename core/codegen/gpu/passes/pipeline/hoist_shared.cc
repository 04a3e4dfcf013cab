// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/hoist_shared.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;

UOp HoistShared(ir::UOpContext& ctx, UOp linear) {
  const auto lines = linear.srcs();
  const auto first = std::ranges::find_if(lines, [](UOp u) { return u.Is(Op::ROLE); });
  if (first == lines.end()) return linear;
  absl::flat_hash_map<uint32_t, uint32_t> owner;  // lines of roles -> the ROLE
  absl::flat_hash_set<uint32_t> shared;
  UOp role;
  for (UOp u : std::span(first, lines.end())) {
    if (u.Is(Op::ROLE)) role = u;
    for (UOp s : u.srcs()) {
      const auto it = owner.find(s.id());
      if (it != owner.end() && it->second != role.id()) shared.insert(s.id());
    }
    if (!u.Is({Op::ROLE, Op::ROLE_END})) owner[u.id()] = role.id();
  }
  if (shared.empty()) return linear;
  // What they are made of.
  for (size_t i = lines.size(); i-- > 0;) {
    if (!shared.contains(lines[i].id())) continue;
    for (UOp s : lines[i].srcs()) {
      if (owner.contains(s.id())) shared.insert(s.id());
    }
  }
  const auto is_shared = [&](UOp u) { return shared.contains(u.id()); };
  std::vector<UOp> out(lines.begin(), first);
  std::copy_if(first, lines.end(), std::back_inserter(out), is_shared);
  std::copy_if(first, lines.end(), std::back_inserter(out), std::not_fn(is_shared));
  return ctx.Make(Op::LINEAR, ir::Dtype::Void, out, linear.arg(), linear.tag());
}

}  // namespace uopd::codegen
