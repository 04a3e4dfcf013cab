// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/sharing.h"

#include <algorithm>

#include "core/base/digest.h"

namespace uopd::schedule {
namespace {

using ir::Shape;
using ir::UOp;

constexpr size_t kMaxOutputs = 16;
constexpr size_t kMaxLeadSteps = 256;  // roots that Leads visits; after these it answers yes

}  // namespace

// True if the iteration space of the root is that of the shape.
bool Sharing::SameSpace(const Root& root, Shape shape) const {
  size_t next = 0;
  for (UOp d : shape) {
    if (d.IsConstInt(1)) continue;
    if (next == root.n_axes() || root.axis(next++).size != d) return false;
  }
  return next == root.n_axes();
}

// True if the demand is for the element that its iteration of the root writes.
bool Sharing::IsWhole(const Demand& d, const Root& root, Shape shape) const {
  if (d.after || !d.access->always()) return false;
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const UOp at = d.access->index[i];
    if (shape[i].IsConstInt(1) ? !at.IsConstInt(0) : at != root.axis(next++).at) return false;
  }
  return true;
}

Roots Sharing::ConsumersOf(const Candidate& c, uint32_t except) const {
  Roots out = c.followers;
  for (const Candidate::Use& use : c.demands) out.push_back(use.demand->root);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.erase(std::remove(out.begin(), out.end(), except), out.end());
  return out;
}

// True if a path leads from one of the roots `from` to `to`. Heights decrease along a path, so
// roots that are not higher than `to` are skipped.
bool Sharing::Leads(Roots from, uint32_t to) {
  seen_in_.resize(f_.roots.size(), 0);
  ++searches_;
  for (size_t steps = 0; !from.empty(); ++steps) {
    const uint32_t r = from.back();
    from.pop_back();
    if (r == to || steps == kMaxLeadSteps) return true;
    if (f_.roots[r].height <= f_.roots[to].height || seen_in_[r] == searches_) continue;
    seen_in_[r] = searches_;
    from.insert(from.end(), f_.roots[r].consumers.begin(), f_.roots[r].consumers.end());
  }
  return false;
}

UOp Sharing::ScannedBy(UOp u, const Root& root) const {
  if (!u.Is(ir::Op::SCAN)) return UOp();
  const Shape shape = *f_.at(u).shape;
  const auto axis = static_cast<size_t>(u.reduce_axes()[0]);
  size_t next = 0;
  for (size_t i = 0; i < axis; ++i) next += shape[i].IsConstInt(1) ? 0 : 1;
  return shape[axis].IsConstInt(1) ? UOp() : root.axis(next).at;
}

bool Sharing::MayScan(const Root& root, UOp value) const {
  const UOp range = ScannedBy(value, root);
  if (!range || range == root.scanned) return true;
  return !root.scanned && root.axes.empty() && (root.staged_ranges & UsedRanges::Bit(range)) == 0;
}

bool Sharing::IsScannedInBlocks(const Root& root, uint32_t r, const Candidate& c) const {
  if (!root.scanned || c.value.Is(ir::Op::SCAN)) return false;
  if (options_.limits[static_cast<size_t>(c.device)].units == 0) return false;
  return std::ranges::any_of(c.demands,
                             [&](const Candidate::Use& use) { return use.demand->root == r; });
}

bool Sharing::Fits(uint32_t r, const Candidate& c) {
  const Root& root = f_.roots[r];
  if (root.alone || root.is_copy || root.device != c.device || root.outputs.size() >= kMaxOutputs)
    return false;
  if (root.part != c.part || !SameSpace(root, c.shape) || !MayScan(root, c.value)) return false;
  if (IsScannedInBlocks(root, r, c)) return false;
  if (std::find(c.followers.begin(), c.followers.end(), r) != c.followers.end()) return false;
  for (const Output& out : root.outputs) {
    if (out.storage == c.storage) return false;
  }
  for (const Candidate::Use& use : c.demands) {
    if (use.demand->root == r && !(use.forwards && IsWhole(*use.demand, root, c.shape)))
      return false;
  }
  return !Leads(ConsumersOf(c, r), r);
}

// True if the root computes a product that the candidate is not computed from, and the candidate
// one of its own. One kernel for both would have two nests of loops, and neither would have the
// tile that suits it.
bool Sharing::HasOtherProduct(uint32_t r, const Candidate& c) const {
  const auto& mine = f_.at(c.value).products;
  if (mine.empty()) return false;
  for (const Output& out : f_.roots[r].outputs) {
    for (uint32_t p : f_.at(out.value).products) {
      if (std::ranges::find(mine, p) == mine.end()) return true;
    }
  }
  return false;
}

uint64_t Sharing::SpaceKey(const Candidate& c) const {
  uint64_t key = static_cast<uint64_t>(c.device);
  for (UOp d : c.shape) {
    if (!d.IsConstInt(1)) key = Mix(key, d.id());
  }
  return key;
}

int32_t Sharing::Find(const Candidate& c) {
  if (c.part >= 0) {
    for (uint32_t r : by_part_[c.part]) {
      if (Fits(r, c)) return static_cast<int32_t>(r);
    }
    return -1;
  }
  uint32_t last = UINT32_MAX;
  for (const Candidate::Use& use : c.demands) {
    const uint32_t r = use.demand->root;
    if (r == last || !use.forwards) continue;
    last = r;
    if (!HasOtherProduct(r, c) && Fits(r, c)) return static_cast<int32_t>(r);
  }
  const uint64_t space = SpaceKey(c);
  for (const Read& read : f_.at(c.value).reads) {
    auto it = by_mark_.find(Mix(space, read.mark));
    if (it == by_mark_.end() || it->second == last) continue;
    last = it->second;
    if (Fits(last, c)) return static_cast<int32_t>(last);
  }
  return -1;
}

void Sharing::Add(uint32_t r, const Candidate& c) {
  const uint64_t space = SpaceKey(c);
  if (c.part >= 0) {
    if (f_.roots[r].outputs.size() == 1) by_part_[c.part].push_back(r);
  } else {
    for (const Read& read : f_.at(c.value).reads) by_mark_[Mix(space, read.mark)] = r;
  }
  Roots grown;
  Root& from = f_.roots[r];
  Roots known(from.consumers.begin(), from.consumers.end());
  std::sort(known.begin(), known.end());
  for (uint32_t k : ConsumersOf(c, r)) {
    Root& to = f_.roots[k];
    if (std::binary_search(known.begin(), known.end(), k)) continue;
    from.consumers.push_back(k);
    to.producers.push_back(r);
    if (to.height >= from.height) {
      from.height = to.height + 1;
      grown.assign(1, r);
    }
  }
  while (!grown.empty()) {
    const uint32_t k = grown.back();
    grown.pop_back();
    for (uint32_t p : f_.roots[k].producers) {
      if (f_.roots[p].height > f_.roots[k].height) continue;
      f_.roots[p].height = f_.roots[k].height + 1;
      grown.push_back(p);
    }
  }
}

}  // namespace uopd::schedule
