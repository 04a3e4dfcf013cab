// SPDX-License-Identifier: MIT
#include "tests/fuzz/onnx_run_seeds.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>

#include "core/base/text.h"

namespace uopd::test {
namespace {

// One line for each form of an op: its name, inputs, attributes and outputs.
// An input or output is a kind: f floats, i INT64 (known to the client), b BOOL, n UINT8, s
// strings, q a sequence. An attribute is NAME=TYPE: i an integer, I a list of them, f a float, F a
// list, t a tensor of one element, a word or words with | between them: one of these strings, G: a
// graph, with the kinds of its inputs and outputs.
constexpr std::string_view kForms[] = {
    "Add f f > f",
    "Sub i i > i",
    "Mul i i > i",
    "Div i i > i",
    "Mod i i fmod=i > i",
    "Max i i i > i",
    "Min f f > f",
    "Sum f f f > f",
    "Mean f f > f",
    "Equal i i > b",
    "Less f f > b",
    "GreaterOrEqual i i > b",
    "And b b > b",
    "Not b > b",
    "Where b i i > i",
    "Where b f f > f",
    "Pow f i > f",
    "Clip f f f > f",
    "Relu f > f",
    "Softmax f axis=i > f",
    "Hardmax f axis=i > f",
    "LeakyRelu f alpha=f > f",
    "Cast i to=i > i",
    "Cast f to=i > f",
    "Concat i i i axis=i > i",
    "Concat f f axis=i > f",
    "Gather i i axis=i > i",
    "Gather f i axis=i > f",
    "GatherND f i batch_dims=i > f",
    "GatherElements f i axis=i > f",
    "ScatterElements f i f axis=i reduction=none|add|mul|max > f",
    "ScatterND f i f > f",
    "Slice i i i i > i",
    "Slice f i i i i > f",
    "Split f axis=i > f f",
    "Split f i axis=i > f f",
    "Tile f i > f",
    "Tile i i > i",
    "Expand f i > f",
    "Expand i i > i",
    "Expand b i > b",
    "Reshape f i allowzero=i > f",
    "Reshape i i > i",
    "Flatten f axis=i > f",
    "Squeeze f i > f",
    "Unsqueeze f i > f",
    "Unsqueeze i i > i",
    "Shape f start=i end=i > i",
    "Size f > i",
    "Transpose f perm=I > f",
    "Trilu f i upper=i > f",
    "Range i i i > i",
    "Range f f f > f",
    "ConstantOfShape i > f",
    "ConstantOfShape i value=t > i",
    "OneHot i i f axis=i > f",
    "EyeLike f k=i > f",
    "Constant value_ints=I > i",
    "Constant value_floats=F > f",
    "Constant value_int=i > i",
    "HannWindow i periodic=i > f",
    "Identity f > f",
    "Identity q > q",
    "Identity s > f",
    "Pad f i mode=constant|edge|reflect|wrap > f",
    "Pad f i f i > f",
    "CenterCropPad f i axes=I > f",
    "DepthToSpace f blocksize=i mode=DCR|CRD > f",
    "SpaceToDepth f blocksize=i > f",
    "ReverseSequence f i time_axis=i batch_axis=i > f",
    "MatMul f f > f",
    "Gemm f f f alpha=f beta=f transA=i transB=i > f",
    "Det f > f",
    "Einsum f f equation=ij,jk->ik|ii->i|a...,b...|i,i > f",
    "Einsum f equation=ii->i|...->|aa > f",
    "Conv f f f group=i strides=I pads=I dilations=I auto_pad=SAME_UPPER|SAME_LOWER|VALID > f",
    "Conv f f > f",
    "ConvTranspose f f strides=I output_shape=I output_padding=I > f",
    "ConvTranspose f f pads=I auto_pad=SAME_LOWER > f",
    "ConvInteger n n n n > f",
    "QLinearConv n f n n f n f n > n",
    "Col2Im f i i pads=I strides=I dilations=I > f",
    "MaxPool f kernel_shape=I strides=I pads=I ceil_mode=i storage_order=i > f i",
    "AveragePool f kernel_shape=I dilations=I count_include_pad=i > f",
    "LpPool f kernel_shape=I p=i ceil_mode=i > f",
    "GlobalAveragePool f > f",
    "MaxUnpool f i i kernel_shape=I strides=I pads=I > f",
    "Resize f f f mode=nearest|linear|cubic "
    "coordinate_transformation_mode=align_corners|asymmetric "
    "> f",
    "Resize f f f i mode=linear|nearest antialias=i exclude_outside=i "
    "keep_aspect_ratio_policy=not_larger|not_smaller axes=I > f",
    "Resize f f f mode=linear coordinate_transformation_mode=tf_crop_and_resize > f",
    "GridSample f f mode=linear|cubic|nearest padding_mode=zeros|reflection align_corners=i > f",
    "AffineGrid f i align_corners=i > f",
    "BatchNormalization f f f f f training_mode=i > f",
    "LayerNormalization f f axis=i > f f",
    "GroupNormalization f f f num_groups=i > f",
    "InstanceNormalization f f f > f",
    "LRN f size=i alpha=f > f",
    "LpNormalization f axis=i p=i > f",
    "MeanVarianceNormalization f axes=I > f",
    "ReduceSum f i keepdims=i > f",
    "ReduceProd i i noop_with_empty_axes=i > i",
    "ReduceMax i i > i",
    "ReduceLogSumExp f i > f",
    "ArgMax f axis=i select_last_index=i > i",
    "TopK f i axis=i largest=i > f i",
    "CumSum f i exclusive=i reverse=i > f",
    "CumProd f i > f",
    "NonZero f > i",
    "Compress f b axis=i > f",
    "NonMaxSuppression f f i f f center_point_box=i > i",
    "Unique f axis=i sorted=i > f i i i",
    "Unique i > i i",
    "DFT f i i onesided=i inverse=i > f",
    "STFT f i f i onesided=i > f",
    "RNN f f f f hidden_size=i layout=i clip=f direction=reverse|bidirectional > f f",
    "GRU f f f f i linear_before_reset=i > f f",
    "LSTM f f f f > f f f",
    "Attention f f f is_causal=i scale=f q_num_heads=i kv_num_heads=i > f",
    "RotaryEmbedding f f f rotary_embedding_dim=i num_heads=i interleaved=i > f",
    "LinearAttention f f f q_num_heads=i kv_num_heads=i update_rule=linear > f",
    "CausalConvWithState f f activation=silu > f f",
    "TensorScatter f f i axis=i mode=circular > f",
    "QuantizeLinear f f n axis=i block_size=i > n",
    "DequantizeLinear n f n axis=i block_size=i > f",
    "DynamicQuantizeLinear f > n f n",
    "MatMulInteger n n n n > f",
    "QLinearMatMul n f n n f n f n > n",
    "StringConcat s s > s",
    "StringSplit s delimiter=a|b|ab maxsplit=i > s i",
    "StringNormalizer s case_change_action=UPPER|LOWER > s",
    "Equal s s > b",
    "Shape s > i",
    "Reshape s i > s",
    "SequenceEmpty > q",
    "SequenceConstruct f f f > q",
    "SequenceConstruct s > q",
    "SequenceInsert q f i > q",
    "SequenceInsert q s > q",
    "SequenceErase q i > q",
    "SequenceAt q i > f",
    "SequenceLength q > i",
    "ConcatFromSequence q axis=i new_axis=i > f",
    "SplitToSequence f axis=i keepdims=i > q",
    "SplitToSequence f i axis=i > q",
    "If b then_branch=G:>f else_branch=G:>f > f",
    "If b then_branch=G:>iq else_branch=G:>iq > i q",
    "Loop i b f body=G:ibf>bff > f f",
    "Loop i b q i body=G:ibqi>bqi > q i",
    "Loop i b s body=G:ibs>bs > s",
    "Scan f f num_scan_inputs=i body=G:ff>ff > f f",
    "SequenceMap q f body=G:ff>f > q",
    "SequenceMap q q body=G:ff>fi > q q",
    "Optional f > f",
    "OptionalHasElement q > b",
    "d.f f > f",
    "d.g i > i"};

using ProgramRandom = std::mt19937_64;

int64_t ProgramNumber(ProgramRandom& random) {
  constexpr int64_t kHostile[] = {-2,
                                  7,
                                  100,
                                  4096,
                                  1 << 20,
                                  int64_t{1} << 31,
                                  int64_t{1} << 40,
                                  (int64_t{1} << 47) - 1,
                                  int64_t{1} << 48,
                                  int64_t{1} << 62,
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  if (random() % 5 > 0) return static_cast<int64_t>(random() % 5) - 1;
  return kHostile[random() % std::size(kHostile)];
}

float ProgramFloat(ProgramRandom& random) {
  constexpr float kFloats[] = {0,
                               1,
                               -1,
                               0.5,
                               2,
                               3,
                               1e-30f,
                               1e30f,
                               -1e30f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  return kFloats[random() % (random() % 4 > 0 ? 6 : std::size(kFloats))];
}

class ProgramWriter {
 public:
  explicit ProgramWriter(ProgramRandom& random) : random_(random) {}

  std::vector<WireTree> Graph(uint64_t most_nodes) {
    std::vector<WireTree> out = Initialisers();
    Nodes(out, 1, 1 + random_() % most_nodes);
    Outputs(out);
    return out;
  }
  // A function of one input and one output of this kind.
  std::vector<WireTree> Function(std::string_view name, char kind) {
    values_ = {{kind, "x"}};
    std::vector<WireTree> out = {Text(1, name), Text(10, "d"), Text(4, "x"),
                                 Message(9, {Text(1, ""), Int(2, 27)}),
                                 Message(9, {Text(1, "d"), Int(2, 1)})};
    Nodes(out, 7, 1 + random_() % 3);
    out.push_back(Text(5, NameOfKind(kind)));
    return out;
  }

 private:
  struct Named {
    char kind;
    std::string name;
  };

  std::string Fresh(char kind) {
    values_.push_back({kind, Cat("v", next_++)});
    return values_.back().name;
  }
  // The name of a value of this kind; mostly one of the newest. Now and then of another kind.
  std::string NameOfKind(char kind) {
    std::vector<const Named*> of_kind;
    const bool any = random_() % 50 == 0;
    for (const Named& v : values_)
      if (any || v.kind == kind) of_kind.push_back(&v);
    if (of_kind.empty() || random_() % 200 == 0) return random_() % 2 == 0 ? "" : "none";
    const size_t back = random_() % (1 + random_() % of_kind.size());
    return of_kind[of_kind.size() - 1 - back]->name;
  }

  std::vector<WireTree> Initialisers() {
    std::vector<WireTree> out;
    for (int i = 0; i < 4; ++i) {
      std::vector<int64_t> ints(1 + random_() % 4);
      for (int64_t& v : ints) v = ProgramNumber(random_);
      const bool scalar = random_() % 3 == 0;
      if (scalar) ints.resize(1);
      const std::vector<int64_t> dims =
          scalar ? std::vector<int64_t>{} : std::vector{static_cast<int64_t>(ints.size())};
      out.push_back(OnnxInitializer(Fresh('i'), dims, 7, {PackedInts(7, ints)}));
    }
    for (int i = 0; i < 5; ++i) {
      std::vector<int64_t> dims(random_() % 5);
      uint64_t elements = 1;
      for (int64_t& d : dims)
        elements *= static_cast<uint64_t>(d = 1 + static_cast<int64_t>(random_() % 3));
      std::vector<float> floats(elements);
      for (float& f : floats) f = ProgramFloat(random_);
      out.push_back(OnnxInitializer(Fresh('f'), dims, 1, {PackedNumbers(4, floats)}));
    }
    out.push_back(OnnxInitializer(Fresh('b'), {}, 9, {PackedInts(5, {1})}));
    out.push_back(OnnxInitializer(Fresh('b'), {2}, 9, {PackedInts(5, {1, 0})}));
    out.push_back(OnnxInitializer(Fresh('n'), {}, 2, {PackedInts(5, {3})}));
    out.push_back(OnnxInitializer(Fresh('n'), {1, 2, 2, 3}, 2, {Text(9, "abcdefghijkl")}));
    out.push_back(OnnxInitializer(Fresh('s'), {2}, 8, {Text(6, "ab a"), Text(6, "\xff")}));
    return out;
  }

  void Nodes(std::vector<WireTree>& out, uint32_t field, uint64_t count) {
    for (; count > 0; --count) {
      std::istringstream form{std::string(kForms[random_() % std::size(kForms)])};
      std::string word;
      form >> word;
      std::vector<WireTree> node;
      if (word.starts_with("d.")) {
        node = {Text(4, word.substr(2)), Text(7, "d")};
      } else {
        node = {Text(4, word)};
      }
      bool after = false;
      while (form >> word) {
        const size_t equals = word.find('=');
        if (word == ">") {
          after = true;
        } else if (after) {
          outputs_.push_back(word[0]);
        } else if (equals != std::string::npos) {
          if (random_() % 8 > 0)
            node.push_back(Attribute(word.substr(0, equals), word.substr(equals + 1)));
        } else {
          node.push_back(Text(1, NameOfKind(word[0])));
        }
      }
      for (const char kind : std::exchange(outputs_, {})) node.push_back(Text(2, Fresh(kind)));
      out.push_back(Message(field, std::move(node)));
    }
  }

  WireTree Attribute(const std::string& name, const std::string& type) {
    std::vector<WireTree> out = {Text(1, name)};
    if (type == "i") {
      out.push_back(Int(3, ProgramNumber(random_)));
      out.push_back(Int(20, 2));
    } else if (type == "I") {
      std::vector<int64_t> all(random_() % 5);
      for (int64_t& v : all) v = ProgramNumber(random_);
      out.push_back(PackedInts(8, all));
      out.push_back(Int(20, 7));
    } else if (type == "f") {
      out.push_back(Float(2, ProgramFloat(random_)));
      out.push_back(Int(20, 1));
    } else if (type == "F") {
      std::vector<float> all(random_() % 4);
      for (float& v : all) v = ProgramFloat(random_);
      out.push_back(PackedNumbers(7, all));
      out.push_back(Int(20, 6));
    } else if (type == "t") {
      out.push_back(
          Message(5, OnnxTensorFields("", {1}, 7, {PackedInts(7, {ProgramNumber(random_)})})));
      out.push_back(Int(20, 4));
    } else if (type.starts_with("G:")) {
      out.push_back(Message(6, Body(type.substr(2))));
      out.push_back(Int(20, 5));
    } else {
      std::vector<std::string> words;
      std::istringstream all{type};
      for (std::string word; std::getline(all, word, '|');) words.push_back(word);
      out.push_back(Text(4, words[random_() % words.size()]));
      out.push_back(Int(20, 3));
    }
    return Message(5, std::move(out));
  }

  // A graph that sees the values so far: the kinds of its inputs, `>`, those of its outputs.
  std::vector<WireTree> Body(const std::string& kinds) {
    const std::vector<Named> outer = values_;
    const std::vector<char> outputs = std::exchange(outputs_, {});
    std::vector<WireTree> out;
    const size_t split = kinds.find('>');
    for (const char kind : kinds.substr(0, split))
      out.push_back(Message(11, {Text(1, Fresh(kind))}));
    if (++depth_ < 3) Nodes(out, 1, random_() % 3);
    --depth_;
    for (const char kind : kinds.substr(split + 1))
      out.push_back(Message(12, {Text(1, NameOfKind(kind))}));
    values_ = outer;
    outputs_ = outputs;
    return out;
  }

  void Outputs(std::vector<WireTree>& out) {
    const size_t n = std::min<size_t>(values_.size(), 3);
    for (size_t i = 0; i < n; ++i)
      out.push_back(Message(12, {Text(1, values_[values_.size() - 1 - i].name)}));
  }

  ProgramRandom& random_;
  std::vector<Named> values_;
  std::vector<char> outputs_;  // of the node that is being written
  int next_ = 0, depth_ = 0;
};

}  // namespace

std::vector<WireTree> RandomOnnxProgram(std::mt19937_64& random) {
  ProgramWriter writer(random);
  std::vector<WireTree> out = {Int(1, 10), Message(8, {Text(1, ""), Int(2, 27)}),
                               Message(8, {Text(1, "d"), Int(2, 1)}), Message(7, writer.Graph(6))};
  out.push_back(Message(25, writer.Function("f", 'f')));
  out.push_back(Message(25, writer.Function("g", 'i')));
  return out;
}

}  // namespace uopd::test
