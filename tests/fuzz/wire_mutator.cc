// SPDX-License-Identifier: MIT
#include "tests/fuzz/wire_mutator.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "core/ir/build.h"
#include "core/ir/wire.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"

namespace uopd::testing {
namespace {

using ir::Op;

constexpr int64_t kNumbers[] = {0,  1,  2,       3,         4,       7,         8,
                                -1, 32, 64,      65535,     1 << 20, 1LL << 31, 1LL << 40,
                                -5, 63, 1 << 16, 1LL << 48, -2,      INT64_MAX, INT64_MIN};

class Mutator {
 public:
  Mutator(WireGraph& graph, const WireGraph& other, size_t max_nodes, std::mt19937_64& random)
      : g_(graph), other_(other), max_nodes_(max_nodes), random_(random) {}

  void Step(bool grows) {
    if (g_.empty()) return;
    const size_t at = Pick(g_.size());
    WireNode& n = g_[at];
    switch (grows ? 9 + Pick(4) : Pick(13)) {
      case 0:
        n.op = ir::Info(static_cast<Op>(Pick(ir::kOpCount))).wire;
        break;
      case 1:
        n.dtype = Pick(ir::kDtypeCount);
        break;
      case 2:
        if (!n.src.empty()) n.src[Pick(n.src.size())] = static_cast<int64_t>(Pick(at + 1)) - 1;
        break;
      case 3:
        n.src.push_back(static_cast<int64_t>(Pick(std::max<size_t>(at, 1))));
        break;
      case 4:
        if (!n.src.empty()) n.src.erase(n.src.begin() + static_cast<long>(Pick(n.src.size())));
        break;
      case 5:
        if (n.int_value) n.int_value = Number();
        if (n.float_bits) n.float_bits = random_();
        break;
      case 6:
        if (n.ints && !n.ints->empty()) (*n.ints)[Pick(n.ints->size())] = Number();
        break;
      case 7:
        if (n.ints) n.ints->push_back(Number());
        break;
      case 8:
        n.text = Pick(2) == 0 ? "CPU:1" : std::string(Pick(300), 'x');
        break;
      case 9:
        Copy(at, 1);
        break;
      case 10:
        Copy(at, size_t{1} << Pick(10));
        break;  // a chain
      case 11:
        Chain(at, size_t{1} << Pick(10));
        break;
      default:
        Graft();
        break;
    }
  }

 private:
  size_t Pick(size_t n) { return n == 0 ? 0 : random_() % n; }
  int64_t Number() {
    return Pick(2) == 0 ? static_cast<int64_t>(Pick(9)) : kNumbers[Pick(std::size(kNumbers))];
  }

  // Puts nodes at a place; what comes after is moved and still means what it meant.
  void Insert(size_t at, const WireGraph& nodes) {
    for (size_t i = at; i < g_.size(); ++i) {
      for (int64_t& s : g_[i].src) {
        if (s >= static_cast<int64_t>(at)) s += static_cast<int64_t>(nodes.size());
      }
    }
    g_.insert(g_.begin() + static_cast<long>(at), nodes.begin(), nodes.end());
  }
  // The users of `from` that come after `after` use `to`.
  void Redirect(size_t from, size_t to, size_t after) {
    for (size_t i = after; i < g_.size(); ++i) {
      for (int64_t& s : g_[i].src) {
        if (s == static_cast<int64_t>(from)) s = static_cast<int64_t>(to);
      }
    }
  }

  // The node n times more, each with the one before it as its first source.
  void Copy(size_t at, size_t n) {
    if (g_[at].src.empty() || g_.size() + n > max_nodes_ || at + 1 == g_.size()) return;
    WireGraph chain;
    for (size_t i = 0; i < n; ++i) {
      chain.push_back(g_[at]);
      chain.back().src[0] = static_cast<int64_t>(at + i);
    }
    Insert(at + 1, chain);
    Redirect(at, at + n, at + n + 1);
  }
  // A node and its neighbours before it, n times, each round on top of the one before.
  void Chain(size_t at, size_t n) {
    const size_t length = std::min<size_t>(at + 1, 1 + Pick(6));
    if (g_.size() + n * length > max_nodes_ || at + 1 == g_.size() || at < length) return;
    const auto begin = static_cast<int64_t>(at + 1 - length);
    WireGraph chain;
    for (size_t round = 1; round <= n; ++round) {
      for (size_t i = 0; i < length; ++i) {
        chain.push_back(g_[static_cast<size_t>(begin) + i]);
        for (int64_t& s : chain.back().src) {
          if (s >= begin) s += static_cast<int64_t>(round * length);
        }
        // What came from outside of the part comes from the end of the last round.
        if (i == 0 && !chain.back().src.empty())
          chain.back().src[0] = static_cast<int64_t>(at + (round - 1) * length);
      }
    }
    Insert(at + 1, chain);
    Redirect(at, at + n * length, at + n * length + 1);
  }
  // The other graph before this one; a source changes over to it.
  void Graft() {
    if (g_.size() + other_.size() > max_nodes_ || other_.empty()) return;
    const size_t n = other_.size() - 1;  // without its SINK
    Insert(0, WireGraph(other_.begin(), other_.end() - 1));
    WireNode& user = g_[n + Pick(g_.size() - n)];
    if (!user.src.empty()) user.src[Pick(user.src.size())] = static_cast<int64_t>(Pick(n));
  }

  WireGraph& g_;
  const WireGraph& other_;
  const size_t max_nodes_;
  std::mt19937_64& random_;
};

void PutKey(std::string& out, int field, int type) {
  PutVarint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

}  // namespace

WireGraph ReadWire(std::string_view bytes) {
  WireGraph out;
  const auto read = [](bool ok) { UOPD_CHECK(ok); };
  ByteReader r(bytes);
  uint64_t key, v;
  while (!r.done()) {
    read(r.Varint(key));
    if (key >> 3 == 1) {
      read(r.Varint(v));
      continue;
    }
    std::string_view node, list;
    read(r.String(node));
    ByteReader fields(node);
    WireNode n;
    while (!fields.done()) {
      read(fields.Varint(key));
      switch (key >> 3) {
        case 1:
          read(fields.Varint(n.op));
          break;
        case 2:
          read(fields.Varint(n.dtype));
          break;
        case 4:
          read(fields.Varint(v));
          n.int_value = UnZigZag(v);
          break;
        case 5:
          read(fields.Fixed64(v));
          n.float_bits = v;
          break;
        case 3:
          read(fields.String(list));
          for (ByteReader l(list); !l.done();)
            read(l.Varint(v)), n.src.push_back(static_cast<int64_t>(out.size() - v));
          break;
        case 6:
          read(fields.String(list));
          n.ints.emplace();
          for (ByteReader l(list); !l.done();) read(l.Varint(v)), n.ints->push_back(UnZigZag(v));
          break;
        default:
          read(fields.String(list));
          n.text = std::string(list);
      }
    }
    out.push_back(std::move(n));
  }
  return out;
}

std::string WriteWire(const WireGraph& graph) {
  std::string out, node, list;
  PutKey(out, 1, 0), PutVarint(out, ir::kIrVersion);
  for (size_t i = 0; i < graph.size(); ++i) {
    const WireNode& n = graph[i];
    node.clear();
    PutKey(node, 1, 0), PutVarint(node, n.op);
    PutKey(node, 2, 0), PutVarint(node, n.dtype);
    list.clear();
    for (int64_t s : n.src) PutVarint(list, static_cast<uint64_t>(static_cast<int64_t>(i) - s));
    if (!list.empty()) PutKey(node, 3, 2), PutString(node, list);
    if (n.int_value) PutKey(node, 4, 0), PutVarint(node, ZigZag(*n.int_value));
    if (n.float_bits) {
      PutKey(node, 5, 1);
      node.append(reinterpret_cast<const char*>(&*n.float_bits), 8);
    }
    if (n.ints) {
      list.clear();
      for (int64_t v : *n.ints) PutVarint(list, ZigZag(v));
      PutKey(node, 6, 2), PutString(node, list);
    }
    if (n.text) PutKey(node, 7, 2), PutString(node, *n.text);
    PutKey(out, 2, 2), PutString(out, node);
  }
  return out;
}

WireGraph Mutate(WireGraph graph, const WireGraph& other, size_t max_nodes,
                 std::mt19937_64& random) {
  Mutator mutator(graph, other, max_nodes, random);
  // Half of the graphs only grow and get other numbers, which most often leaves them valid.
  const bool grows = random() % 2 == 0;
  for (uint64_t n = 1 + random() % 8; n-- > 0;) mutator.Step(grows);
  return graph;
}

std::vector<WireGraph> SeedGraphs() {
  std::vector<WireGraph> out;
  auto add = [&](auto make) {
    ir::UOpContext ctx;
    out.push_back(ReadWire(ir::Encode(ctx, make(ctx))));
  };
  add([](auto& c) { return TransformerGraph(c, 1, 4, 8, 2); });
  add([](auto& c) { return ResNetGraph(c, 1, 1, 2, 4); });
  add([](auto& c) { return AdamGraph(c, 2, 4, 4); });
  for (uint64_t seed = 0; seed < 24; ++seed) {
    GeneratorOptions options{.ops = 4 + static_cast<int>(seed % 12)};
    options.symbolic = seed % 3 == 1, options.devices = seed % 4 == 2;
    add([&](auto& c) { return GenerateGraph(c, seed, options).sink; });
  }
  add([](ir::UOpContext& c) {  // pieces, and an assignment to each of them in turn
    const ir::UOp shape = ir::ShapeArg(c, std::initializer_list<int64_t>{4});
    const ir::UOp p = ir::Param(c, 0, ir::Dtype::F32, shape, "CPU:0");
    const ir::UOp q = ir::Param(c, 1, ir::Dtype::F32, shape, "CPU:1");
    const ir::UOp multi = c.Make(Op::MULTI, ir::Dtype::F32, {p, q}, c.Data({0}));
    const ir::UOp store = ir::Store(c, multi, ir::Add(c, multi, multi));
    const ir::UOp after = ir::After(c, multi, {store});
    const ir::UOp again = ir::Store(c, after, ir::Mul(c, after, after));
    return ir::Sink(c, std::span(&again, 1));
  });
  return out;
}

}  // namespace uopd::testing
