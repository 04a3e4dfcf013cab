// SPDX-License-Identifier: MIT
#include "core/schedule/ordering.h"

#include <algorithm>
#include <queue>

#include "core/ir/graph.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

// The STOREs of a slot that a state holds, as numbers in the slot's order: all before `prefix`, and
// `others` (ascending, beyond the prefix).
struct State {
  uint32_t prefix = 0;
  std::vector<uint32_t> others;

  void Add(uint32_t number) {
    if (number < prefix) return;
    const auto at = std::lower_bound(others.begin(), others.end(), number);
    if (at == others.end() || *at != number) others.insert(at, number);
    Normalise();
  }
  void Add(const State& s) {
    prefix = std::max(prefix, s.prefix);
    for (uint32_t n : s.others) Add(n);
    Normalise();
  }
  void Normalise() {
    size_t used = 0;
    while (used < others.size() && others[used] <= prefix)
      prefix = std::max(prefix, others[used++] + 1);
    others.erase(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(used));
  }
};

class Orderer {
 public:
  Orderer(const Fusion& fusion, const std::vector<Kernel>& kernels)
      : f_(fusion), kernels_(kernels) {}

  Ordering Run() {
    const size_t n = f_.roots.size();
    live_.assign(n, false);
    reads_.resize(n);
    edges_.resize(n);
    for (const Kernel& k : kernels_) {
      live_[k.root] = true;
      for (uint32_t p : k.reads) reads_[k.root].push_back(k.placeholders[p]);
    }
    writer_.assign(f_.storages.size(), UINT32_MAX);
    stores_of_.resize(f_.storages.size());
    for (uint32_t r = 0; r < n; ++r) {
      const Root& root = f_.roots[r];
      if (root.is_copy) live_[r] = true, reads_[r].push_back(CopySource(f_, root));
      for (const Output& out : root.outputs) {
        if (!out.node.Is(Op::STORE)) writer_[static_cast<size_t>(out.storage)] = r;
      }
    }
    for (UOp u : f_.order) {
      if (!u.Is(Op::STORE)) continue;
      const auto [r, o] = f_.stores.at(u.id());
      if (!live_[r]) continue;  // it stores nothing
      auto& chain = stores_of_[static_cast<size_t>(f_.roots[r].outputs[o].storage)];
      number_[u.id()] = static_cast<uint32_t>(chain.size());
      chain.push_back(r);
    }
    for (const auto& chain : stores_of_) {
      for (size_t i = 1; i < chain.size(); ++i) Edge(chain[i - 1], chain[i]);
    }
    for (uint32_t r = 0; r < n; ++r) {
      if (live_[r]) Connect(r);
    }
    return Sort();
  }

 private:
  // What has been stored into `storage` in the state that u (an AFTER, a STORE, or a movement op
  // over one) stands for.
  State StateOf(UOp u, int32_t storage) {
    const auto key = std::pair(u.id(), storage);
    if (auto it = states_.find(key); it != states_.end()) return it->second;
    State s;
    std::vector<UOp> todo = {u};
    absl::flat_hash_set<uint32_t> seen;
    while (!todo.empty()) {
      const UOp v = todo.back();
      todo.pop_back();
      if (!seen.insert(v.id()).second) continue;
      if (auto it = states_.find({v.id(), storage}); it != states_.end()) {
        s.Add(it->second);
      } else if (v.Is(Op::STORE)) {
        const auto [root, o] = f_.stores.at(v.id());
        if (f_.roots[root].outputs[o].storage == storage && live_[root]) s.Add(number_.at(v.id()));
        todo.push_back(v.src(0));
      } else if (v.Is(Op::AFTER)) {
        for (UOp x : v.srcs()) todo.push_back(x);
      } else if (v.Is(ir::kMovementOps)) {
        todo.push_back(v.src(0));
      }
    }
    return states_[key] = s;
  }
  static constexpr ir::OpSet OpsOnTheWay() { return ir::kMovementOps | ir::OpSet{Op::AFTER}; }

  void Edge(uint32_t from, uint32_t to) {
    if (from != to && live_[from] && live_[to]) edges_[from].push_back(to);
  }

  // `r` needs the slot in this state: after the last STORE that it holds, before the first one that
  // it does not.
  void Need(int32_t storage, const State& s, uint32_t r, bool writes) {
    const std::vector<uint32_t>& chain = stores_of_[static_cast<size_t>(storage)];
    if (!s.others.empty()) {
      Edge(chain[s.others.back()], r);
    } else if (s.prefix > 0) {
      Edge(chain[s.prefix - 1], r);
    }
    if (!writes && s.prefix < chain.size()) Edge(r, chain[s.prefix]);
  }

  void Connect(uint32_t r) {
    for (const Placeholder& read : reads_[r]) {
      if (f_.storages[static_cast<size_t>(read.storage)].kind == Storage::kTemporary) {
        Edge(writer_[static_cast<size_t>(read.storage)], r);
      } else {
        State s;
        if (read.after) s = StateOf(read.after, read.storage);
        WaitFor(read.after, r);
        Need(read.storage, s, r, false);
      }
    }
    for (const Output& out : f_.roots[r].outputs) {
      for (UOp after : out.after) {
        WaitFor(after, r);
        Need(out.storage, StateOf(after, out.storage), r, true);
      }
    }
  }

  // Every STORE that an AFTER names directly, also those of other slots.
  void WaitFor(UOp u, uint32_t r) {
    for (; u && u.Is(OpsOnTheWay()); u = u.src(0)) {
      if (!u.Is(Op::AFTER)) continue;
      for (UOp store : u.srcs().subspan(1)) Edge(f_.stores.at(store.id()).first, r);
    }
  }

  // Of the last node that it writes.
  uint32_t Position(uint32_t r) const {
    uint32_t last = 0;
    for (const Output& out : f_.roots[r].outputs) last = std::max(last, f_.position[out.node.id()]);
    return last;
  }

  Ordering Sort() {
    Ordering out;
    waiting_.assign(edges_.size(), 0);
    size_t live = 0;
    for (uint32_t r = 0; r < edges_.size(); ++r) {
      live += live_[r];
      std::sort(edges_[r].begin(), edges_[r].end());
      edges_[r].erase(std::unique(edges_[r].begin(), edges_[r].end()), edges_[r].end());
      for (uint32_t t : edges_[r]) ++waiting_[t];
    }
    using Entry = std::pair<uint32_t, uint32_t>;  // position in the graph, root
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint32_t r = 0; r < edges_.size(); ++r) {
      if (live_[r] && waiting_[r] == 0) ready.emplace(Position(r), r);
    }
    while (!ready.empty()) {
      const uint32_t r = ready.top().second;
      ready.pop();
      out.roots.push_back(r);
      for (uint32_t t : edges_[r]) {
        if (--waiting_[t] == 0) ready.emplace(Position(t), t);
      }
    }
    if (out.roots.size() != live) Untangle(out.missing);
    return out;
  }

  // Roots on cycles: those with several outputs are taken apart. If there are none, a slot is read
  // in a state that a STORE of the same cycle must not overwrite yet: a copy of that state frees
  // it, and one for each cycle is often enough.
  void Untangle(Constraints& missing) {
    for (const std::vector<uint32_t>& cycle : Cycles()) {
      const size_t before = missing.alone.size();
      for (uint32_t r : cycle) {
        if (f_.roots[r].outputs.size() == 1) continue;
        for (const Output& out : f_.roots[r].outputs) missing.alone.insert(out.node.id());
      }
      if (missing.alone.size() > before) continue;
      uint32_t node = UINT32_MAX;
      for (uint32_t r : cycle) {
        for (const Placeholder& read : reads_[r]) {
          if (f_.storages[static_cast<size_t>(read.storage)].kind != Storage::kArgument) continue;
          const auto& chain = stores_of_[static_cast<size_t>(read.storage)];
          const bool overwritten = std::any_of(chain.begin(), chain.end(), [&](uint32_t s) {
            return s != r && std::find(cycle.begin(), cycle.end(), s) != cycle.end();
          });
          if (overwritten) node = std::min(node, NodeOf(read));
        }
      }
      if (node != UINT32_MAX) missing.realise.insert(node);
    }
  }

  // Strongly connected components of more than one root (Tarjan, without recursion).
  std::vector<std::vector<uint32_t>> Cycles() {
    const size_t n = edges_.size();
    std::vector<std::vector<uint32_t>> out;
    std::vector<uint32_t> number(n, 0), low(n, 0), open;
    std::vector<bool> is_open(n, false);
    std::vector<std::pair<uint32_t, size_t>> path;
    uint32_t next = 1;
    for (uint32_t start = 0; start < n; ++start) {
      if (number[start] != 0) continue;
      path.emplace_back(start, 0);
      while (!path.empty()) {
        auto& [r, i] = path.back();
        if (i == 0 && number[r] == 0) {
          number[r] = low[r] = next++;
          open.push_back(r), is_open[r] = true;
        }
        if (i < edges_[r].size()) {
          const uint32_t t = edges_[r][i++];
          if (number[t] == 0)
            path.emplace_back(t, 0);
          else if (is_open[t])
            low[r] = std::min(low[r], number[t]);
          continue;
        }
        const uint32_t done = r;
        path.pop_back();
        if (!path.empty()) low[path.back().first] = std::min(low[path.back().first], low[done]);
        if (low[done] != number[done]) continue;
        std::vector<uint32_t> component;
        do {
          component.push_back(open.back());
          is_open[open.back()] = false;
          open.pop_back();
        } while (component.back() != done);
        if (component.size() > 1) out.push_back(std::move(component));
      }
    }
    return out;
  }

  uint32_t NodeOf(const Placeholder& read) const {
    return read.after ? read.after.id() : f_.storages[static_cast<size_t>(read.storage)].param.id();
  }

  const Fusion& f_;
  const std::vector<Kernel>& kernels_;
  std::vector<bool> live_;
  std::vector<std::vector<Placeholder>> reads_;
  std::vector<std::vector<uint32_t>> edges_;
  std::vector<std::vector<uint32_t>> stores_of_;  // by storage: roots in the graph's order
  std::vector<uint32_t> writer_;                  // of temporaries
  std::vector<uint32_t> waiting_;
  absl::flat_hash_map<uint32_t, uint32_t> number_;  // STORE id -> place in its slot's order
  absl::flat_hash_map<std::pair<uint32_t, int32_t>, State> states_;
};

}  // namespace

Placeholder CopySource(const Fusion& f, const Root& root) {
  const UOp source = root.outputs[0].value;
  const NodeInfo& info = f.at(source);
  if (info.realised >= 0) {
    const Output& out = f.roots[static_cast<size_t>(info.realised)].outputs[info.output];
    return {out.storage, out.node.Is(Op::STORE) ? out.node : UOp()};
  }
  UOp param = source;
  while (!param.Is(Op::PARAM)) param = param.src(0);
  return {f.slot_storage.at(param.slot()), source.Is(Op::AFTER) ? source : UOp()};
}

Ordering OrderRoots(const Fusion& fusion, const std::vector<Kernel>& kernels) {
  return Orderer(fusion, kernels).Run();
}

}  // namespace uopd::schedule
