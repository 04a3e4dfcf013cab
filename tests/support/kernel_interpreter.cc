// SPDX-License-Identifier: MIT
#include "tests/support/kernel_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "core/base/status.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::tests {
namespace {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;

// Nodes have numbers, sources first. A value is computed again only if a range that it varies with
// has changed, or if it depends on memory and a statement has run since.
class Interpreter {
 public:
  Interpreter(ir::UOpContext& ctx, UOp sink, Memory& memory,
              const std::map<std::string, int64_t>& variables)
      : memory_(memory), variables_(variables) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      if (u.id() >= numbers_.size()) numbers_.resize(u.id() + 1);
      numbers_[u.id()] = static_cast<uint32_t>(nodes_.size());
      Node& mine = nodes_.emplace_back();
      mine.u = u;
      mine.reads = u.Is(Op::LOAD);
      if (u.Is(Op::RANGE)) mine.along.push_back(NumberOf(u));
      for (UOp s : u.srcs()) {
        mine.srcs.push_back(NumberOf(s));
        const Node& from = nodes_[NumberOf(s)];
        mine.along.insert(mine.along.end(), from.along.begin(), from.along.end());
        mine.reads |= from.reads;
      }
      std::sort(mine.along.begin(), mine.along.end());
      mine.along.erase(std::unique(mine.along.begin(), mine.along.end()), mine.along.end());
      if (u.Is({Op::REDUCE, Op::STAGE})) {
        for (UOp r : u.closed()) std::erase(mine.along, NumberOf(r));
      }
    }
  }

  void Run(UOp statement) {
    if (statement.Is(Op::SINK)) {
      for (UOp s : statement.srcs()) Run(s);
    } else if (statement.Is(Op::END)) {
      Loop(statement, 0, [&] { Run(statement.src(0)); });
    } else {
      // The STOREs of a GROUP compute all their values before the first one writes.
      std::vector<UOp> stores = {statement};
      if (statement.Is(Op::GROUP)) stores.assign(statement.srcs().begin(), statement.srcs().end());
      std::vector<std::pair<Scalar, uint8_t*>> writes;
      for (UOp store : stores) {
        UOPD_CHECK(store.Is(Op::STORE));
        const Scalar value = Eval(store.src(1));
        writes.emplace_back(value, Address(store.src(0)));
      }
      for (const auto& [value, at] : writes) {
        if (at != nullptr) StoreScalar(value, at);
      }
      ++statements_;
    }
  }

 private:
  struct Node {
    UOp u;
    std::vector<uint32_t> srcs;
    std::vector<uint32_t> along;  // the ranges that it varies with
    bool reads = false;           // memory, itself or by its sources
    // Its last value, and what that belongs to: the newest change of a range, and the statement.
    bool known = false;
    uint64_t newest = 0, statement = 0;
    Scalar last;
    // Only a RANGE uses these: its current iteration, and the clock when the iteration last
    // changed.
    int64_t value = 0;
    uint64_t stamp = 0;
    // Only a STAGE uses this: its array, which `newest` and `statement` also describe.
    std::vector<Scalar> elements;
  };

  uint32_t NumberOf(UOp u) const { return numbers_[u.id()]; }

  template <class Body>
  void Loop(UOp closer, size_t i, const Body& body) {
    if (i == closer.closed().size()) return body();
    const UOp range = closer.closed()[i];
    const int64_t size = Eval(range.src(0)).i;
    // Another loop over the same range may be running around this one: restore its state
    // afterwards.
    Node& node = nodes_[NumberOf(range)];
    const int64_t value = node.value;
    const uint64_t stamp = node.stamp;
    for (int64_t v = 0; v < size; ++v) {
      node.value = v;
      node.stamp = ++clock_;
      Loop(closer, i + 1, body);
    }
    node.value = value;
    node.stamp = stamp;
  }

  // Null if the gate is false.
  [[gnu::noinline]] uint8_t* Address(UOp index) {
    if (index.n_src() == 3 && Eval(index.src(2)).i == 0) return nullptr;
    const UOp base = ir::MaybeBaseOf(index.src(0));
    auto& bytes = memory_.at(static_cast<size_t>(base.slot()));
    const auto at = static_cast<size_t>(Eval(index.src(1)).i * ir::ByteSize(base.dtype()));
    UOPD_CHECK(at + static_cast<size_t>(ir::ByteSize(base.dtype())) <= bytes.size());
    return bytes.data() + at;
  }

  uint64_t Newest(const Node& node) const {
    uint64_t newest = 0;
    for (const uint32_t r : node.along) newest = std::max(newest, nodes_[r].stamp);
    return newest;
  }
  // Whether what the node holds is its value now. If not, the caller gives it a new one.
  bool IsCurrent(Node& node) {
    const uint64_t newest = Newest(node);
    if (node.known && node.newest == newest && (!node.reads || node.statement == statements_))
      return true;
    node.newest = newest;
    node.statement = statements_;
    return false;
  }

  Scalar Eval(UOp u) { return Eval(NumberOf(u)); }
  Scalar Eval(uint32_t number) {
    Node& node = nodes_[number];
    if (IsCurrent(node)) return node.last;
    node.last = Compute(node);
    node.known = true;
    return node.last;
  }

  Scalar Compute(const Node& node) {
    const UOp u = node.u;
    switch (u.op()) {
      case Op::CONST:
        return Scalar::Of(u);
      case Op::RANGE:
        return Scalar::Int(u.dtype(), node.value);
      case Op::DEFINE_VAR:
        return Scalar::Int(Dtype::Index, variables_.at(std::string(u.text())));
      case Op::LOAD: {
        if (u.src(0).src(0).Is(Op::STAGE)) return LoadStaged(u.src(0));
        const uint8_t* at = Address(u.src(0));
        if (at != nullptr) return LoadScalar(u.dtype(), at);
        return Zero(u.dtype());
      }
      case Op::REDUCE:
        return Reduce(u);
      case Op::SCAN:
        return Scan(u);
      default: {
        const size_t first = operands_.size();
        for (const uint32_t s : node.srcs) {
          const Scalar operand = Eval(s);
          operands_.push_back(operand);
        }
        const auto out = Apply(u, std::span(operands_).subspan(first));
        operands_.resize(first);
        UOPD_CHECK(out.has_value());
        return *out;
      }
    }
  }

  static std::optional<Scalar> Apply(UOp u, std::span<const Scalar> operands) {
    if (u.Is(Op::WMMA)) return ir::EvalWmma(u, operands);
    return ir::EvalAlu(u.op(), u.dtype(), operands);
  }

  static Scalar Zero(Dtype d) { return ir::IsFloat(d) ? Scalar::Float(d, 0) : Scalar::Int(d, 0); }

  // Not inlined, as Reduce, Scan and Address: AddressSanitizer poisons the frame of Compute with
  // every call.
  [[gnu::noinline]] Scalar LoadStaged(UOp index) {
    if (index.n_src() == 3 && Eval(index.src(2)).i == 0) return Zero(index.dtype());
    const UOp stage = index.src(0);
    const Scalar at = Eval(index.src(1));
    Node& node = nodes_[NumberOf(stage)];
    if (!IsCurrent(node)) {
      // A correct kernel does not depend on elements that were never stored.
      const Scalar poison = ir::IsFloat(stage.dtype()) ? Scalar::Float(stage.dtype(), std::nan(""))
                                                       : Scalar::Int(stage.dtype(), 85);
      std::vector<Scalar> elements(static_cast<size_t>(stage.arg().AsInt()), poison);
      Loop(stage, 0, [&] {
        if (Eval(stage.src(2)).i != 0)
          elements.at(static_cast<size_t>(Eval(stage.src(1)).i)) = Eval(stage.src(0));
      });
      node.elements = std::move(elements);
      node.known = true;
    }
    return node.elements.at(static_cast<size_t>(at.i));
  }

  [[gnu::noinline]] Scalar Reduce(UOp u) {
    const bool wide = ir::IsFloat(u.dtype());
    Scalar acc = ir::ReduceIdentity(u.reduce_op(), wide ? Dtype::F64 : u.dtype());
    Loop(u, 0, [&] {
      Scalar x = Eval(u.src(0));
      if (wide) x = Scalar::Float(Dtype::F64, x.f);
      const Scalar operands[] = {acc, x};
      acc = *ir::EvalAlu(u.reduce_op(), acc.dtype, operands);
    });
    return wide ? Scalar::Float(u.dtype(), acc.f) : acc;
  }

  // Adds this iteration's term to the value of the iteration before. Iterations come in the order
  // of the scanned ranges; each combination of the other ranges has a value of its own.
  [[gnu::noinline]] Scalar Scan(UOp u) {
    const auto ranges = u.scanned();
    const bool wide = ir::IsFloat(u.dtype());
    std::vector<int64_t> key = {u.id()};
    for (const uint32_t r : nodes_[NumberOf(u)].along) {
      if (std::none_of(ranges.begin(), ranges.end(), [&](UOp s) { return NumberOf(s) == r; }))
        key.push_back(nodes_[r].value);
    }
    const bool first = std::all_of(ranges.begin(), ranges.end(),
                                   [&](UOp r) { return nodes_[NumberOf(r)].value == 0; });
    Scalar x = Eval(u.src(0));
    if (wide) x = Scalar::Float(Dtype::F64, x.f);
    Scalar acc = ir::ReduceIdentity(u.reduce_op(), wide ? Dtype::F64 : u.dtype());
    if (!first) acc = running_.at(key);
    const Scalar operands[] = {acc, x};
    acc = *ir::EvalAlu(u.reduce_op(), acc.dtype, operands);
    running_.insert_or_assign(key, acc);
    return wide ? Scalar::Float(u.dtype(), acc.f) : acc;
  }

  Memory& memory_;
  const std::map<std::string, int64_t>& variables_;
  std::vector<Node> nodes_;                         // by number; as many as in the constructor
  std::vector<uint32_t> numbers_;                   // by id
  std::vector<Scalar> operands_;                    // of the nodes that are being computed, a stack
  std::map<std::vector<int64_t>, Scalar> running_;  // of SCANs: see Scan
  uint64_t clock_ = 0, statements_ = 0;
};

}  // namespace

Scalar LoadScalar(Dtype dtype, const uint8_t* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(ir::ByteSize(dtype)));
  if (dtype == Dtype::Bool) return Scalar::Int(dtype, bits != 0);
  if (ir::IsFloat(dtype)) return {dtype, 0, ir::DecodeFloat(dtype, bits)};
  return Scalar::Int(dtype, static_cast<ir::Int128>(bits));
}

void StoreScalar(const Scalar& value, uint8_t* at) {
  const uint64_t bits = ir::IsFloat(value.dtype) ? ir::EncodeFloat(value.dtype, value.f)
                                                 : static_cast<uint64_t>(value.i);
  std::memcpy(at, &bits, static_cast<size_t>(ir::ByteSize(value.dtype)));
}

void Interpret(ir::UOpContext& ctx, UOp sink, Memory& memory,
               const std::map<std::string, int64_t>& variables) {
  Interpreter(ctx, sink, memory, variables).Run(sink);
}

}  // namespace uopd::tests
