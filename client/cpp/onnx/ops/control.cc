// SPDX-License-Identifier: MIT
// Ops with graphs of their own. Loops are unrolled; what decides whether they go on is read back
// where the client does not know it.
#include <algorithm>
#include <limits>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

absl::Status RunIf(Call& c) {
  const OnnxGraph *then = c.Graph("then_branch"), *otherwise = c.Graph("else_branch");
  UOPD_ASSIGN(const int64_t condition, c.OneInt(0));
  const OnnxGraph* taken = condition != 0 ? then : otherwise;
  if (taken == nullptr) return absl::OkStatus();  // Finish has the error
  UOPD_ASSIGN(std::vector<Value> out, c.walk().RunGraph(*taken, c.frame(), {}));
  if (out.size() != c.outputs()) return c.Wrong("a branch has another number of outputs");
  for (size_t i = 0; i < out.size(); ++i) UOPD_TRY(c.Out(std::move(out[i]), i));
  return absl::OkStatus();
}

// One new axis for the rounds of a loop.
absl::StatusOr<Value> StackedRounds(Call& c, std::vector<Value>& rounds, int64_t axis) {
  if (rounds.empty()) return c.Refuse("outputs of a loop without rounds are not supported");
  std::vector<Tensor> parts;
  for (Value& v : rounds) {
    if (v.kind != Value::Kind::kTensor || v.strings != nullptr)
      return c.Wrong("an output for each round is no tensor of numbers");
    if (v.type != rounds[0].type) return c.Wrong("rounds give different element types");
    parts.push_back(c.walk().TensorOf(v));
  }
  const Tensor all = Stack(parts, axis);
  UOPD_TRY(all.status());
  return ValueOf(all, rounds[0].type);
}

absl::Status RunLoop(Call& c) {
  const OnnxGraph* body = c.Graph("body");
  if (body == nullptr) return absl::OkStatus();
  int64_t rounds = std::numeric_limits<int64_t>::max();
  if (c.Has(0)) {
    UOPD_ASSIGN(rounds, c.OneInt(0));
  }
  int64_t goes_on = 1;
  if (c.Has(1)) {
    UOPD_ASSIGN(goes_on, c.OneInt(1));
  }
  std::vector<Value> state;
  for (size_t i = 2; i < c.inputs(); ++i) state.push_back(c.Has(i) ? c.In(i) : Value{});
  const size_t n = state.size();
  if (body->outputs.size() < n + 1 || c.outputs() > body->outputs.size() - 1)
    return c.Wrong("the body has a wrong number of outputs");
  std::vector<std::vector<Value>> scans(body->outputs.size() - 1 - n);
  for (int64_t i = 0; i < rounds && goes_on != 0; ++i) {
    UOPD_TRY(c.walk().Charge());
    std::vector<Value> in{KnownInts(ElementType("INT64"), {}, {&i, 1}),
                          KnownInts(ElementType("BOOL"), {}, {&goes_on, 1})};
    in.insert(in.end(), state.begin(), state.end());
    UOPD_ASSIGN(std::vector<Value> out, c.walk().RunGraph(*body, c.frame(), in));
    if (out[0].kind != Value::Kind::kTensor || out[0].type != ElementType("BOOL") ||
        ir::Product(out[0].dims) != 1)
      return c.Wrong("the condition of the body is no scalar bool");
    UOPD_ASSIGN(const std::string_view bytes, c.walk().Contents(out[0]));
    goes_on = IntsIn(*OnnxStorageDtype(*out[0].type), bytes)[0];
    state.assign(out.begin() + 1, out.begin() + 1 + static_cast<ptrdiff_t>(n));
    for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(std::move(out[1 + n + k]));
  }
  for (size_t i = 0; i < n; ++i) UOPD_TRY(c.Out(std::move(state[i]), i));
  for (size_t k = 0; k < scans.size(); ++k) {
    if (!c.Wants(n + k)) continue;
    UOPD_ASSIGN(Value all, StackedRounds(c, scans[k], 0));
    UOPD_TRY(c.Out(std::move(all), n + k));
  }
  return absl::OkStatus();
}

// A list with one entry for each scanned input or output; none: zeros.
absl::StatusOr<Dims> ScanList(Call& c, std::string_view name, size_t n) {
  Dims all = c.IntList(name, Dims(n, 0));
  if (all.size() != n) return c.Wrong(Cat("the attribute ", name, " has a wrong length"));
  return all;
}

absl::Status RunScan(Call& c) {
  const OnnxGraph* body = c.Graph("body");
  if (body == nullptr) return absl::OkStatus();
  const int64_t scanned = c.Int("num_scan_inputs", 0);
  if (scanned < 1 || static_cast<size_t>(scanned) > c.inputs() || body->inputs.size() != c.inputs())
    return c.Wrong("num_scan_inputs does not fit the inputs");
  const auto m = static_cast<size_t>(scanned);
  const size_t n = c.inputs() - m;
  if (body->outputs.size() < n || c.outputs() > body->outputs.size())
    return c.Wrong("the body has a wrong number of outputs");
  const size_t k = body->outputs.size() - n;
  UOPD_ASSIGN(Dims in_axes, ScanList(c, "scan_input_axes", m));
  UOPD_ASSIGN(const Dims in_back, ScanList(c, "scan_input_directions", m));
  UOPD_ASSIGN(const Dims out_axes, ScanList(c, "scan_output_axes", k));
  UOPD_ASSIGN(const Dims out_back, ScanList(c, "scan_output_directions", k));
  int64_t rounds = 0;
  for (size_t i = 0; i < m; ++i) {
    UOPD_ASSIGN(in_axes[i], c.Axis(in_axes[i], c.Rank(n + i)));
    const int64_t size = c.Shape(n + i)[static_cast<size_t>(in_axes[i])];
    if (i > 0 && size != rounds) return c.Wrong("scanned inputs have different lengths");
    rounds = size;
  }
  std::vector<Value> state;
  for (size_t i = 0; i < n; ++i) state.push_back(c.In(i));
  std::vector<std::vector<Value>> scans(k);
  for (int64_t r = 0; r < rounds; ++r) {
    UOPD_TRY(c.walk().Charge());
    std::vector<Value> in = state;
    for (size_t i = 0; i < m; ++i) {
      const int64_t at = in_back[i] != 0 ? rounds - 1 - r : r;
      in.push_back(ValueOf(c.X(n + i).Select(in_axes[i], at), c.In(n + i).type));
    }
    UOPD_ASSIGN(std::vector<Value> out, c.walk().RunGraph(*body, c.frame(), in));
    state.assign(out.begin(), out.begin() + static_cast<ptrdiff_t>(n));
    for (size_t i = 0; i < k; ++i) scans[i].push_back(std::move(out[n + i]));
  }
  for (size_t i = 0; i < n; ++i) UOPD_TRY(c.Out(std::move(state[i]), i));
  for (size_t i = 0; i < k; ++i) {
    if (!c.Wants(n + i)) continue;
    if (out_back[i] != 0) std::ranges::reverse(scans[i]);
    if (scans[i].empty()) return c.Refuse("outputs of a scan without rounds are not supported");
    UOPD_ASSIGN(const int64_t axis,
                c.Axis(out_axes[i], static_cast<int64_t>(scans[i][0].dims.size()) + 1));
    UOPD_ASSIGN(Value all, StackedRounds(c, scans[i], axis));
    UOPD_TRY(c.Out(std::move(all), n + i));
  }
  return absl::OkStatus();
}

// The body for each element of the first sequence. Other sequences give their element of the same
// place; tensors are the same for all.
absl::Status RunSequenceMap(Call& c) {
  const OnnxGraph* body = c.Graph("body");
  if (body == nullptr) return absl::OkStatus();
  if (c.In(0).kind != Value::Kind::kSequence) return c.Wrong("its first input is no sequence");
  const size_t count = c.In(0).items->size();
  if (c.outputs() > body->outputs.size()) return c.Wrong("the body has fewer outputs");
  std::vector<std::vector<SharedValue>> results(body->outputs.size());
  for (size_t i = 0; i < count; ++i) {
    UOPD_TRY(c.walk().Charge());
    std::vector<Value> in;
    for (size_t k = 0; k < c.inputs(); ++k) {
      if (!c.Has(k)) return c.Wrong(Cat("its input ", k, " is missing"));
      const Value& v = c.In(k);
      if (v.kind == Value::Kind::kSequence && v.items->size() != count)
        return c.Wrong("the sequences have different lengths");
      in.push_back(v.kind == Value::Kind::kSequence ? *(*v.items)[i] : v);
    }
    UOPD_ASSIGN(std::vector<Value> out, c.walk().RunGraph(*body, c.frame(), in));
    for (size_t k = 0; k < out.size(); ++k) {
      // Sequences in sequences would be as deep as the model has nodes.
      if (out[k].kind != Value::Kind::kTensor) return c.Wrong("an output of the body is no tensor");
      results[k].push_back(Shared(std::move(out[k])));
    }
  }
  for (size_t k = 0; k < c.outputs(); ++k) UOPD_TRY(c.Out(SequenceOf(std::move(results[k])), k));
  return absl::OkStatus();
}

}  // namespace

OpRows ControlOps() {
  return {
      {"If", 1, 1, 1, RunIf},
      {"Loop", 1, 0, kManyInputs, RunLoop, kAnyKind | kAnyType | kGaps},
      {"Scan", 9, 1, kManyInputs, RunScan, kAnyType},
      {"SequenceMap", 17, 1, kManyInputs, RunSequenceMap, kAnyKind | kAnyType},
  };
}

}  // namespace uopd::client::onnx
