// SPDX-License-Identifier: MIT
#include "core/schedule/ordering.h"

#include <algorithm>
#include <queue>
#include <set>

#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// A slot or temporary as one root reads it.
struct Read {
  int32_t storage;
  UOp after;
};

class Orderer {
 public:
  Orderer(Fusion& fusion, const Lowered& lowered) : f_(fusion), lowered_(lowered) {}

  Ordering Run() {
    const size_t n = f_.roots.size();
    live_.assign(n, false);
    reads_.resize(n);
    edges_.resize(n);
    for (const Kernel& k : lowered_.kernels) {
      live_[k.root] = true;
      for (uint32_t p : k.reads)
        reads_[k.root].push_back(
            {lowered_.placeholders[p].storage, lowered_.placeholders[p].after});
    }
    for (uint32_t r = 0; r < n; ++r) {
      const Root& root = f_.roots[r];
      if (root.node.Is(Op::STORE))
        stores_of_[root.storage].push_back(r), store_root_[root.node.id()] = r;
      else
        writer_[root.storage] = r;
      if (root.is_copy) live_[r] = true, reads_[r].push_back({CopySource(root), UOp()});
    }
    for (uint32_t r = 0; r < n; ++r) {
      if (live_[r]) Connect(r);
    }
    return Sort();
  }

 private:
  int32_t CopySource(const Root& root) {
    const NodeInfo& info = f_.at(root.value);
    if (info.realised >= 0) return f_.roots[info.realised].storage;
    return f_.slot_storage.at(root.value.slot());
  }

  // The STOREs that have happened in the state read through `after`: its dependencies and those
  // further in.
  void StoresBefore(UOp after, std::set<uint32_t>& out) {
    for (UOp u = after; u && (u.Is(ir::kMovementOps) || u.Is(Op::AFTER)); u = u.src(0)) {
      if (!u.Is(Op::AFTER)) continue;
      for (size_t i = 1; i < u.n_src(); ++i) {
        const UOp store = u.src(i);
        if (!out.insert(store_root_.at(store.id())).second) continue;
        StoresBefore(store.src(0), out);
      }
    }
  }

  void Edge(uint32_t from, uint32_t to) {
    if (from != to && live_[from] && live_[to]) edges_[from].insert(to);
  }

  void Connect(uint32_t r) {
    for (const Read& read : reads_[r]) {
      if (f_.storages[read.storage].kind == Storage::kTemporary) {
        Edge(writer_.at(read.storage), r);
        continue;
      }
      std::set<uint32_t> before;
      StoresBefore(read.after, before);
      for (uint32_t s : stores_of_[read.storage]) {
        if (before.contains(s))
          Edge(s, r);
        else
          Edge(r, s);
      }
      for (uint32_t s : before) Edge(s, r);
    }
    const Root& root = f_.roots[r];
    if (!root.node.Is(Op::STORE)) return;
    // STOREs into one slot: as their targets say, else as the graph lists them.
    std::set<uint32_t> mine;
    StoresBefore(root.node.src(0), mine);
    for (uint32_t s : mine) Edge(s, r);
    for (uint32_t s : stores_of_[root.storage]) {
      if (s == r || mine.contains(s)) continue;
      std::set<uint32_t> theirs;
      StoresBefore(f_.roots[s].node.src(0), theirs);
      if (!theirs.contains(r) && Position(s) < Position(r)) Edge(s, r);
    }
  }

  uint32_t Position(uint32_t r) const { return f_.position.at(f_.roots[r].node.id()); }

  Ordering Sort() {
    Ordering out;
    std::vector<int> waiting(edges_.size(), 0);
    size_t live = 0;
    for (uint32_t r = 0; r < edges_.size(); ++r) {
      live += live_[r];
      for (uint32_t t : edges_[r]) ++waiting[t];
    }
    using Entry = std::pair<uint32_t, uint32_t>;  // position in the graph, root
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint32_t r = 0; r < edges_.size(); ++r) {
      if (live_[r] && waiting[r] == 0) ready.emplace(Position(r), r);
    }
    while (!ready.empty()) {
      const uint32_t r = ready.top().second;
      ready.pop();
      out.roots.push_back(r);
      for (uint32_t t : edges_[r]) {
        if (--waiting[t] == 0) ready.emplace(Position(t), t);
      }
    }
    if (out.roots.size() == live) return out;
    // Stuck kernels read a slot in a state that a stuck STORE must not overwrite yet: copies of
    // those states free them.
    std::set<uint32_t> nodes;
    for (uint32_t r = 0; r < edges_.size(); ++r) {
      if (!live_[r] || waiting[r] == 0) continue;
      for (const Read& read : reads_[r]) {
        if (f_.storages[read.storage].kind != Storage::kArgument) continue;
        const bool overwritten =
            std::any_of(stores_of_[read.storage].begin(), stores_of_[read.storage].end(),
                        [&](uint32_t s) { return live_[s] && waiting[s] > 0 && s != r; });
        if (!overwritten) continue;
        nodes.insert(read.after ? read.after.id() : ParamOf(read.storage));
      }
    }
    if (!nodes.empty()) out.snapshot.push_back(*nodes.begin());  // one often frees them all
    return out;
  }

  uint32_t ParamOf(int32_t storage) {
    for (UOp u : f_.order) {
      if (u.Is(Op::PARAM) && f_.slot_storage.at(u.slot()) == storage) return u.id();
    }
    return 0;
  }

  Fusion& f_;
  const Lowered& lowered_;
  std::vector<bool> live_;
  std::vector<std::vector<Read>> reads_;
  std::vector<std::set<uint32_t>> edges_;
  absl::flat_hash_map<int32_t, std::vector<uint32_t>> stores_of_;
  absl::flat_hash_map<uint32_t, uint32_t> store_root_;
  absl::flat_hash_map<int32_t, uint32_t> writer_;
};

}  // namespace

Ordering OrderRoots(ir::UOpContext&, Fusion& fusion, const Lowered& lowered) {
  return Orderer(fusion, lowered).Run();
}

}  // namespace uopd::schedule
