// SPDX-License-Identifier: MIT
#include "client/cpp/graph/normalize.h"

#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "client/cpp/graph/graph_state.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

constexpr size_t kMaxSlots = 65536;

class Normalizer {
 public:
  explicit Normalizer(ir::UOpContext& ctx) : ctx_(ctx) {}

  absl::StatusOr<NormalForm> Run(std::span<const Output> outputs) {
    std::vector<UOp> roots;
    absl::flat_hash_map<uint32_t, UOp> replaced;  // id of a value -> the BUFFER that will hold it
    for (const Output& o : outputs) {
      roots.push_back(o.value);
      roots.push_back(o.target);
      const bool leaf = o.value.n_src() == 0 || IsStored(o.value);
      if (UpdatesPart(o))
        in_place_.insert(o.value.id());
      else if (o.replaces && !leaf)
        replaced.try_emplace(o.value.id(), o.target);
    }
    absl::flat_hash_map<uint32_t, UOp> stores;  // id of a replaced value -> its STORE
    for (UOp u : ir::ToposortValues(ctx_, roots)) {
      UOPD_ASSIGN(UOp v, Rewritten(u));
      if (auto it = replaced.find(u.id()); it != replaced.end()) {
        UOPD_ASSIGN(const UOp target, Target(it->second));
        const UOp store = ir::Store(ctx_, target, v);
        stores[u.id()] = store;
        v = ir::After(ctx_, target, {store});
      }
      map_[u.id()] = v;
    }
    std::vector<UOp> sinks;
    for (const Output& o : outputs) {
      if (UpdatesPart(o)) {
        sinks.push_back(map_.at(o.value.src(1).id()));
        continue;
      }
      auto it = replaced.find(o.value.id());
      const bool done = it != replaced.end() && it->second == o.target;
      sinks.push_back(done ? stores.at(o.value.id())
                           : ir::Store(ctx_, map_.at(o.target.id()), map_.at(o.value.id())));
    }
    form_.sink = ir::Sink(ctx_, sinks);
    for (UOp v : ir::Variables(ctx_, form_.sink)) {
      auto it = values_.find(std::string(v.text()));
      if (it == values_.end())
        return absl::InvalidArgumentError(Cat("variable ", v.text(), " is not bound"));
      form_.variables.push_back(it->second);
    }
    return std::move(form_);
  }

 private:
  static bool UpdatesPart(const Output& o) {
    return o.replaces && o.value.Is(Op::AFTER) && o.value.src(0) == o.target;
  }

  // The buffer with a part replaced, as a new value; nothing is stored.
  UOp Updated(UOp after) {
    const UOp part = after.src(1).src(0);
    const UOp value = map_.at(after.src(1).src(1).id()), whole = map_.at(after.src(0).id());
    const UOp starts = map_.at(part.src(1).id());
    const UOp shape = ir::ShapeArg(ctx_, *ctx_.ShapeOf(whole));
    const UOp inside = ir::Expand(ctx_, ctx_.Bool(true), map_.at(part.src(2).id()));
    return ir::Where(ctx_, ir::Pad(ctx_, inside, starts, shape),
                     ir::Pad(ctx_, value, starts, shape), whole);
  }

  absl::StatusOr<UOp> Rewritten(UOp u) {
    if (u.Is(Op::BUFFER)) return Slot(u);
    if (u.Is(Op::AFTER) && !in_place_.contains(u.id())) return Updated(u);
    srcs_.clear();
    for (UOp s : u.srcs().first(ir::ValueSourceCount(u))) srcs_.push_back(map_.at(s.id()));
    if (u.Is(Op::BIND) && srcs_.size() == 2) {
      const std::string name(u.src(0).text());
      const int64_t value = u.src(1).arg().AsInt();  // of a float variable: the bits of a double
      auto [it, fresh] = values_.try_emplace(name, value);
      if (!fresh && it->second != value) {
        return absl::InvalidArgumentError(
            Cat("variable ", name, " is bound to ", it->second, " and to ", value));
      }
      srcs_.pop_back();
    }
    return ctx_.Make(u.op(), u.dtype(), srcs_, u.arg());
  }

  // A stored value (BUFFER or MULTI of BUFFERs) as PARAMs.
  absl::StatusOr<UOp> Target(UOp stored) {
    if (stored.Is(Op::BUFFER)) return Slot(stored);
    std::vector<UOp> pieces;
    for (UOp s : stored.srcs()) {
      UOPD_ASSIGN(pieces.emplace_back(), Slot(s));
    }
    return ctx_.Make(Op::MULTI, stored.dtype(), pieces, stored.arg());
  }

  absl::StatusOr<UOp> Slot(UOp buffer) {
    auto [it, fresh] = slots_.try_emplace(buffer.id());
    if (fresh) {
      if (form_.buffers.size() == kMaxSlots) {
        return absl::ResourceExhaustedError(
            Cat("one graph uses more than ", kMaxSlots, " buffers"));
      }
      it->second = ir::Param(ctx_, static_cast<int64_t>(form_.buffers.size()), buffer.dtype(),
                             buffer.src(0), buffer.text());
      form_.buffers.push_back(static_cast<uint64_t>(buffer.slot()));
    }
    return it->second;
  }

  ir::UOpContext& ctx_;
  NormalForm form_;
  absl::flat_hash_map<uint32_t, UOp> map_;
  absl::flat_hash_set<uint32_t> in_place_;  // AFTERs that stay stores into their buffer
  absl::flat_hash_map<uint32_t, UOp> slots_;
  std::map<std::string, int64_t> values_;
  absl::InlinedVector<UOp, 8> srcs_;
};

}  // namespace

absl::StatusOr<NormalForm> Normalize(ir::UOpContext& ctx, std::span<const Output> outputs) {
  return Normalizer(ctx).Run(outputs);
}

}  // namespace uopd::client
