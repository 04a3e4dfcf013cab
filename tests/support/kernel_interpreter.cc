// SPDX-License-Identifier: MIT
#include "tests/support/kernel_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/status.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"

namespace uopd::tests {
namespace {

using ir::Dtype;
using ir::Op;
using ir::Scalar;
using ir::UOp;

class Interpreter {
 public:
  Interpreter(ir::UOpContext& ctx, UOp sink, Memory& memory,
              const std::map<std::string, int64_t>& variables)
      : memory_(memory), variables_(variables) {
    for (UOp u : ir::Toposort(ctx, sink)) {
      std::vector<uint32_t>& mine = along_[u.id()];
      if (u.Is(Op::RANGE)) mine.push_back(u.id());
      for (UOp s : u.srcs()) mine.insert(mine.end(), along_[s.id()].begin(), along_[s.id()].end());
      std::sort(mine.begin(), mine.end());
      mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
      if (u.Is({Op::REDUCE, Op::STAGE})) {
        for (UOp r : u.closed()) std::erase(mine, r.id());
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
      memo_.clear();
      staged_.clear();
    }
  }

 private:
  template <class Body>
  void Loop(UOp closer, size_t i, const Body& body) {
    if (i == closer.closed().size()) return body();
    const UOp range = closer.closed()[i];
    const int64_t size = Eval(range.src(0)).i;
    // Another loop over the same range may be running around this one: restore its state afterwards.
    const int64_t value = values_[range.id()];
    const uint64_t stamp = stamp_[range.id()];
    for (int64_t v = 0; v < size; ++v) {
      values_[range.id()] = v;
      stamp_[range.id()] = ++clock_;
      Loop(closer, i + 1, body);
    }
    values_[range.id()] = value;
    stamp_[range.id()] = stamp;
  }

  // Null if the gate is false.
  uint8_t* Address(UOp index) {
    if (index.n_src() == 3 && Eval(index.src(2)).i == 0) return nullptr;
    const UOp base = ir::MaybeBaseOf(index.src(0));
    auto& bytes = memory_.at(static_cast<size_t>(base.slot()));
    const auto at = static_cast<size_t>(Eval(index.src(1)).i * ir::ByteSize(base.dtype()));
    UOPD_CHECK(at + static_cast<size_t>(ir::ByteSize(base.dtype())) <= bytes.size());
    return bytes.data() + at;
  }

  uint64_t Newest(UOp u) {
    uint64_t newest = 0;
    for (uint32_t r : along_.at(u.id())) newest = std::max(newest, stamp_[r]);
    return newest;
  }

  Scalar Eval(UOp u) {
    const uint64_t newest = Newest(u);
    auto it = memo_.find(u.id());
    if (it != memo_.end() && it->second.first == newest) return it->second.second;
    const Scalar out = Compute(u);
    memo_[u.id()] = {newest, out};
    return out;
  }

  Scalar Compute(UOp u) {
    switch (u.op()) {
      case Op::CONST:
        return Scalar::Of(u);
      case Op::RANGE:
        return Scalar::Int(u.dtype(), values_.at(u.id()));
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
        std::vector<Scalar> operands;
        for (UOp s : u.srcs()) operands.push_back(Eval(s));
        if (u.Is(Op::WMMA)) return ir::EvalWmma(u, operands);
        const auto out = ir::EvalAlu(u.op(), u.dtype(), operands);
        UOPD_CHECK(out.has_value());
        return *out;
      }
    }
  }

  static Scalar Zero(Dtype d) { return ir::IsFloat(d) ? Scalar::Float(d, 0) : Scalar::Int(d, 0); }

  Scalar LoadStaged(UOp index) {
    if (index.n_src() == 3 && Eval(index.src(2)).i == 0) return Zero(index.dtype());
    const UOp stage = index.src(0);
    const Scalar at = Eval(index.src(1));
    const uint64_t newest = Newest(stage);
    auto it = staged_.find(stage.id());
    if (it == staged_.end() || it->second.first != newest) {
      // A correct kernel does not depend on elements that were never stored.
      const Scalar poison = ir::IsFloat(stage.dtype()) ? Scalar::Float(stage.dtype(), std::nan(""))
                                                       : Scalar::Int(stage.dtype(), 85);
      std::vector<Scalar> elements(static_cast<size_t>(stage.arg().AsInt()), poison);
      Loop(stage, 0, [&] {
        if (Eval(stage.src(2)).i != 0)
          elements.at(static_cast<size_t>(Eval(stage.src(1)).i)) = Eval(stage.src(0));
      });
      it = staged_.insert_or_assign(stage.id(), std::pair(newest, std::move(elements))).first;
    }
    return it->second.second.at(static_cast<size_t>(at.i));
  }

  Scalar Reduce(UOp u) {
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

  // Adds this iteration's term to the value of the iteration before. Iterations come in the order of
  // the scanned ranges; each combination of the other ranges has a value of its own.
  Scalar Scan(UOp u) {
    const auto ranges = u.scanned();
    const bool wide = ir::IsFloat(u.dtype());
    std::vector<int64_t> key = {u.id()};
    for (uint32_t r : along_.at(u.id())) {
      if (std::none_of(ranges.begin(), ranges.end(), [&](UOp s) { return s.id() == r; }))
        key.push_back(values_.at(r));
    }
    const bool first =
        std::all_of(ranges.begin(), ranges.end(), [&](UOp r) { return values_.at(r.id()) == 0; });
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
  std::map<uint32_t, std::vector<uint32_t>> along_;  // node -> ranges that it varies with
  std::map<uint32_t, int64_t> values_;
  std::map<uint32_t, uint64_t> stamp_;  // when a range last changed
  std::map<uint32_t, std::pair<uint64_t, Scalar>> memo_;
  std::map<uint32_t, std::pair<uint64_t, std::vector<Scalar>>> staged_;  // by STAGE
  std::map<std::vector<int64_t>, Scalar> running_;                       // of SCANs: see Scan
  uint64_t clock_ = 0;
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
