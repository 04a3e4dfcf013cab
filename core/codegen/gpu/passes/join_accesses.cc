// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/join_accesses.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// What neighbours have in common: buffer, index without its constant, gate and tag. Ids; ~0 for
// none.
using AccessKey = std::tuple<uint32_t, uint32_t, uint32_t, int64_t>;
struct Access {
  AccessKey key;
  int64_t constant = 0;
};

// REQUIRES: a LOAD or STORE of one element.
Access AccessOf(UOp u) {
  constexpr uint32_t kNone = ~uint32_t{0};
  const UOp index = u.src(0);
  UOp at = index.src(1);
  int64_t constant = 0;
  if (at.Is(Op::ADD) && at.src(1).Is(Op::CONST)) {
    constant = at.src(1).const_int();
    at = at.src(0);
  } else if (at.Is(Op::CONST)) {
    constant = at.const_int();
    at = UOp();
  }
  return {{index.src(0).id(), at ? at.id() : kNone, index.n_src() == 3 ? index.src(2).id() : kNone,
           u.tag()},
          constant};
}

// The accesses that are joined, in the order of their constants; `places`: from constants to nodes.
using Run = std::vector<UOp>;
std::vector<Run> RunsOf(const std::map<int64_t, UOp>& places, int64_t most_bytes) {
  std::vector<Run> out;
  for (auto it = places.begin(); it != places.end();) {
    const int64_t bytes = ir::ByteSize(it->second.src(0).dtype());
    Run run;
    for (int64_t n = most_bytes / bytes; n >= 2 && run.empty(); n /= 2) {
      if (it->first % n != 0) continue;
      auto next = it;
      for (int64_t k = 0; k < n && next != places.end() && next->first == it->first + k; ++k)
        run.push_back((next++)->second);
      if (static_cast<int64_t>(run.size()) < n) run.clear();
    }
    if (run.empty()) run.push_back(it->second);
    std::advance(it, run.size());
    out.push_back(std::move(run));
  }
  return out;
}

UOp WideIndex(ir::UOpContext& ctx, UOp first, size_t lanes) {
  return ir::Index(ctx, first.src(0), first.src(1), first.n_src() == 3 ? first.src(2) : UOp(),
                   static_cast<int64_t>(lanes));
}

class AccessJoiner {
 public:
  AccessJoiner(ir::UOpContext& ctx, int64_t most_bytes) : ctx_(ctx), most_bytes_(most_bytes) {}

  UOp Run(UOp sink) {
    bool of_warps = false;
    for (UOp u : ir::Toposort(ctx_, sink)) {
      of_warps |= u.Is({Op::MMA, Op::GROUP_PRODUCT});
      if (!u.Is({Op::LOAD, Op::STORE}) || !u.src(0).src(0).Is(Op::PARAM)) continue;
      (u.Is(Op::LOAD) ? loaded_ : stored_).insert(u.src(0).src(0).slot());
    }
    return of_warps ? JoinStores(JoinLoads(sink)) : sink;
  }

 private:
  bool IsScalar(UOp u, Op op, const std::set<int64_t>& other_use) const {
    if (!u.Is(op)) return false;
    const UOp index = u.src(0);
    return index.Is(Op::INDEX) && index.src(0).Is(Op::PARAM) && index.arg().AsInt() == 0 &&
           !other_use.contains(index.src(0).slot()) &&
           (index.n_src() < 3 || ctx_.ShapeOf(index.src(2))->empty());
  }

  // The LOADs that stored values need outside of reductions and stages.
  UOp JoinLoads(UOp sink) {
    std::vector<UOp> values;
    for (UOp u : ir::Toposort(ctx_, sink)) {
      if (IsScalar(u, Op::STORE, loaded_)) values.push_back(u.src(1));
    }
    const auto enter = [](UOp u) { return !u.Is(ir::kClosingOps) && !u.Is(Op::AFTER); };
    std::map<AccessKey, std::map<int64_t, UOp>> places;
    for (UOp u : ir::Toposort(ctx_, values, enter)) {
      if (!IsScalar(u, Op::LOAD, stored_)) continue;
      const Access a = AccessOf(u);
      places[a.key].emplace(a.constant, u);
    }
    ir::Substitution map;
    for (const auto& [key, of_key] : places) {
      for (const auto& run : RunsOf(of_key, most_bytes_)) {
        if (run.size() == 1) continue;
        const UOp index = WideIndex(ctx_, run[0].src(0), run.size());
        const UOp all = ctx_.Make(Op::LOAD, run[0].dtype(), {index}, run[0].arg(), run[0].tag());
        for (size_t k = 0; k < run.size(); ++k)
          map[run[k].id()] =
              ctx_.Make(Op::GEP, all.dtype(), {all}, ir::Arg::Int(static_cast<int64_t>(k)));
      }
    }
    return map.empty() ? sink : ir::Substitute(ctx_, sink, map);
  }

  // The STOREs of each GROUP, with those of the GROUPs in it: their order does not matter.
  UOp JoinStores(UOp sink) {
    absl::flat_hash_set<uint32_t> inner;
    for (UOp u : ir::Toposort(ctx_, sink)) {
      for (UOp s : u.Is(Op::GROUP) ? u.srcs() : std::span<const UOp>()) inner.insert(s.id());
    }
    return Rebuild(ctx_, sink, [&](UOp u, std::span<const UOp> srcs) {
      if (!u.Is(Op::GROUP) || inner.contains(u.id())) return ctx_.WithSources(u, srcs);
      return Joined(u, srcs);
    });
  }

  UOp Joined(UOp group, std::span<const UOp> srcs) {
    std::vector<UOp> statements;
    const auto collect = [&](const auto& self, UOp u) -> void {
      if (!u.Is(Op::GROUP)) return statements.push_back(u);
      for (UOp s : u.srcs()) self(self, s);
    };
    for (UOp s : srcs) collect(collect, s);
    std::map<AccessKey, std::map<int64_t, UOp>> places;
    std::map<AccessKey, std::vector<size_t>> positions;  // in `statements`, ascending
    for (size_t i = 0; i < statements.size(); ++i) {
      const UOp u = statements[i];
      if (!IsScalar(u, Op::STORE, loaded_) || !ctx_.ShapeOf(u.src(1))->empty()) continue;
      const Access a = AccessOf(u);
      if (places[a.key].emplace(a.constant, u).second) positions[a.key].push_back(i);
    }
    // In the order of their addresses.
    for (const auto& [key, of_key] : places) {
      const std::vector<size_t>& at = positions.at(key);
      for (const size_t i : at) statements[i] = UOp();
      size_t next = 0;
      for (const auto& run : RunsOf(of_key, most_bytes_)) {
        UOp& out = statements[at[next++]];
        if (run.size() == 1) {
          out = run[0];
          continue;
        }
        std::vector<UOp> values;
        for (UOp u : run) values.push_back(u.src(1));
        const UOp all = ctx_.Make(Op::STACK, values[0].dtype(), values);
        out =
            ctx_.Make(Op::STORE, ir::Dtype::Void, {WideIndex(ctx_, run[0].src(0), run.size()), all},
                      run[0].arg(), run[0].tag());
      }
    }
    std::vector<UOp> out;
    for (UOp u : statements) {
      if (u) out.push_back(u);
    }
    return out.size() == 1 ? out[0] : ctx_.WithSources(group, out);
  }

  ir::UOpContext& ctx_;
  const int64_t most_bytes_;
  std::set<int64_t> loaded_, stored_;  // slots
};

}  // namespace

UOp JoinAccesses(ir::UOpContext& ctx, UOp sink, int64_t most_bytes) {
  return AccessJoiner(ctx, most_bytes).Run(sink);
}

}  // namespace uopd::codegen
