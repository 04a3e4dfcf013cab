// SPDX-License-Identifier: MIT
#include "client/cpp/graph/history.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/graph_state.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

namespace {

// The buffer that this one is a copy of, as long as both have the same contents.
uint64_t OriginOf(uint64_t number, const BufferTable& buffers) {
  while (const auto& origin = buffers.at(number).origin) {
    if (!buffers.Has(origin->number)) break;
    const ClientBuffer& of = buffers.at(origin->number);
    if (of.handle != origin->handle || of.written != origin->written) break;
    number = origin->number;
  }
  return number;
}

// u with the origins of copies in place of these.
UOp OfOrigins(ir::UOpContext& ctx, UOp u, const BufferTable& buffers) {
  if (!buffers.has_copies()) return u;
  ir::Substitution map;
  for (UOp b : ir::Toposort(ctx, u)) {
    if (!b.Is(Op::BUFFER)) continue;
    const uint64_t number = OriginOf(static_cast<uint64_t>(b.slot()), buffers);
    if (number == static_cast<uint64_t>(b.slot())) continue;
    map.emplace(b.id(), ir::Buffer(ctx, static_cast<int64_t>(number), b.dtype(), b.src(0),
                                   ir::AddrSpace::GLOBAL, b.text()));
  }
  return map.empty() ? u : ReplaceValues(ctx, u, map);
}

}  // namespace

bool CarriesGradient(UOp u) {
  constexpr ir::OpSet kNone = {Op::BITCAST, Op::TRUNC};
  return u.Is(Op::STORE) ||
         (ir::IsFloat(u.dtype()) && !u.Is(kNone) && !(u.Is(Op::DETACH) && u.n_src() == 1));
}

void Histories::Add(UOp stored, UOp value, std::vector<uint64_t> reads, Moment made) {
  const uint64_t number = NumbersOf(stored)[0];
  const uint64_t order = next_order_++;
  by_order_.emplace(order, number);
  entries_.emplace(number, Entry{stored, value, std::move(reads), order, made});
  ++changes_;
}

void Histories::AddEnded(UOp stored, const Buffers& reads, Moment made) {
  const auto [it, fresh] = ended_.try_emplace(NumbersOf(stored)[0]);
  if (fresh || it->second.reads != reads) ++changes_;
  it->second = {reads, made};
}

void Histories::Erase(uint64_t number) {
  const auto it = entries_.find(number);
  if (it == entries_.end()) return;
  by_order_.erase(it->second.order);
  entries_.erase(it);
  ++changes_;
}

void Histories::Removed(uint64_t number) {
  changes_ += ended_.erase(number);
  Erase(number);
}

void Histories::Written(uint64_t number, bool assigned, BufferTable& buffers) {
  if (assigned) {
    buffers.at(number).written = ++next_written_;
    buffers.at(number).origin.reset();
  }
  std::vector<uint64_t> ends;
  for (const auto& [reader, entry] : entries_) {
    if (std::ranges::find(entry.reads, number) != entry.reads.end()) ends.push_back(reader);
  }
  // Before the buffer's own history is gone: what it read, the others may have read too.
  for (uint64_t reader : ends) End(reader, buffers);
  Removed(number);
}

Histories::Buffers Histories::AllBelow(std::span<const uint64_t> reads,
                                       const BufferTable& buffers) const {
  std::vector<uint64_t> todo, out;
  absl::flat_hash_set<uint64_t> seen;
  const auto add = [&](std::span<const uint64_t> more) {
    for (uint64_t n : more) {
      if (seen.insert(n).second) todo.push_back(n);
    }
  };
  add(reads);
  while (!todo.empty()) {
    const uint64_t below = todo.back();
    todo.pop_back();
    if (!buffers.Has(below)) continue;
    out.push_back(below);
    if (const auto it = ended_.find(below); it != ended_.end()) {
      if (it->second.reads == nullptr) return nullptr;
      add(*it->second.reads);
    }
    if (const auto it = entries_.find(below); it != entries_.end()) add(it->second.reads);
  }
  std::ranges::sort(out);
  return std::make_shared<const std::vector<uint64_t>>(std::move(out));
}

void Histories::End(uint64_t number, const BufferTable& buffers) {
  const Entry& entry = entries_.at(number);
  const Moment made = entry.made;
  ended_[number] = {AllBelow(entry.reads, buffers), made};
  ++changes_;
  Erase(number);
}

void Histories::Stored(ir::UOpContext& ctx, UOp value, UOp stored, uint64_t since) {
  for (auto& [number, entry] : entries_) {
    if (entry.made.since < since || entry.value == value || !ir::Reaches(ctx, entry.value, value))
      continue;
    entry.value = ReplaceValues(ctx, entry.value, {{value.id(), stored}});
    for (uint64_t part : NumbersOf(stored)) entry.reads.push_back(part);
  }
}

void Histories::Renamed(ir::UOpContext& ctx, UOp value, UOp now, uint64_t since) {
  for (auto& [number, entry] : entries_) {
    if (entry.made.since < since || !ir::Reaches(ctx, entry.value, value)) continue;
    UOp in_place =
        now;  // for a copy of the value, a node of its own: the copy has its own gradient
    if (entry.value == value)
      in_place = ctx.Make(Op::CONTIGUOUS_BACKWARD, now.dtype(), {now}, {},
                          -1 - static_cast<int64_t>(number));
    entry.value = ReplaceValues(ctx, entry.value, {{value.id(), in_place}});
  }
}

Histories::Asked Histories::MayBeAsked(std::span<const uint64_t> reads,
                                       const NumberSet& known) const {
  Asked out = Asked::kNever;
  std::vector<uint64_t> todo(reads.begin(), reads.end());
  absl::flat_hash_set<uint64_t> seen(reads.begin(), reads.end());
  while (!todo.empty()) {
    const uint64_t number = todo.back();
    todo.pop_back();
    if (known.Contains(number)) return Asked::kMaybe;
    if (const auto ended = ended_.find(number); ended != ended_.end()) {
      const Buffers& below = ended->second.reads;
      if (below == nullptr ||
          std::ranges::any_of(*below, [&](uint64_t n) { return known.Contains(n); }))
        out = Asked::kInVain;
    }
    const auto it = entries_.find(number);
    if (it == entries_.end()) continue;
    for (uint64_t below : it->second.reads) {
      if (seen.insert(below).second) todo.push_back(below);
    }
  }
  return out;
}

void Histories::Keep(const NumberSet& live, const NumberSet& asked, std::span<const uint64_t> reads,
                     const BufferTable& buffers, NumberSet& kept) {
  for (;;) {
    std::vector<uint64_t> todo(reads.begin(), reads.end()), unasked, in_vain;
    absl::flat_hash_set<uint64_t> only(reads.begin(), reads.end());
    for (const auto& [number, entry] : entries_) {
      if (!live.Contains(number)) continue;
      const bool constant = entry.reads.empty();  // it keeps no memory
      const Asked may_be = constant ? Asked::kMaybe : MayBeAsked(entry.reads, asked);
      if (may_be != Asked::kMaybe) {
        (may_be == Asked::kNever ? unasked : in_vain).push_back(number);
        continue;
      }
      for (uint64_t below : entry.reads) {
        if (only.insert(below).second) todo.push_back(below);
      }
    }
    for (uint64_t number : in_vain) End(number, buffers);
    for (uint64_t number : unasked) Erase(number);
    while (!todo.empty()) {
      const auto it = entries_.find(todo.back());
      todo.pop_back();
      if (it == entries_.end()) continue;
      for (uint64_t below : it->second.reads) {
        if (only.insert(below).second) todo.push_back(below);
      }
    }
    uint64_t bytes = 0;
    for (uint64_t number : only) bytes += live.Contains(number) ? 0 : buffers.at(number).bytes;
    if (entries_.empty() || (bytes <= most_bytes_ && entries_.size() <= kMost)) {
      for (uint64_t number : only) kept.Insert(number);
      return;
    }
    End(by_order_.begin()->second, buffers);
  }
}

const Histories::Entry* Histories::Find(UOp stored) const {
  if (!IsStored(stored)) return nullptr;
  const auto it = entries_.find(NumbersOf(stored)[0]);
  return it != entries_.end() && it->second.stored == stored ? &it->second : nullptr;
}

Histories::Expansion Histories::Expand(ir::UOpContext& ctx, std::span<const UOp> roots,
                                       const BufferTable& buffers) const {
  Expansion out{{roots.begin(), roots.end()}, {}};
  for (UOp& root : out.roots) root = OfOrigins(ctx, root, buffers);
  absl::flat_hash_map<uint64_t, const Entry*> found;  // by the number of the stored value
  std::vector<UOp> todo = out.roots;
  absl::flat_hash_set<uint32_t> seen;
  while (!todo.empty()) {
    std::vector<UOp> next;
    for (UOp u : ir::Toposort(ctx, todo, [&](UOp v) { return !seen.contains(v.id()); })) {
      if (!seen.insert(u.id()).second) continue;
      if (const Entry* const entry = Find(u);
          entry != nullptr && found.emplace(NumbersOf(entry->stored)[0], entry).second)
        next.push_back(OfOrigins(ctx, entry->value, buffers));
    }
    todo = std::move(next);
  }
  if (found.empty()) return out;
  ir::Substitution map;
  for (const Entry* entry : InOrder(found, buffers)) {
    const UOp value = ReplaceValues(ctx, OfOrigins(ctx, entry->value, buffers), map);
    map.emplace(entry->stored.id(), value);
    if (!IsStored(value)) out.back.try_emplace(value.id(), entry->stored);
  }
  for (UOp& root : out.roots) root = ReplaceValues(ctx, root, map);
  return out;
}

std::vector<const Histories::Entry*> Histories::InOrder(
    const absl::flat_hash_map<uint64_t, const Entry*>& entries, const BufferTable& buffers) {
  std::vector<const Entry*> out, stack;
  absl::flat_hash_set<uint64_t> begun, done;
  for (const auto& [first, root] : entries) {
    stack.push_back(root);
    while (!stack.empty()) {
      const Entry* const entry = stack.back();
      const uint64_t number = NumbersOf(entry->stored)[0];
      if (begun.insert(number).second) {
        for (uint64_t read : entry->reads) {
          const auto below = entries.find(OriginOf(read, buffers));
          if (below != entries.end() && !begun.contains(below->first))
            stack.push_back(below->second);
        }
        continue;
      }
      stack.pop_back();
      if (done.insert(number).second) out.push_back(entry);
    }
  }
  return out;
}

bool Histories::Ended::MayRead(const TensorState& t, const BufferTable& buffers) const {
  if (t.since > made.since) return false;
  if (!IsStored(t.uop) || reads == nullptr) return true;
  return std::ranges::any_of(NumbersOf(t.uop), [&](uint64_t number) {
    const ClientBuffer& b = buffers.at(number);
    return b.handle >= made.handle || b.written > made.written ||
           std::ranges::binary_search(*reads, number) ||
           (b.origin && std::ranges::binary_search(*reads, b.origin->number));
  });
}

absl::Status Histories::CheckWhole(const ir::UOpContext& ctx, UOp root,
                                   std::span<const TensorState* const> targets,
                                   const BufferTable& buffers) const {
  if (ended_.empty()) return absl::OkStatus();
  for (UOp u : ir::Toposort(ctx, std::span(&root, 1), CarriesGradient)) {
    if (!u.Is(Op::BUFFER) || !CarriesGradient(u)) continue;
    const auto ended = ended_.find(static_cast<uint64_t>(u.slot()));
    if (ended == ended_.end()) continue;
    for (const TensorState* t : targets) {
      const bool itself = IsStored(t->uop) && NumbersOf(t->uop)[0] == ended->first;
      if (itself || !ended->second.MayRead(*t, buffers)) continue;
      return absl::FailedPreconditionError(
          "the graph of a realised tensor below the loss is gone: a tensor that it was computed "
          "from has another value now, or ClientOptions::history_bytes was reached. Call Backward "
          "earlier, or Detach the realised tensor");
    }
  }
  return absl::OkStatus();
}

void Histories::MoveTo(const ir::UOpContext& from, ir::UOpContext& to,
                       absl::flat_hash_map<uint32_t, UOp>& map) {
  for (auto& [number, entry] : entries_) {
    entry.stored = ir::CopyTo(from, entry.stored, to, map);
    entry.value = ir::CopyTo(from, entry.value, to, map);
  }
}

}  // namespace uopd::client
