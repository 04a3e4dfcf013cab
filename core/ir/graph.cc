// SPDX-License-Identifier: MIT
#include "core/ir/graph.h"

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "core/base/text.h"
#include "core/ir/tables/node_index.h"

namespace uopd::ir {
namespace {

// kValues: only sources that values are computed from.
template <bool kValues, class Enter>
std::vector<UOp> Sort(const UOpContext& ctx, std::span<const UOp> roots, Enter enter) {
  std::vector<UOp> order;
  order.reserve(64);  // most walks are over a kernel or a part of one
  NodeIndex seen(ctx.size());
  absl::InlinedVector<std::pair<UOp, uint32_t>, 32> stack;  // node, next source to visit
  for (UOp root : roots) {
    if (!seen.Insert(root)) continue;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      const size_t n = kValues ? ValueSourceCount(u) : u.n_src();
      if (next == 0 && !enter(u)) next = static_cast<uint32_t>(n);
      if (next == n) {
        order.push_back(u);
        stack.pop_back();
        continue;
      }
      const UOp s = u.src(next++);
      if (!seen.Insert(s)) continue;
      // What has no sources is listed at once.
      if (s.n_src() == 0)
        order.push_back(s);
      else
        stack.emplace_back(s, 0);
    }
  }
  return order;
}

}  // namespace

std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots) {
  return Sort<false>(ctx, roots, [](UOp) { return true; });
}
std::vector<UOp> Toposort(const UOpContext& ctx, UOp root) {
  return Toposort(ctx, std::span<const UOp>(&root, 1));
}
std::vector<UOp> Toposort(const UOpContext& ctx, std::span<const UOp> roots,
                          const std::function<bool(UOp)>& enter) {
  return Sort<false>(ctx, roots, [&](UOp u) { return enter(u); });
}
std::vector<UOp> ToposortValues(const UOpContext& ctx, std::span<const UOp> roots) {
  return Sort<true>(ctx, roots, [](UOp) { return true; });
}

bool Reaches(const UOpContext& ctx, UOp root, UOp needle) {
  if (root == needle) return true;
  const bool is_range = needle.Is(Op::RANGE);
  if (is_range && ctx.ranges_have_bits()) return root.MayReach(needle);
  // Sources are older than their users.
  auto may = [&](UOp u) { return u.id() > needle.id() && (!is_range || u.MayReach(needle)); };
  if (!may(root)) return false;
  NodeIndex seen(root.id());
  absl::InlinedVector<UOp, 32> stack = {root};
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    for (UOp s : u.srcs()) {
      if (s == needle) return true;
      if (may(s) && seen.Insert(s)) stack.push_back(s);
    }
  }
  return false;
}

std::vector<UOp> Variables(const UOpContext& ctx, UOp root) {
  std::vector<UOp> out;
  for (UOp u : Toposort(ctx, root)) {
    if (u.Is(Op::DEFINE_VAR)) out.push_back(u);
  }
  return out;
}

UOp Substitute(UOpContext& ctx, UOp root, const Substitution& map) {
  if (map.empty()) return root;
  const auto order =
      Toposort(ctx, std::span<const UOp>(&root, 1), [&](UOp u) { return !map.contains(u.id()); });
  NodeIndex position(ctx.size());
  std::vector<UOp> done;  // by position
  done.reserve(order.size());
  absl::InlinedVector<UOp, 8> srcs;
  for (UOp u : order) {
    position.Set(u, static_cast<uint32_t>(done.size()));
    if (auto it = map.find(u.id()); it != map.end()) {
      done.push_back(it->second);
      continue;
    }
    srcs.clear();
    bool changed = false;
    for (UOp s : u.srcs()) {
      srcs.push_back(done[position[s]]);
      changed |= srcs.back() != s;
    }
    done.push_back(changed ? ctx.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag()) : u);
  }
  return done[position[root]];
}

UOp Replace(UOpContext& ctx, UOp u, const Changes& changes) {
  return ctx.Make(u.op(), changes.dtype.value_or(u.dtype()), changes.src.value_or(u.srcs()),
                  changes.arg.value_or(u.arg()), changes.tag.value_or(u.tag()));
}

absl::StatusOr<Unbound> Unbind(UOpContext& ctx, UOp root) {
  Unbound out;
  Substitution map;
  absl::flat_hash_map<uint32_t, int64_t> seen;
  for (UOp u : Toposort(ctx, root)) {
    if (!u.Is(Op::BIND)) continue;
    const UOp variable = u.src(0);
    map[u.id()] = variable;
    if (u.n_src() < 2) continue;
    const int64_t value = u.src(1).const_int();
    const auto [it, fresh] = seen.try_emplace(variable.id(), value);
    if (fresh) {
      out.values.emplace_back(variable, value);
    } else if (it->second != value) {
      return absl::InvalidArgumentError(
          Cat("variable ", variable.text(), " is bound to ", it->second, " and to ", value));
    }
  }
  out.graph = Substitute(ctx, root, map);
  return out;
}

std::string_view DeviceOf(UOp root) {
  absl::flat_hash_set<uint32_t> seen = {root.id()};
  std::vector<UOp> stack = {root};
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u.Is(OpSet{Op::PARAM, Op::BUFFER, Op::COPY}) && !u.text().empty()) return u.text();
    for (size_t i = u.n_src(); i-- > 0;) {  // the first source is looked at first
      if (seen.insert(u.src(i).id()).second) stack.push_back(u.src(i));
    }
  }
  return {};
}

Arg CopyArg(UOpContext& to, UOp u) {
  switch (Info(u.op()).arg) {
    case ArgSchema::None:
    case ArgSchema::Const:
    case ArgSchema::Int:
      return u.arg();
    default:
      return u.arg().bits == 0 ? Arg{} : to.Data(u.ints(), u.text());
  }
}

UOp CopyTo(const UOpContext& from, UOp root, UOpContext& to,
           absl::flat_hash_map<uint32_t, UOp>& map) {
  const auto order =
      Toposort(from, std::span<const UOp>(&root, 1), [&](UOp u) { return !map.contains(u.id()); });
  absl::InlinedVector<UOp, 8> srcs;
  for (UOp u : order) {
    if (map.contains(u.id())) continue;
    srcs.clear();
    for (UOp s : u.srcs()) srcs.push_back(map.at(s.id()));
    map[u.id()] = to.Make(u.op(), u.dtype(), srcs, CopyArg(to, u), u.tag());
  }
  return map.at(root.id());
}

}  // namespace uopd::ir
