// SPDX-License-Identifier: MIT
#include "tests/fuzz/graph_mutator.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/ir/dtype.h"
#include "core/ir/op.h"

namespace uopd::fuzz {
namespace {

// Stands for as many bytes that are no UTF-8, which a message's text cannot hold.
constexpr char kNoUtf8[] = "\x02\x03\x02";
constexpr char kNoUtf8Bytes[] = "\xff\xc0\x80";

// Sources behind position `at` keep meaning the same nodes when `added` nodes come in before it.
void ShiftSources(v1::Graph& graph, int at, int added) {
  for (int i = at + added; i < graph.nodes_size(); ++i) {
    for (uint32_t& distance : *graph.mutable_nodes(i)->mutable_src()) {
      if (static_cast<int64_t>(i) - distance < at + added) {
        distance += static_cast<uint32_t>(added);
      }
    }
  }
}

// Moves the last node to position `at`.
void MoveLastTo(v1::Graph& graph, int at) {
  auto& nodes = *graph.mutable_nodes();
  for (int i = nodes.size() - 1; i > at; --i) nodes.SwapElements(i, i - 1);
}

}  // namespace

int64_t GraphMutator::Number() {
  static constexpr int64_t kEdges[] = {
      0,         1,         -1,        2,         3,        4,         7,         8,
      16,        31,        32,        33,        63,       64,        65,        127,
      128,       255,       256,       1000,      4096,     65535,     65536,     1 << 20,
      1 << 24,   INT32_MAX, INT32_MIN, -2,        -8,       1LL << 31, 1LL << 32, 1LL << 36,
      1LL << 45, 1LL << 48, 1LL << 62, INT64_MAX, INT64_MIN};
  if (Below(4) == 0) return static_cast<int64_t>(random_()) >> Below(64);
  return kEdges[Below(std::size(kEdges))];
}

uint32_t GraphMutator::SomeOp() {
  static const std::vector<uint32_t> ops = [] {
    std::vector<uint32_t> out;
#define UOPD_OP(name, wire, ...) out.push_back(wire);
#include "core/ir/ops.def"
#undef UOPD_OP
    return out;
  }();
  return Below(50) == 0 ? static_cast<uint32_t>(Below(130)) : ops[Below(ops.size())];
}

uint32_t GraphMutator::SomeDtype() { return static_cast<uint32_t>(Below(24)); }

void GraphMutator::ChangeNode(v1::Node& node) {
  switch (Below(9)) {
    case 0:
      node.set_op(SomeOp());
      break;
    case 1:
      node.set_dtype(SomeDtype());
      break;
    case 2:
      node.set_int_value(Number());
      break;
    case 3: {
      static constexpr double kFloats[] = {0,
                                           -0.0,
                                           1,
                                           -1,
                                           0.5,
                                           1e30,
                                           1e-30,
                                           std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN()};
      node.set_float_value(kFloats[Below(std::size(kFloats))]);
      break;
    }
    case 4:
      if (node.ints_size() > 0) {
        node.set_ints(static_cast<int>(Below(static_cast<size_t>(node.ints_size()))), Number());
      } else {
        node.add_ints(Number());
      }
      break;
    case 5:
      if (node.ints_size() > 0 && Below(2) == 0) {
        node.mutable_ints()->RemoveLast();
      } else {
        node.add_ints(static_cast<int64_t>(Below(5)));
      }
      break;
    case 6: {
      static const char* const kTexts[] = {"",      "CPU:0",  "CPU:1", "CPU:99", "n",
                                           kNoUtf8, "NULL:0", "a b",   "CPU"};
      node.set_text(kTexts[Below(std::size(kTexts))]);
      break;
    }
    case 7:
      node.clear_int_value(), node.clear_float_value(), node.clear_ints(), node.clear_text();
      break;
    default:
      // Near what it was: most often still valid.
      if (node.has_int_value()) {  // wraps at the ends
        const uint64_t by = Below(2) == 0 ? 1 : UINT64_MAX;
        node.set_int_value(static_cast<int64_t>(static_cast<uint64_t>(node.int_value()) + by));
      }
      if (node.ints_size() > 1) node.mutable_ints()->SwapElements(0, node.ints_size() - 1);
      if (node.op() >= 60 && node.op() <= 91) node.set_op(static_cast<uint32_t>(60 + Below(32)));
  }
}

void GraphMutator::ChangeSources(v1::Graph& graph, int at) {
  v1::Node& node = *graph.mutable_nodes(at);
  const auto near = [&]() -> uint32_t {
    if (at == 0 || Below(30) == 0) return static_cast<uint32_t>(Number());
    return static_cast<uint32_t>(1 + Below(static_cast<size_t>(at)));
  };
  const auto some = [&] { return static_cast<int>(Below(static_cast<size_t>(node.src_size()))); };
  switch (node.src_size() == 0 ? 0 : Below(5)) {
    case 0:
      node.add_src(near());
      break;
    case 1:
      node.mutable_src()->RemoveLast();
      break;
    case 2:
      node.mutable_src()->SwapElements(some(), some());
      break;
    default:
      node.set_src(some(), near());
  }
}

void GraphMutator::InsertNode(v1::Graph& graph) {
  const int at = static_cast<int>(Below(static_cast<size_t>(graph.nodes_size())));
  v1::Node& node = *graph.add_nodes();
  node.set_op(SomeOp());
  node.set_dtype(SomeDtype());
  for (size_t i = Below(4); i > 0 && at > 0; --i) {
    node.add_src(static_cast<uint32_t>(1 + Below(static_cast<size_t>(std::min(at, 12)))));
  }
  if (Below(3) == 0) node.set_int_value(Number());
  if (Below(4) == 0) node.add_ints(static_cast<int64_t>(Below(4)));
  MoveLastTo(graph, at);
  ShiftSources(graph, at, 1);
  // Somebody reads it.
  const int reader = at + 1;
  if (reader < graph.nodes_size() && graph.nodes(reader).src_size() > 0) {
    graph.mutable_nodes(reader)->set_src(0, 1);
  }
}

// x becomes f(f(f(x))), where f is a node or a few in a row: deep chains of what is valid.
void GraphMutator::RepeatPart(v1::Graph& graph) {
  auto& nodes = *graph.mutable_nodes();
  const int last = static_cast<int>(Below(static_cast<size_t>(nodes.size())));
  const int length = Below(2) == 0 ? 1 : 1 + static_cast<int>(Below(6));
  const int first = last + 1 - length;
  if (first < 0 || nodes[first].src_size() == 0) return;
  const int rounds = 1 << Below(std::bit_width(static_cast<unsigned>(max_nodes_)) - 2);
  const int added = rounds * length;
  if (nodes.size() + added > max_nodes_) return;
  const int inside = static_cast<int>(Below(static_cast<size_t>(nodes[first].src_size())));
  const int behind = nodes.size();
  for (int round = 1; round <= rounds; ++round) {
    for (int i = 0; i < length; ++i) {
      v1::Node next = nodes[first + i];
      for (int s = 0; s < next.src_size(); ++s) {
        if (i == 0 && s == inside) {
          next.set_src(s, 1);                                // the end of the round before
        } else if (static_cast<int64_t>(next.src(s)) > i) {  // outside of the part
          next.set_src(s, next.src(s) + static_cast<uint32_t>(round * length));
        }
      }
      *nodes.Add() = std::move(next);
    }
  }
  std::rotate(nodes.pointer_begin() + last + 1, nodes.pointer_begin() + behind,
              nodes.pointer_end());
  // Readers of the part read the last round.
  for (int i = last + 1 + added; i < nodes.size(); ++i) {
    for (uint32_t& distance : *nodes[i].mutable_src()) {
      if (static_cast<int64_t>(i) - added - distance < first) {
        distance += static_cast<uint32_t>(added);
      }
    }
  }
}

// The statements of two graphs in one; their slots meet.
void GraphMutator::Append(v1::Graph& graph, const v1::Graph& other) {
  if (graph.nodes_size() == 0 || other.nodes_size() == 0) return;
  if (graph.nodes_size() + other.nodes_size() > max_nodes_) return;
  v1::Node sink = graph.nodes(graph.nodes_size() - 1);
  graph.mutable_nodes()->RemoveLast();
  for (const v1::Node& node : other.nodes()) *graph.add_nodes() = node;
  for (uint32_t& distance : *sink.mutable_src()) {
    distance += static_cast<uint32_t>(other.nodes_size());
  }
  const v1::Node last = graph.nodes(graph.nodes_size() - 1);
  graph.mutable_nodes()->RemoveLast();
  for (uint32_t& distance : *sink.mutable_src()) --distance;
  for (const uint32_t distance : last.src()) sink.add_src(distance);
  *graph.add_nodes() = std::move(sink);
}

void GraphMutator::ChangeBytes(std::string& bytes) {
  for (size_t n = 1 + Below(4); n > 0 && !bytes.empty(); --n) {
    const size_t at = Below(bytes.size());
    switch (Below(4)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, 1, static_cast<char>(random_()));
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << Below(8));
    }
  }
}

std::string GraphMutator::Mutate(const v1::Graph& graph, const v1::Graph& other) {
  v1::Graph out = graph;
  for (size_t n = 1 + Below(Below(4) == 0 ? 8 : 2); n > 0 && out.nodes_size() > 0; --n) {
    const int at = static_cast<int>(Below(static_cast<size_t>(out.nodes_size())));
    switch (Below(12)) {
      case 0:
        InsertNode(out);
        break;
      case 1:
        RepeatPart(out);
        break;
      case 2:
        Append(out, other);
        break;
      case 3:
        out.mutable_nodes()->SwapElements(
            at, static_cast<int>(Below(static_cast<size_t>(out.nodes_size()))));
        break;
      case 4:
      case 5:
      case 6:
        ChangeSources(out, at);
        break;
      default:
        ChangeNode(*out.mutable_nodes(at));
    }
  }
  std::string bytes = out.SerializeAsString();
  for (size_t at; (at = bytes.find(kNoUtf8)) != std::string::npos;) {
    bytes.replace(at, sizeof kNoUtf8 - 1, kNoUtf8Bytes);
  }
  if (Below(40) == 0) ChangeBytes(bytes);
  return bytes;
}

}  // namespace uopd::fuzz
