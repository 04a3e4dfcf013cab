// SPDX-License-Identifier: MIT
#include "core/schedule/limits/limits.h"

#include <algorithm>

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;

class BufferCutter {
 public:
  BufferCutter(const Fusion& f, size_t most, Constraints& constraints)
      : f_(f), most_(most), constraints_(constraints) {}

  // Visits operands before their consumers. While a node reads too many buffers, realises the
  // operand that reads most of them. One buffer is left for the output.
  void Run(ValueRef root) {
    std::vector<ValueRef> stack = {root};
    while (!stack.empty()) {
      const ValueRef v = stack.back();
      if (IsUniform(v.node) || under_.contains(Key(v))) {
        stack.pop_back();
        continue;
      }
      const Demand& d = f_.at(v.node).demands[v.demand];
      const auto operands = Operands(f_, v.node, d);
      const size_t before = stack.size();
      for (ValueRef o : operands) {
        if (!IsUniform(o.node) && !under_.contains(Key(o))) stack.push_back(o);
      }
      if (stack.size() > before) continue;
      std::vector<int64_t> mine;
      if (operands.empty() && !v.node.Is(Op::IOTA)) mine = {Loaded(v.node, d)};
      for (ValueRef o : operands) Merge(mine, o);
      while (mine.size() + 1 > most_) {
        const ValueRef* widest = nullptr;
        for (const ValueRef& o : operands) {
          if (!IsUniform(o.node) && (widest == nullptr || Size(o) > Size(*widest))) widest = &o;
        }
        if (widest == nullptr || Size(*widest) < 2) break;
        constraints_.realise.insert(widest->node.id());
        under_[Key(*widest)] = {-1 - static_cast<int64_t>(widest->node.id())};
        mine.clear();
        for (ValueRef o : operands) Merge(mine, o);
      }
      under_[Key(v)] = std::move(mine);
      stack.pop_back();
    }
  }

 private:
  static std::pair<uint32_t, uint32_t> Key(ValueRef v) { return {v.node.id(), v.demand}; }
  size_t Size(ValueRef v) const { return under_.at(Key(v)).size(); }

  int64_t Loaded(UOp u, const Demand& d) const {
    const NodeInfo& info = f_.at(u);
    if (info.realised >= 0 && !d.after)
      return f_.roots[static_cast<size_t>(info.realised)].outputs[info.output].storage;
    return u.Is(Op::PARAM) ? f_.slot_storage.at(u.slot()) : -1;
  }

  void Merge(std::vector<int64_t>& into, ValueRef v) const {
    if (IsUniform(v.node)) return;
    for (int64_t s : under_.at(Key(v))) {
      const auto at = std::lower_bound(into.begin(), into.end(), s);
      if (at == into.end() || *at != s) into.insert(at, s);
    }
  }

  const Fusion& f_;
  const size_t most_;
  Constraints& constraints_;
  // By Key: the buffers that a value reads, ascending; a realised operand is -1 - its id.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> under_;
};

}  // namespace

void LimitBuffers(const Fusion& fusion, const Kernel& kernel, size_t most,
                  Constraints& constraints) {
  most = std::max<size_t>(most, 4);  // a stored WHERE of three loads needs 4
  const Root& root = fusion.roots[kernel.root];
  std::vector<int32_t> storages;
  for (const Output& out : root.outputs) storages.push_back(out.storage);
  for (uint32_t p : kernel.reads) {
    const int32_t s = kernel.placeholders[p].storage;
    if (std::find(storages.begin(), storages.end(), s) == storages.end()) storages.push_back(s);
  }
  if (storages.size() <= most) return;
  if (root.outputs.size() > 1) {
    for (const Output& out : root.outputs) constraints.alone.insert(out.node.id());
    return;
  }
  BufferCutter(fusion, most, constraints).Run({root.outputs[0].value, root.outputs[0].demand});
}

}  // namespace uopd::schedule
