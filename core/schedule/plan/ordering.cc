// SPDX-License-Identifier: MIT
#include "core/schedule/plan/plan.h"

#include <algorithm>
#include <memory>
#include <queue>

#include "core/ir/graph.h"
#include "core/schedule/plan/store_sets.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

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
      if (root.is_copy) {
        live_[r] = true;
        reads_[r].push_back(CopySource(f_, root));
      }
      for (const Output& out : root.outputs) {
        if (!out.node.Is(Op::STORE)) writer_[static_cast<size_t>(out.storage)] = r;
      }
    }
    for (UOp u : f_.order) {
      if (!u.Is(Op::STORE)) continue;
      const auto [r, o] = f_.stores.at(u.id());
      if (!live_[r]) continue;  // the root has no kernel: it stores no elements
      auto& chain = stores_of_[static_cast<size_t>(f_.roots[r].outputs[o].storage)];
      number_[u.id()] = static_cast<uint32_t>(chain.size());
      chain.push_back(r);
    }
    states_ = std::make_unique<StoreSets>(NumberStores());
    for (const auto& chain : stores_of_) {
      for (size_t i = 1; i < chain.size(); ++i) Edge(chain[i - 1], chain[i]);
    }
    for (uint32_t r = 0; r < n; ++r) {
      if (live_[r]) Connect(r);
    }
    return Sort();
  }

 private:
  // A vertex of the graph that is sorted: a root, or, from f_.roots.size() on, an AFTER. An AFTER
  // stands for all its STOREs, so that n readers of m STOREs need n + m edges instead of n * m.
  using Vertex = uint32_t;
  bool IsRoot(Vertex v) const { return v < f_.roots.size(); }

  // Numbers the STOREs, those of one slot consecutively from first_[storage] on. Returns how many.
  uint32_t NumberStores() {
    first_.resize(stores_of_.size());
    uint32_t next = 0;
    for (size_t s = 0; s < stores_of_.size(); ++s) {
      first_[s] = next;
      next += static_cast<uint32_t>(stores_of_[s].size());
    }
    return next;
  }

  // The numbers of the STOREs that this STORE adds to a state. If it overwrites the whole slot, it
  // adds all earlier STOREs into the slot too: whether they have run makes no difference.
  StoreSets::Set OwnState(UOp store) const {
    const auto [root, o] = f_.stores.at(store.id());
    if (!live_[root]) return StoreSets::kEmpty;
    const Output& out = f_.roots[root].outputs[o];
    const uint32_t first = first_[static_cast<size_t>(out.storage)];
    const uint32_t number = first + number_.at(store.id());
    return states_->Range(out.covers ? first : number, number + 1);
  }

  // The sources of u whose states are part of the state of u.
  static std::span<const UOp> Before(UOp u) {
    if (u.Is(Op::AFTER)) return u.srcs();
    return u.Is(ir::kMovementOps) || u.Is(Op::STORE) ? u.srcs().first(1) : std::span<const UOp>();
  }

  // The STOREs, into all slots, that have run in the state that u stands for. u is an AFTER, a
  // STORE, or a movement op over one.
  StoreSets::Set StateOf(UOp wanted) {
    std::vector<UOp> stack = {wanted};
    while (!stack.empty()) {
      const UOp u = stack.back();
      if (state_of_.contains(u.id())) {
        stack.pop_back();
        continue;
      }
      StoreSets::Set state = StoreSets::kEmpty;
      const size_t before = stack.size();
      for (UOp s : Before(u)) {
        const auto known = state_of_.find(s.id());
        if (known == state_of_.end())
          stack.push_back(s);
        else if (stack.size() == before)
          state = states_->Union(state, known->second);
      }
      if (stack.size() > before) continue;
      if (u.Is(Op::STORE)) state = states_->Union(state, OwnState(u));
      state_of_[u.id()] = state;
      stack.pop_back();
    }
    return state_of_.at(wanted.id());
  }

  // `from` runs before `to`.
  void Edge(Vertex from, Vertex to) {
    const auto lives = [&](Vertex v) { return !IsRoot(v) || live_[v]; };
    if (from != to && lives(from) && lives(to)) edges_[from].push_back(to);
  }

  // Root r needs the slot in this state: it runs after the last STORE of the state and, if it only
  // reads, before the first STORE into the slot that is not part of the state.
  void Need(int32_t storage, StoreSets::Set state, uint32_t r, bool writes) {
    const std::vector<uint32_t>& chain = stores_of_[static_cast<size_t>(storage)];
    const uint32_t first = first_[static_cast<size_t>(storage)],
                   end = first + static_cast<uint32_t>(chain.size());
    const uint32_t held = states_->EndOf(state, first, end),
                   missing = states_->FirstMissing(state, first, end);
    if (held > first) Edge(chain[held - 1 - first], r);
    if (!writes && missing < end) Edge(r, chain[missing - first]);
  }

  void Connect(uint32_t r) {
    for (const Placeholder& read : reads_[r]) {
      if (f_.storages[static_cast<size_t>(read.storage)].kind == Storage::kTemporary) {
        Edge(writer_[static_cast<size_t>(read.storage)], r);
      } else if (read.after) {
        WaitFor(read.after, r);
        Need(read.storage, StateOf(read.after), r, false);
      } else {
        Need(read.storage, StoreSets::kEmpty, r, false);
      }
    }
    for (const Output& out : f_.roots[r].outputs) {
      for (UOp after : out.after) {
        WaitFor(after, r);
        Need(out.storage, StateOf(after), r, true);
      }
    }
  }

  // v runs after every STORE that the AFTER u names, also into other slots, and after those of the
  // AFTERs below u.
  void WaitFor(UOp u, Vertex v) {
    while (true) {
      while (u && u.Is(ir::kMovementOps)) u = u.src(0);
      if (!u || !u.Is(Op::AFTER)) return;
      const auto [it, fresh] = waits_.try_emplace(u.id(), static_cast<Vertex>(edges_.size()));
      const Vertex after = it->second;
      if (fresh) {
        edges_.emplace_back();
        for (UOp store : u.srcs().subspan(1)) Edge(f_.stores.at(store.id()).first, after);
      }
      Edge(after, v);
      if (!fresh) return;
      v = after;
      u = u.src(0);
    }
  }

  // The position in the graph of the last node that root r writes.
  uint32_t Position(uint32_t r) const {
    uint32_t last = 0;
    for (const Output& out : f_.roots[r].outputs) last = std::max(last, f_.position[out.node.id()]);
    return last;
  }

  Ordering Sort() {
    Ordering out;
    waiting_.assign(edges_.size(), 0);
    size_t live = 0;
    for (Vertex r = 0; r < edges_.size(); ++r) {
      live += IsRoot(r) && live_[r];
      std::sort(edges_[r].begin(), edges_[r].end());
      edges_[r].erase(std::unique(edges_[r].begin(), edges_[r].end()), edges_[r].end());
      for (uint32_t t : edges_[r]) ++waiting_[t];
    }
    using Entry = std::pair<uint32_t, uint32_t>;  // position in the graph, root
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<Vertex> passed;  // AFTERs all of whose STOREs are in `out`
    auto add = [&](Vertex v) {
      if (IsRoot(v))
        ready.emplace(Position(v), v);
      else
        passed.push_back(v);
    };
    auto leave = [&](Vertex v) {
      for (Vertex t : edges_[v]) {
        if (--waiting_[t] == 0) add(t);
      }
    };
    for (Vertex v = 0; v < edges_.size(); ++v) {
      if ((!IsRoot(v) || live_[v]) && waiting_[v] == 0) add(v);
    }
    while (!ready.empty() || !passed.empty()) {
      if (!passed.empty()) {
        const Vertex v = passed.back();
        passed.pop_back();
        leave(v);
        continue;
      }
      const uint32_t r = ready.top().second;
      ready.pop();
      out.roots.push_back(r);
      leave(r);
    }
    out.complete = out.roots.size() == live;
    if (!out.complete) Untangle(out.missing);
    return out;
  }

  // Adds constraints that break the cycles. If a cycle has roots with several outputs, each output
  // gets a kernel of its own. Otherwise some root of the cycle reads a slot in a state that another
  // root of the cycle overwrites: one such state is realised, so that the root reads a copy. One
  // copy per cycle is often enough; if not, the next attempt adds another.
  void Untangle(Constraints& missing) {
    for (const std::vector<uint32_t>& cycle : Cycles()) {
      const size_t before = missing.alone.size();
      for (uint32_t r : cycle) {
        if (f_.roots[r].outputs.size() == 1) continue;
        for (const Output& out : f_.roots[r].outputs) missing.alone.insert(out.node.id());
      }
      if (missing.alone.size() > before) continue;
      absl::flat_hash_map<int32_t, uint32_t> stored;  // by storage: number of STOREs in the cycle
      for (uint32_t r : cycle) {
        for (const Output& out : f_.roots[r].outputs) {
          if (out.node.Is(Op::STORE)) ++stored[out.storage];
        }
      }
      uint32_t node = UINT32_MAX;
      for (uint32_t r : cycle) {
        for (const Placeholder& read : reads_[r]) {
          if (f_.storages[static_cast<size_t>(read.storage)].kind != Storage::kArgument) continue;
          const auto found = stored.find(read.storage);
          if (found == stored.end()) continue;
          const auto own = std::ranges::count(f_.roots[r].outputs, read.storage, &Output::storage);
          if (found->second > own) node = std::min(node, NodeOf(read));
        }
      }
      if (node != UINT32_MAX) missing.realise.insert(node);
    }
  }

  // The roots of every strongly connected component with more than one vertex, by Tarjan's
  // algorithm without recursion.
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
          open.push_back(r);
          is_open[r] = true;
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
        uint32_t left = 0, size = 0;
        do {
          ++size;
          left = open.back();
          if (IsRoot(left)) component.push_back(left);
          is_open[left] = false;
          open.pop_back();
        } while (left != done);
        if (size > 1 && !component.empty()) out.push_back(std::move(component));
      }
    }
    return out;
  }

  uint32_t NodeOf(const Placeholder& read) const {
    return read.after ? read.after.id() : f_.storages[static_cast<size_t>(read.storage)].param.id();
  }

  const Fusion& f_;
  const std::vector<Kernel>& kernels_;
  std::vector<bool> live_;                        // by root: it has a kernel or is a copy
  std::vector<std::vector<Placeholder>> reads_;   // by root
  std::vector<std::vector<uint32_t>> edges_;      // by vertex: the vertices that run after it
  std::vector<std::vector<uint32_t>> stores_of_;  // by storage: roots of its STOREs, in graph order
  std::vector<uint32_t> writer_;                  // by storage, of temporaries: the root
  std::vector<uint32_t> waiting_;                 // by vertex: edges from vertices not yet sorted
  absl::flat_hash_map<uint32_t, uint32_t> number_;  // STORE id -> index into stores_of_
  std::vector<uint32_t> first_;                     // by storage: number of its first STORE
  std::unique_ptr<StoreSets> states_;
  absl::flat_hash_map<uint32_t, StoreSets::Set> state_of_;  // by id, see StateOf
  absl::flat_hash_map<uint32_t, Vertex> waits_;             // AFTER id -> its vertex
};

}  // namespace

Placeholder CopySource(const Fusion& f, const Root& root) {
  const UOp source = root.outputs[0].value;
  const NodeInfo& info = f.at(source);
  if (info.realised >= 0) {
    const Output& out = f.roots[static_cast<size_t>(info.realised)].outputs[info.output];
    return {out.storage, out.node.Is(Op::STORE) ? out.node : UOp()};
  }
  return {f.slot_storage.at(info.base.slot()), source.Is(Op::AFTER) ? source : UOp()};
}

Ordering OrderRoots(const Fusion& fusion, const std::vector<Kernel>& kernels) {
  return Orderer(fusion, kernels).Run();
}

}  // namespace uopd::schedule
