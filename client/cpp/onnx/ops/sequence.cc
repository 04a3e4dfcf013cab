// SPDX-License-Identifier: MIT
// Sequences of tensors, and optional values.
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"

namespace uopd::client::onnx {
namespace {

// `more`: how many items its copy will have besides.
absl::StatusOr<std::vector<SharedValue>> ItemsOf(Call& c, size_t more = 0) {
  if (c.In(0).kind != Value::Kind::kSequence) return c.Wrong("its input 0 is no sequence");
  UOPD_TRY(c.walk().ChargeEach<SharedValue>(c.In(0).items->size()));
  std::vector<SharedValue> out;
  out.reserve(c.In(0).items->size() + more);
  out.assign(c.In(0).items->begin(), c.In(0).items->end());
  return out;
}

// The position that input i gives, from 0 to count - 1 + more; without it `otherwise`.
absl::StatusOr<int64_t> PositionOf(Call& c, size_t i, size_t count, int64_t otherwise,
                                   int64_t more = 0) {
  if (!c.Has(i)) return otherwise;
  UOPD_ASSIGN(int64_t at, c.OneInt(i));
  const auto n = static_cast<int64_t>(count);
  if (at < -n || at >= n + more) return c.Wrong(Cat("position ", at, " of a sequence of ", n));
  return at < 0 ? at + n : at;
}

absl::Status RunConstruct(Call& c) {
  UOPD_TRY(c.walk().ChargeEach<Value>(c.inputs()));
  std::vector<SharedValue> items;
  for (size_t i = 0; i < c.inputs(); ++i) {
    if (!c.Has(i) || c.In(i).kind != Value::Kind::kTensor)
      return c.Wrong(Cat("its input ", i, " is no tensor"));
    items.push_back(Shared(c.In(i)));
  }
  return c.Out(SequenceOf(std::move(items)));
}

absl::Status RunInsert(Call& c) {
  UOPD_ASSIGN(std::vector<SharedValue> items, ItemsOf(c, 1));
  const auto n = static_cast<int64_t>(items.size());
  UOPD_ASSIGN(const int64_t at, PositionOf(c, 2, items.size(), n, 1));
  if (c.In(1).kind != Value::Kind::kTensor) return c.Wrong("its input 1 is no tensor");
  items.insert(items.begin() + at, Shared(c.In(1)));
  return c.Out(SequenceOf(std::move(items)));
}

absl::Status RunErase(Call& c) {
  UOPD_ASSIGN(std::vector<SharedValue> items, ItemsOf(c));
  if (items.empty()) return c.Wrong("the sequence is empty");
  UOPD_ASSIGN(const int64_t at,
              PositionOf(c, 1, items.size(), static_cast<int64_t>(items.size()) - 1));
  items.erase(items.begin() + at);
  return c.Out(SequenceOf(std::move(items)));
}

absl::Status RunAt(Call& c) {
  if (c.In(0).kind != Value::Kind::kSequence) return c.Wrong("its input 0 is no sequence");
  const std::vector<SharedValue>& items = *c.In(0).items;
  UOPD_ASSIGN(const int64_t at, PositionOf(c, 1, items.size(), 0));
  return c.Out(*items[static_cast<size_t>(at)]);
}

absl::Status RunLength(Call& c) {
  if (c.In(0).kind != Value::Kind::kSequence) return c.Wrong("its input 0 is no sequence");
  const auto n = static_cast<int64_t>(c.In(0).items->size());
  return c.Out(KnownInts(ElementType("INT64"), {}, {&n, 1}));
}

absl::Status RunConcatSequence(Call& c) {
  UOPD_ASSIGN(const std::vector<SharedValue> items, ItemsOf(c));
  if (items.empty()) return c.Wrong("the sequence is empty");
  const bool is_new = c.Int("new_axis", 0) != 0;
  UOPD_ASSIGN(
      const int64_t axis,
      c.Axis(c.Int("axis", 0), static_cast<int64_t>(items[0]->dims.size()) + (is_new ? 1 : 0)));
  std::vector<Tensor> parts;
  for (const SharedValue& item : items) {
    Value v = *item;
    if (v.kind != Value::Kind::kTensor || v.type != items[0]->type || v.strings != nullptr)
      return c.Wrong("the sequence has strings or different element types");
    parts.push_back(c.walk().TensorOf(v));
  }
  const Tensor all = is_new ? Stack(parts, axis) : Concat(parts, axis);
  UOPD_TRY(all.status());
  return c.Out(ValueOf(all, items[0]->type));
}

absl::Status RunSplitToSequence(Call& c) {
  if (!c.IsNumbers(0)) return c.Wrong("its input 0 is no tensor of numbers");
  UOPD_ASSIGN(const int64_t axis, c.Axis(c.Int("axis", 0), c.Rank(0)));
  const int64_t size = c.Shape(0)[static_cast<size_t>(axis)];
  const bool keep = c.Int("keepdims", 1) != 0;
  Dims lengths;
  if (c.Has(1)) {
    UOPD_ASSIGN(lengths, c.Ints(1));
    if (c.Rank(1) == 0) {
      const int64_t each = lengths[0];
      if (each < 1) return c.Wrong(Cat("a length is ", each));
      UOPD_TRY(c.walk().Charge(size / each));
      lengths.clear();
      for (int64_t at = 0; at < size; at += each) lengths.push_back(std::min(each, size - at));
    }
  } else {
    UOPD_TRY(c.walk().Charge(size));
    lengths.assign(static_cast<size_t>(size), 1);
  }
  UOPD_TRY(c.walk().Charge(static_cast<int64_t>(lengths.size())));
  std::vector<SharedValue> items;
  int64_t at = 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > size - at) return c.Wrong("the lengths do not fit the axis");
    Tensor part = c.X(0).Narrow(axis, at, length);
    if (!keep && !c.Has(1)) part = part.Squeeze(axis);
    UOPD_TRY(part.status());
    items.push_back(Shared(ValueOf(part, c.In(0).type)));
    at += length;
  }
  if (at != size) return c.Wrong("the lengths do not fit the axis");
  return c.Out(SequenceOf(std::move(items)));
}

absl::Status RunOptional(Call& c) {
  c.Find("type");
  return c.Out(c.Has(0) ? c.In(0) : Value{});
}

absl::Status RunHasElement(Call& c) {
  const int64_t has = c.Has(0) && c.In(0).kind != Value::Kind::kNothing ? 1 : 0;
  return c.Out(KnownInts(ElementType("BOOL"), {}, {&has, 1}));
}

absl::Status RunGetElement(Call& c) {
  if (c.In(0).kind == Value::Kind::kNothing) return c.Wrong("the optional value is not there");
  return c.Out(c.In(0));
}

absl::Status RunEmpty(Call& c) {
  c.Int("dtype", 1);
  return c.Out(SequenceOf({}));
}

}  // namespace

OpRows SequenceOps() {
  constexpr uint8_t kAll = kAnyKind | kAnyType;
  return {
      {"SequenceEmpty", 11, 0, 0, RunEmpty, kAll},
      {"SequenceConstruct", 11, 1, kManyInputs, RunConstruct, kAll},
      {"SequenceInsert", 11, 2, 3, RunInsert, kAll},
      {"SequenceErase", 11, 1, 2, RunErase, kAll},
      {"SequenceAt", 11, 2, 2, RunAt, kAll},
      {"SequenceLength", 11, 1, 1, RunLength, kAll},
      {"ConcatFromSequence", 11, 1, 1, RunConcatSequence, kAll},
      {"SplitToSequence", 11, 1, 2, RunSplitToSequence, kAll},
      {"Optional", 15, 0, 1, RunOptional, kAll},
      {"OptionalHasElement", 15, 0, 1, RunHasElement, kAll},
      {"OptionalGetElement", 15, 1, 1, RunGetElement, kAll},
  };
}

}  // namespace uopd::client::onnx
