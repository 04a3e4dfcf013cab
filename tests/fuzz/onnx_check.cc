// SPDX-License-Identifier: MIT
#include "tests/fuzz/onnx_check.h"

#include <set>

#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/fuzz/clean_message.h"
#include "uopd/onnx.h"

namespace uopd::test {
namespace {

using namespace client;  // NOLINT(google-build-using-namespace)

// Goes over a model; `wrong` is the first mistake.
class OnnxWalk {
 public:
  explicit OnnxWalk(std::string_view file) : file_(file) {}
  const std::string& wrong() const { return wrong_; }

  void Model(const OnnxModel& m) {
    Graph(m.graph, 1);
    for (const OnnxFunction& f : m.functions) {
      Need(!f.name.empty(), "a function without a name");
      for (const OnnxNode& n : f.nodes) Node(n, 1);
      for (const OnnxAttribute& a : f.default_attributes) Attribute(a, 1);
      for (const OnnxValue& v : f.value_infos) Type(v.type, 1);
    }
    Need(nodes_ <= kMostOnnxNodes, "too many nodes");
  }

 private:
  void Need(bool right, std::string_view what) {
    if (!right && wrong_.empty()) wrong_ = what;
  }
  void Within(std::string_view text) {
    Need(text.empty() || (text.data() >= file_.data() &&
                          text.data() + text.size() <= file_.data() + file_.size()),
         "a text is not within the file");
  }
  void Graph(const OnnxGraph& g, int depth) {
    Need(depth <= kMostOnnxGraphDepth, "graphs too deep");
    std::set<std::string_view> names;
    for (const OnnxTensor& t : g.initializers) {
      Need(!t.name.empty() && names.insert(t.name).second, "the name of an initialiser");
      Tensor(t);
    }
    for (const OnnxSparseTensor& t : g.sparse_initializers) Sparse(t);
    for (const OnnxNode& n : g.nodes) Node(n, depth);
    for (const auto* const list : {&g.inputs, &g.outputs, &g.value_infos}) {
      for (const OnnxValue& v : *list) {
        Within(v.name);
        Type(v.type, 1);
      }
    }
  }
  void Node(const OnnxNode& n, int depth) {
    ++nodes_;
    Need(!n.op_type.empty() && n.offset < file_.size(), "a node");
    for (const std::string_view text : n.inputs) Within(text);
    for (const std::string_view text : n.outputs) Within(text);
    for (const OnnxAttribute& a : n.attributes) {
      Need(n.Find(a.name) == &a, "the name of an attribute");
      Attribute(a, depth);
    }
  }
  void Attribute(const OnnxAttribute& a, int depth) {
    Need(!a.name.empty(), "an attribute without a name");
    if (!a.ref_attr_name.empty()) {
      Need(a.value.index() == 0, "a value of another attribute");
      return;
    }
    constexpr size_t kIndex[] = {99, 1, 2, 3, 7, 8, 4, 5, 6, 7, 8, 9, 9, 10, 10};
    Need(a.value.index() == kIndex[static_cast<size_t>(a.type)], "the type of an attribute");
    if (a.type == OnnxAttribute::Type::kTensor) Need(a.Tensor() != nullptr, "no tensor");
    if (a.type == OnnxAttribute::Type::kGraph) Need(a.Graph() != nullptr, "no graph");
    if (const auto s = a.String()) Within(*s);
    if (const auto* const v = std::get_if<std::vector<OnnxTensor>>(&a.value))
      for (const OnnxTensor& t : *v) Tensor(t);
    if (const auto* const v = std::get_if<std::vector<OnnxGraph>>(&a.value))
      for (const OnnxGraph& g : *v) Graph(g, depth + 1);
    if (const auto* const v = std::get_if<std::vector<OnnxSparseTensor>>(&a.value))
      for (const OnnxSparseTensor& t : *v) Sparse(t);
    if (const auto* const v = std::get_if<std::vector<OnnxType>>(&a.value))
      for (const OnnxType& t : *v) Type(t, 1);
  }
  void Tensor(const OnnxTensor& t) {
    if (t.type == nullptr) return Need(false, "no type of elements");
    Need(Elements(t.dims) == t.elements(), "the number of elements");
    Within(t.name);
    if (t.type->bits == 0) return Need(t.strings.size() == t.elements(), "strings");
    if (t.external != nullptr) {
      const std::string path = Cat("/", t.external->location, "/");
      Need(t.parts.empty() && t.external->location[0] != '/', "an absolute path");
      Need(path.find("/../") == std::string::npos, "a path out of the folder");
      return;
    }
    // Every element takes at least a bit of the file, or two.
    Need(t.bytes() <= 8 * file_.size(), "contents that are not there");
    if (!wrong_.empty()) return;
    std::string out(t.bytes(), '\0');
    const absl::Status status = ReadOnnx(file_, t, out);
    if (!status.ok()) Need(false, Cat("contents: ", StatusText(status)));
  }
  void Sparse(const OnnxSparseTensor& t) {
    Tensor(t.values);
    Tensor(t.indices);
    Need(t.values.dims.size() == 1 && Elements(t.dims) < uint64_t{1} << 48, "a sparse tensor");
  }
  void Type(const OnnxType& t, int depth) {
    Need(depth <= kMostOnnxTypeDepth, "types too deep");
    for (const OnnxDim& d : t.shape) {
      Need(!d.value || (*d.value >= 0 && *d.value < int64_t{1} << 48 && d.param.empty()), "a size");
    }
    if (t.inner != nullptr) Type(*t.inner, depth + 1);
  }
  uint64_t Elements(const Dims& dims) {
    Need(dims.size() <= kMostOnnxAxes, "too many axes");
    unsigned __int128 out = 1;  // of numbers below 2^48 no step overflows 128 bits
    for (const int64_t d : dims) {
      if (d < 0 || d >= int64_t{1} << 48 || out >= uint64_t{1} << 48) Need(false, "the sizes");
      if (!wrong_.empty()) return 0;
      out *= static_cast<uint64_t>(d);
    }
    Need(out < uint64_t{1} << 48, "too many elements");
    return static_cast<uint64_t>(out);
  }

  std::string_view file_;
  std::string wrong_;
  uint64_t nodes_ = 0;
};

}  // namespace

OnnxVerdict CheckOnnx(std::string_view file) {
  OnnxVerdict out;
  const auto model = ParseOnnx(file);
  if (model.ok()) {
    out.accepted = true;
    OnnxWalk walk(file);
    walk.Model(*model);
    out.wrong = walk.wrong();
    return out;
  }
  out.message = StatusText(model.status());
  if (!absl::IsInvalidArgument(model.status())) out.wrong = Cat("the code: ", out.message);
  if (!IsCleanMessage(out.message)) out.wrong = Cat("the message: ", out.message);
  return out;
}

}  // namespace uopd::test
