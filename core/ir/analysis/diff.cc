// SPDX-License-Identifier: MIT
#include "core/ir/analysis/diff.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"

namespace uopd::ir {
namespace {

constexpr size_t kPathHops = 8;  // nodes of a path that are printed: those next to the difference

bool IsDataArg(UOp u) {
  const ArgSchema schema = Info(u.op()).arg;
  return schema != ArgSchema::None && schema != ArgSchema::Const && schema != ArgSchema::Int;
}

bool SameArg(UOp a, UOp b) {
  if (!IsDataArg(a)) return a.arg() == b.arg();
  if (a.arg().bits == 0 || b.arg().bits == 0) return a.arg() == b.arg();
  return std::ranges::equal(a.ints(), b.ints()) && a.text() == b.text();
}

std::string_view FieldOf(ArgSchema schema) {
  switch (schema) {
    case ArgSchema::Const:
      return "value";
    case ArgSchema::Int:
    case ArgSchema::Ints:
      return "axes";
    case ArgSchema::Text:
      return "device";
    case ArgSchema::Param:
      return "slot, memory and device";
    case ArgSchema::Var:
      return "bounds and name";
    case ArgSchema::Reduce:
      return "op and axes";
    default:
      return "arg";
  }
}

// One of the two graphs: the position of every node, and a hash of everything below the node. Equal
// graphs have equal hashes in all contexts.
struct Side {
  std::vector<UOp> order;
  std::vector<uint32_t> position;  // by id
  std::vector<uint64_t> hash;      // by position

  Side(const UOpContext& ctx, UOp root, Interrupt& interrupt)
      : order(Toposort(ctx, root)), position(ctx.size()) {
    hash.resize(order.size());
    for (uint32_t i = 0; i < order.size() && !interrupt.Poll(); ++i) {
      const UOp u = order[i];
      position[u.id()] = i;
      uint64_t h = Mix(static_cast<uint64_t>(u.op()), static_cast<uint64_t>(u.dtype()));
      if (!IsDataArg(u)) {
        h = Mix(h, u.arg().bits);
      } else if (u.arg().bits != 0) {
        for (int64_t v : u.ints()) h = Mix(h, static_cast<uint64_t>(v));
        for (char c : u.text()) h = Mix(h, static_cast<uint8_t>(c));
      }
      h = Mix(h, u.n_src());
      for (UOp s : u.srcs()) h = Mix(h, hash[position[s.id()]]);
      hash[i] = h;
    }
  }
  uint32_t at(UOp u) const { return position[u.id()]; }
};

class Differ {
 public:
  Differ(const UOpContext& ctx_a, UOp a, const UOpContext& ctx_b, UOp b, size_t most,
         Interrupt& interrupt)
      : a_(ctx_a, a, interrupt), b_(ctx_b, b, interrupt), most_(most), interrupt_(interrupt) {}

  std::vector<Difference> Run() {
    if (interrupt_.raised()) return {};  // the hashes are not complete
    Push(static_cast<uint32_t>(a_.order.size() - 1), static_cast<uint32_t>(b_.order.size() - 1),
         kRoot, 0);
    while (!stack_.empty() && out_.size() < most_ && !interrupt_.Poll()) {
      const uint32_t at = stack_.back();
      stack_.pop_back();
      Visit(at);
    }
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kRoot = UINT32_MAX;
  struct Pair {
    uint32_t a, b;    // positions
    uint32_t parent;  // index into pairs_
    uint32_t source;  // which source of the parent
  };

  void Push(uint32_t a, uint32_t b, uint32_t parent, uint32_t source) {
    if (a_.hash[a] == b_.hash[b]) return;
    if (!seen_.insert(uint64_t{a} << 32 | b).second) return;
    stack_.push_back(static_cast<uint32_t>(pairs_.size()));
    pairs_.push_back({a, b, parent, source});
  }

  void Visit(uint32_t at) {
    const Pair pair = pairs_[at];
    const UOp a = a_.order[pair.a], b = b_.order[pair.b];
    if (!a.Is(b.op())) {
      Report(at, "op", PrintLine(a, a_.order), PrintLine(b, b_.order));
      return;
    }
    if (a.dtype() != b.dtype() && !DtypeFollows(a, b)) {
      Report(at, "dtype", std::string(Name(a.dtype())), std::string(Name(b.dtype())));
    }
    // The arg of a constant depends on its dtype, so a different arg follows from a different
    // dtype.
    if (!SameArg(a, b) && !(a.Is(Op::CONST) && a.dtype() != b.dtype())) {
      Report(at, std::string(FieldOf(Info(a.op()).arg)), PrintArg(a), PrintArg(b));
    }
    if (a.n_src() != b.n_src()) {
      Report(at, "sources", Cat(a.n_src()), Cat(b.n_src()));
      return;
    }
    const auto first = static_cast<ptrdiff_t>(stack_.size());
    for (size_t i = 0; i < a.n_src(); ++i)
      Push(a_.at(a.src(i)), b_.at(b.src(i)), at, static_cast<uint32_t>(i));
    std::reverse(stack_.begin() + first, stack_.end());  // the first source is visited first
  }

  static bool DtypeFollows(UOp a, UOp b) {
    for (size_t i = 0; i < std::min(a.n_src(), b.n_src()); ++i) {
      if (a.src(i).dtype() == a.dtype() && b.src(i).dtype() == b.dtype()) return true;
    }
    return false;
  }

  void Report(uint32_t at, std::string field, std::string a, std::string b) {
    const Pair& pair = pairs_[at];
    out_.push_back({pair.a, pair.b, Path(at), std::move(field), std::move(a), std::move(b)});
  }

  std::string Path(uint32_t at) const {
    std::vector<std::string> hops = {std::string(Name(a_.order[pairs_[at].a].op()))};
    uint32_t i = at;
    for (; pairs_[i].parent != kRoot && hops.size() < kPathHops; i = pairs_[i].parent) {
      const UOp parent = a_.order[pairs_[pairs_[i].parent].a];
      hops.push_back(Cat(Name(parent.op()), ".", pairs_[i].source));
    }
    std::string out = pairs_[i].parent != kRoot ? "... > " : "";
    for (size_t k = hops.size(); k-- > 0;) Append(out, hops[k], k > 0 ? " > " : "");
    return out;
  }

  const Side a_, b_;
  const size_t most_;
  Interrupt& interrupt_;
  std::vector<Pair> pairs_;
  std::vector<uint32_t> stack_;
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<Difference> out_;
};

}  // namespace

std::vector<Difference> Diff(const UOpContext& ctx_a, UOp a, const UOpContext& ctx_b, UOp b,
                             size_t most, Interrupt& interrupt) {
  return Differ(ctx_a, a, ctx_b, b, most, interrupt).Run();
}

std::vector<uint32_t> Sketch(const UOpContext& ctx, UOp root, Interrupt& interrupt) {
  std::vector<uint32_t> out;
  for (UOp u : Toposort(ctx, root)) {
    if (interrupt.Poll()) break;
    uint64_t h = Mix(static_cast<uint64_t>(u.op()), static_cast<uint64_t>(u.dtype()));
    for (UOp s : u.srcs()) h = Mix(h, static_cast<uint64_t>(s.op()));
    out.push_back(static_cast<uint32_t>(h));
  }
  std::ranges::sort(out);
  return out;
}

double Similarity(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  if (a.empty() && b.empty()) return 1;
  size_t shared = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      ++shared;
      ++i;
      ++j;
    } else
      ++(a[i] < b[j] ? i : j);
  }
  return static_cast<double>(shared) / static_cast<double>(a.size() + b.size() - shared);
}

}  // namespace uopd::ir
