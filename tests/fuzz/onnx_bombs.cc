// SPDX-License-Identifier: MIT
#include "tests/fuzz/onnx_bombs.h"

#include <limits>
#include <utility>

#include "core/base/text.h"
#include "tests/support/onnx/program.h"

namespace uopd::test {
namespace {

// A loop of 2^40 rounds whose body has these nodes, and sees what the graph has.
std::string LoopOf(std::vector<WireTree> outer, std::vector<WireTree> body) {
  body.insert(body.begin(), {InputNamed("i"), InputNamed("go"), OutputNamed("go")});
  outer.push_back(IntNamed("rounds", int64_t{1} << 40));
  outer.push_back(TrueNamed("start", {}));
  outer.push_back(
      NodeOf("Loop", {"rounds", "start"}, {}, {GraphAttribute("body", std::move(body))}));
  return ProgramOf(std::move(outer));
}

constexpr std::string_view kTooMany = "the model runs more than ";

std::vector<OnnxBomb> LoopBombs() {
  std::vector<OnnxBomb> out;
  out.push_back({"an empty loop", LoopOf({}, {}), kTooMany});
  out.push_back(
      {"a loop that folds",
       LoopOf({IntsNamed("n", std::vector<int64_t>(4096, 3))}, {NodeOf("Add", {"n", "n"}, {"m"})}),
       kTooMany});
  out.push_back({"a loop that spreads",
                 LoopOf({IntNamed("n", 3), IntsNamed("to", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2})},
                        {NodeOf("Expand", {"n", "to"}, {"m"})}),
                 kTooMany});
  out.push_back(
      {"a loop that makes floats",
       LoopOf({}, {NodeOf("Constant", {}, {"m"},
                          {Message(5, {Text(1, "value_floats"), Int(20, 6),
                                       PackedNumbers(7, std::vector<float>(10'000, 1))})})}),
       kTooMany});
  out.push_back({"a loop of tensors",
                 LoopOf({FloatsNamed("x", {2, 2})},
                        {NodeOf("Softmax", {"x"}, {"y"}), NodeOf("MatMul", {"y", "x"}, {"z"})}),
                 kTooMany});
  std::vector<WireTree> many;
  for (int i = 0; i < 20'000; ++i) many.push_back(IntNamed(Cat("n", i), i));
  out.push_back({"a loop with many initialisers", LoopOf({}, many), kTooMany});
  many.clear();
  for (int i = 0; i < 20'000; ++i) many.push_back(OutputNamed("i"));
  out.push_back({"a loop with many outputs", LoopOf({}, many), kTooMany});
  out.push_back(
      {"a loop of nodes with many inputs",
       LoopOf({IntNamed("n", 1)}, {NodeOf("Max", std::vector<std::string>(50'000, "n"), {"m"})}),
       kTooMany});
  out.push_back({"loops in loops",
                 LoopOf({}, {NodeOf("Loop", {"rounds", "start"}, {},
                                    {GraphAttribute("body", {InputNamed("j"), InputNamed("on"),
                                                             OutputNamed("on")})})}),
                 kTooMany});
  out.push_back({"a scan of 2^40 rounds",
                 ProgramOf({IntNamed("one", 1), IntsNamed("to", {int64_t{1} << 40}),
                            NodeOf("Expand", {"one", "to"}, {"x"}),
                            NodeOf("Scan", {"x"}, {"y"},
                                   {IntAttribute("num_scan_inputs", 1),
                                    GraphAttribute("body", {InputNamed("e"), OutputNamed("e")})})}),
                 kTooMany});
  return out;
}

std::vector<OnnxBomb> SequenceBombs() {
  std::vector<OnnxBomb> out;
  std::vector<WireTree> graph = {IntNamed("x", 1), NodeOf("SequenceEmpty", {}, {"s0"})};
  for (int i = 0; i < 20'000; ++i)
    graph.push_back(NodeOf("SequenceInsert", {Cat("s", i), "x"}, {Cat("s", i + 1)}));
  out.push_back({"sequences that grow", ProgramOf(graph), kTooMany});
  graph = {IntNamed("x", 1), NodeOf("SequenceConstruct", {"x"}, {"s0"})};
  for (int i = 0; i < 100'000; ++i) {
    graph.push_back(
        NodeOf("SequenceMap", {"s0"}, {Cat("s", i + 1)},
               {GraphAttribute("body", {InputNamed(Cat("e", i)), OutputNamed(Cat("s", i))})}));
  }
  out.push_back({"sequences in sequences", ProgramOf(graph), "an output of the body is no tensor"});
  for (const bool by_one : {true, false}) {
    std::vector<std::string> inputs = {"x"};
    if (by_one) inputs.emplace_back("one");
    out.push_back({Cat("a sequence of 2^40 pieces ", by_one ? "of one" : ""),
                   ProgramOf({IntNamed("one", 1), IntsNamed("to", {int64_t{1} << 40}),
                              NodeOf("Expand", {"one", "to"}, {"x"}),
                              NodeOf("SplitToSequence", inputs, {"s"})}),
                   kTooMany});
  }
  graph = {OnnxInitializer("s0", {1}, 8, {Text(6, "abcd")})};
  for (int i = 0; i < 60; ++i)
    graph.push_back(NodeOf("StringConcat", {Cat("s", i), Cat("s", i)}, {Cat("s", i + 1)}));
  out.push_back({"strings that double", ProgramOf(graph), kTooMany});
  graph = {OnnxInitializer("s", {1}, 8, {Text(6, std::string(4'000'000, ','))}),
           NodeOf("StringSplit", {"s"}, {"p"},
                  {Message(5, {Text(1, "delimiter"), Text(4, ","), Int(20, 3)})})};
  out.push_back({"a string of many pieces", ProgramOf(graph), "it gives too many strings"});
  std::vector<WireTree> words, stops = {Text(1, "stopwords"), Int(20, 8)};
  for (int i = 0; i < 100'000; ++i) {
    words.push_back(Text(6, Cat("word", i)));
    stops.push_back(Text(9, Cat("stop", i)));
  }
  out.push_back({"words and stop words",
                 ProgramOf({OnnxInitializer("s", {100'000}, 8, words),
                            NodeOf("StringNormalizer", {"s"}, {"t"}, {Message(5, stops)})})});
  return out;
}

std::vector<OnnxBomb> FunctionBombs() {
  const auto function = [](std::string_view name, std::vector<WireTree> nodes) {
    for (WireTree& n : nodes) n.number = 7;
    return With({Text(1, name), Text(10, "d"), Text(4, "x"), Text(5, "y"),
                 Message(9, {Text(1, ""), Int(2, 27)}), Message(9, {Text(1, "d"), Int(2, 1)})},
                std::move(nodes));
  };
  const auto call = [](std::string_view name, const std::string& from, const std::string& to) {
    return NodeOf(name, {from}, {to}, {Text(7, "d")});
  };
  std::vector<OnnxBomb> out;
  out.push_back(
      {"a function that calls itself",
       ProgramOf({IntNamed("x", 1), call("f", "x", "z")}, {function("f", {call("f", "x", "y")})}),
       "functions call each other more than 32 times"});
  std::vector<std::vector<WireTree>> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(
        function(Cat("f", i), {call(Cat("f", i + 1), "x", "t"), call(Cat("f", i + 1), "t", "y")}));
  }
  all.push_back(function("f30", {NodeOf("Identity", {"x"}, {"y"})}));
  out.push_back({"functions that call twice",
                 ProgramOf({IntNamed("x", 1), call("f0", "x", "z")}, all), kTooMany});
  all.clear();
  std::vector<WireTree> graph = {IntNamed("x", 1)};
  for (int i = 0; i < 30'000; ++i) {
    all.push_back(function(Cat("f", i), {NodeOf("Identity", {"x"}, {"y"})}));
    graph.push_back(call("f29999", "x", Cat("z", i)));
  }
  out.push_back({"many functions", ProgramOf(graph, all)});
  std::vector<WireTree> defaults = {NodeOf("Identity", {"x"}, {"y"})};
  std::vector<WireTree> f = function("f", defaults);
  for (int i = 0; i < 20'000; ++i) {
    f.push_back(IntAttribute(Cat("a", i), i));
    f.back().number = 11;
  }
  graph.clear();
  graph.push_back(IntNamed("x", 1));
  for (int i = 0; i < 20'000; ++i) graph.push_back(call("f", "x", Cat("z", i)));
  out.push_back({"a function of many attributes", ProgramOf(graph, {f}), kTooMany});
  std::vector<WireTree> opsets = {Int(1, 10), Message(7, {})};
  for (int i = 0; i < 100'000; ++i) opsets.push_back(Message(8, {Text(1, Cat("d", i)), Int(2, 1)}));
  out.push_back({"many operator sets", Written(opsets), "100000 operator sets are imported"});
  // Each If within another one, beyond what the reader takes.
  std::string inner = Written(std::vector{OutputNamed("b")});
  for (int i = 0; i < 10'000; ++i) {
    const WireTree branch = Message(5, {Text(1, "then_branch"), Text(6, inner), Int(20, 5)});
    inner = Written(std::vector{NodeOf("If", {"b"}, {"y"}, {branch}), OutputNamed("y")});
  }
  out.push_back({"branches in branches", Written(std::vector{Int(1, 10), Text(7, inner)}),
                 "the ONNX model has graphs in 16 graphs"});
  return out;
}

std::vector<OnnxBomb> SizeBombs() {
  std::vector<OnnxBomb> out;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  out.push_back({"a tensor elsewhere of 2^40 elements",
                 ProgramOf({OnnxElsewhere("x", {int64_t{1} << 40}, 1, {{"location", "nowhere"}}),
                            NodeOf("Identity", {"x"}, {"y"})}),
                 "opening `nowhere`"});
  // Each initialiser is in memory once, and a node may have it many times.
  out.push_back({"one list joined with itself",
                 ProgramOf({IntsNamed("n", std::vector<int64_t>(4096, 3)),
                            NodeOf("Concat", std::vector<std::string>(20'000, "n"), {"m"},
                                   {IntAttribute("axis", 0)})})});
  for (const std::string_view op : {"Sum", "Max", "Mean"}) {
    out.push_back({Cat(op, " of many tensors"),
                   ProgramOf({FloatsNamed("x", {2, 2}),
                              NodeOf(op, std::vector<std::string>(50'000, "x"), {"y"})})});
  }
  std::vector<WireTree> graph = {IntNamed("four", 4096),
                                 NodeOf("ConstantOfShape", {"four"}, {"x"})};
  for (int i = 0; i < 100'000; ++i)
    graph.push_back(NodeOf("ConstantOfShape", {"n"}, {Cat("c", i)}));
  graph.push_back(IntsNamed("n", {4096}));
  out.push_back({"many constants", ProgramOf(graph), kTooMany});
  graph = {FloatsNamed("x", {1, 1, 2, 2}), FloatsNamed("r", {0}),
           OnnxInitializer("s", {4}, 1, {PackedNumbers<float>(4, {1, 1, 1'000'000, 1'000'000})})};
  for (int i = 0; i < 100; ++i) {
    graph.push_back(NodeOf("Resize", {"x", "r", "s"}, {Cat("y", i)},
                           {Message(5, {Text(1, "mode"), Text(4, "linear"), Int(20, 3)})}));
  }
  out.push_back({"many large images", ProgramOf(graph), kTooMany});
  out.push_back({"a window of 2^63 - 1 channels",
                 ProgramOf({FloatsNamed("x", {1, 3, 2, 2}),
                            NodeOf("LRN", {"x"}, {"y"}, {IntAttribute("size", kMost)})}),
                 kTooMany});
  out.push_back({"a network of 2^40 steps",
                 ProgramOf({FloatsNamed("x1", {1, 1, 1}), IntsNamed("to", {int64_t{1} << 40, 1, 1}),
                            FloatsNamed("w", {1, 1, 1}), NodeOf("Expand", {"x1", "to"}, {"x"}),
                            NodeOf("RNN", {"x", "w", "w"}, {"y"})}),
                 kTooMany});
  out.push_back({"a matrix of 2^20 rows",
                 ProgramOf({FloatsNamed("x1", {1, 1}), IntsNamed("to", {1 << 20, 1 << 20}),
                            NodeOf("Expand", {"x1", "to"}, {"x"}), NodeOf("Det", {"x"}, {"y"})}),
                 kTooMany});
  out.push_back({"no boxes of 2^40 classes",
                 ProgramOf({OnnxInitializer("b", {1, 0, 4}, 1),
                            OnnxInitializer("s", {1, int64_t{1} << 40, 0}, 1), IntNamed("k", 3),
                            NodeOf("NonMaxSuppression", {"b", "s", "k"}, {"y"})})});
  out.push_back({"2^40 rows of nothing",
                 ProgramOf({OnnxInitializer("x", {int64_t{1} << 40, 0}, 1),
                            NodeOf("Unique", {"x"}, {"y"}, {IntAttribute("axis", 0)})}),
                 "more than 1048576 elements are not supported"});
  for (const auto& [mode, from] : {std::pair("wrap", 2), {"reflect", 2}, {"edge", 2}}) {
    out.push_back(
        {Cat("a border of 2^40 elements, ", mode),
         ProgramOf({FloatsNamed("x", {from}), IntsNamed("p", {int64_t{1} << 40, int64_t{1} << 40}),
                    NodeOf("Pad", {"x", "p"}, {"y"},
                           {Message(5, {Text(1, "mode"), Text(4, mode), Int(20, 3)})})})});
  }
  for (const std::string_view op : {"TopK", "CumProd", "CumSum"}) {
    out.push_back({Cat(op, " of 2^40 elements"),
                   ProgramOf({FloatsNamed("x1", {1}), IntsNamed("to", {int64_t{1} << 40}),
                              IntsNamed("n", {0}), NodeOf("Expand", {"x1", "to"}, {"x"}),
                              NodeOf(op, {"x", "n"}, {"y"})})});
  }
  graph = {FloatsNamed("x0", {2, 2})};
  for (int i = 0; i < 100'000; ++i)
    graph.push_back(NodeOf("Relu", {Cat("x", i)}, {Cat("x", i + 1)}));
  graph.push_back(OutputNamed("x100000"));
  out.push_back({"a long chain", ProgramOf(graph)});
  graph = {FloatsNamed("x", {2, 2})};
  for (int i = 0; i < 3000; ++i) {
    graph.push_back(NodeOf("Softmax", {"x"}, {Cat("y", i)}));
    graph.push_back(NodeOf("LayerNormalization", {"x", "x"}, {Cat("z", i)}));
  }
  out.push_back({"a wide graph", ProgramOf(graph)});
  return out;
}

}  // namespace

std::vector<OnnxBomb> OnnxBombs() {
  std::vector<OnnxBomb> out;
  for (const auto& make : {LoopBombs, SequenceBombs, FunctionBombs, SizeBombs})
    for (OnnxBomb& bomb : make()) out.push_back(std::move(bomb));
  return out;
}

}  // namespace uopd::test
