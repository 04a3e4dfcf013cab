// SPDX-License-Identifier: MIT
#include "core/ir/context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/config/debug_flags.h"
#include "core/base/status.h"
#include "core/base/table_key.h"

namespace uopd::ir {
namespace {

uint32_t HashNode(uint64_t key, Op op, Dtype dtype, std::span<const UOp> src, uint64_t arg_hash,
                  int64_t tag) {
  KeyedHash h(key, uint64_t(op) << 8 | uint64_t(dtype));
  h.AddChosen(key, arg_hash);
  if (tag != 0) h.Add(static_cast<uint64_t>(tag));
  for (UOp s : src) h.Add(s.id());
  return static_cast<uint32_t>(h.get());
}

uint32_t HashData(uint64_t key, std::span<const int64_t> ints, std::string_view text) {
  KeyedHash h(key, ints.size());
  for (int64_t v : ints) h.AddChosen(key, static_cast<uint64_t>(v));
  for (char c : text) h.Add(static_cast<uint8_t>(c));
  return static_cast<uint32_t>(h.get());
}

// Nodes have few sources: a loop beats a call of memcmp.
bool SameSources(std::span<const UOp> src, const UOp* other) {
  for (UOp s : src) {
    if (s != *other++) return false;
  }
  return true;
}

// Ops whose arg is interned.
constexpr OpSet kDataOps = [] {
  OpSet out;
#define UOPD_OP(name, wire, groups, min_src, max_src, arg, doc)                  \
  if (ArgSchema::arg != ArgSchema::None && ArgSchema::arg != ArgSchema::Const && \
      ArgSchema::arg != ArgSchema::Int)                                          \
    out.Add(Op::name);
#include "core/ir/ops.def"
#undef UOPD_OP
  return out;
}();

}  // namespace

UOpContext::UOpContext() : UOpContext(TableKey()) {}

UOpContext::UOpContext(uint64_t key)
    : table_(256), data_table_(16, {0, nullptr}), check_new_(Debug().spec >= 2), key_(key) {}

UOpContext::UOpContext(const UOpContext* base) : UOpContext(base->key_) {
  base_ = base;
  base_size_ = static_cast<uint32_t>(base->size());
  n_ranges_ = base->n_ranges_;
}

const Node* UOpContext::Find(uint32_t hash, Op op, Dtype dtype, std::span<const UOp> src, Arg arg,
                             int64_t tag) const {
  const size_t mask = table_.size() - 1;
  for (size_t i = hash & mask; table_[i].node != kNoNode; i = (i + 1) & mask) {
    if (table_[i].hash != hash) continue;
    const Node* n = nodes_[table_[i].node];
    if (n->op == op && n->dtype == dtype && n->n_src == src.size() && UOp(n).arg() == arg &&
        UOp(n).tag() == tag && SameSources(src, n->src_begin())) {
      return n;
    }
  }
  return nullptr;
}

UOp UOpContext::Make(Op op, Dtype dtype, std::span<const UOp> src, Arg arg, int64_t tag) {
  const uint64_t arg_hash = kDataOps.Has(op) && arg.bits != 0 ? arg.AsData().hash : arg.bits;
  const uint32_t hash = HashNode(key_, op, dtype, src, arg_hash, tag);
  if (base_ != nullptr) {
    if (const Node* n = base_->Find(hash, op, dtype, src, arg, tag)) return UOp(n);
  }
  if (const Node* n = Find(hash, op, dtype, src, arg, tag)) return UOp(n);

  UOPD_CHECK(size() < UINT32_MAX);
  const bool has_arg = kArgOps.Has(op) || arg.bits != 0, has_tag = tag != 0;
  const size_t words = src.size() + (has_arg ? 1 : 0) + (has_tag ? 1 : 0);
  auto* n = static_cast<Node*>(arena_.Allocate(sizeof(Node) + words * sizeof(UOp)));
  const auto id = static_cast<uint32_t>(size());
  uint32_t ranges = op == Op::RANGE ? 1U << (n_ranges_++ % 32) : 0;
  for (UOp s : src) ranges |= s.node()->ranges;
  *n = {op, dtype, has_arg, has_tag, static_cast<uint32_t>(src.size()), id, ranges};
  char* out = reinterpret_cast<char*>(n + 1);
  if (!src.empty()) std::memcpy(out, src.data(), src.size_bytes());
  out += src.size_bytes();
  if (has_arg) {
    std::memcpy(out, &arg.bits, sizeof arg.bits);
    out += sizeof arg.bits;
  }
  if (has_tag) std::memcpy(out, &tag, sizeof tag);
  // Grow by half: less memory stays unused than with doubling.
  if (nodes_.size() == nodes_.capacity())
    nodes_.reserve(std::max<size_t>(64, nodes_.size() + nodes_.size() / 2));
  nodes_.push_back(n);
  if (nodes_.size() * 4 > table_.size() * 3) Grow();
  Insert({hash, static_cast<uint32_t>(nodes_.size() - 1)});
  if (check_new_) [[unlikely]]
    CheckNew(UOp(n));
  return UOp(n);
}

void UOpContext::Insert(Entry entry) {
  const size_t mask = table_.size() - 1;
  size_t i = entry.hash & mask;
  while (table_[i].node != kNoNode) i = (i + 1) & mask;
  table_[i] = entry;
}

void UOpContext::Grow() {
  const std::vector<Entry> old = std::exchange(table_, std::vector<Entry>(table_.size() * 2));
  for (const Entry& e : old) {
    if (e.node != kNoNode) Insert(e);
  }
}

UOp UOpContext::WithSources(UOp u, std::span<const UOp> src) {
  if (src.size() == u.n_src() && SameSources(src, u.srcs().data())) return u;
  return Make(u.op(), u.dtype(), src, u.arg(), u.tag());
}

const ArgData* UOpContext::FindData(uint32_t hash, std::span<const int64_t> ints,
                                    std::string_view text) const {
  const size_t mask = data_table_.size() - 1;
  for (size_t i = hash & mask; data_table_[i].second != nullptr; i = (i + 1) & mask) {
    const ArgData* d = data_table_[i].second;
    if (data_table_[i].first == hash && d->n_ints == ints.size() && d->text() == text &&
        std::equal(ints.begin(), ints.end(), d->ints_begin())) {
      return d;
    }
  }
  return nullptr;
}

Arg UOpContext::Data(std::span<const int64_t> ints, std::string_view text) {
  const uint32_t hash = HashData(key_, ints, text);
  if (base_ != nullptr) {
    if (const ArgData* d = base_->FindData(hash, ints, text)) return Arg::Data(d);
  }
  if (const ArgData* d = FindData(hash, ints, text)) return Arg::Data(d);
  auto* d =
      static_cast<ArgData*>(arena_.Allocate(sizeof(ArgData) + ints.size_bytes() + text.size()));
  *d = {static_cast<uint32_t>(ints.size()), static_cast<uint32_t>(text.size()), hash};
  char* out = reinterpret_cast<char*>(d + 1);
  if (!ints.empty()) std::memcpy(out, ints.data(), ints.size_bytes());
  if (!text.empty()) std::memcpy(out + ints.size_bytes(), text.data(), text.size());
  if (++data_count_ * 4 > data_table_.size() * 3) {
    auto old = std::move(data_table_);
    data_table_.assign(old.size() * 2, {0, nullptr});
    const size_t mask = data_table_.size() - 1;
    for (const auto& entry : old) {
      if (entry.second == nullptr) continue;
      size_t i = entry.first & mask;
      while (data_table_[i].second != nullptr) i = (i + 1) & mask;
      data_table_[i] = entry;
    }
  }
  const size_t mask = data_table_.size() - 1;
  size_t i = hash & mask;
  while (data_table_[i].second != nullptr) i = (i + 1) & mask;
  data_table_[i] = {hash, d};
  return Arg::Data(d);
}

UOp UOpContext::Int(Dtype dtype, Int128 v) {
  return Make(Op::CONST, dtype, std::span<const UOp>{}, Arg::Int(WrapTo(dtype, v)));
}

UOp UOpContext::Float(Dtype dtype, double v) {
  return Make(Op::CONST, dtype, std::span<const UOp>{}, Arg::Float(RoundTo(dtype, v)));
}

UOpContext::Way UOpContext::WayOf(UOp u) {
  constexpr size_t kShort = 4;  // ways of at most this many nodes are not memoised
  absl::InlinedVector<UOp, 8> passed;
  Way way{u, false};
  while (way.from.Is(kMovementOps) || way.from.Is(Op::AFTER)) {
    if (const auto known = ways_.find(way.from.id()); known != ways_.end()) {
      way = known->second;
      break;
    }
    passed.push_back(way.from);
    way.from = way.from.src(0);
  }
  const bool keep = passed.size() > kShort;
  while (!passed.empty()) {
    way.repeats |= passed.back().Is(OpSet{Op::EXPAND, Op::PAD});
    if (keep) ways_.emplace(passed.back().id(), way);
    passed.pop_back();
  }
  return way;
}

size_t UOpContext::bytes_reserved() const {
  return arena_.bytes_reserved() + nodes_.capacity() * sizeof(nodes_[0]) +
         table_.capacity() * sizeof(table_[0]) + data_table_.capacity() * sizeof(data_table_[0]) +
         ways_.capacity() * (sizeof(uint32_t) + sizeof(Way)) + shapes_.bytes_reserved() +
         shape_of_.bytes_reserved() + bounds_.bytes_reserved();
}

}  // namespace uopd::ir
