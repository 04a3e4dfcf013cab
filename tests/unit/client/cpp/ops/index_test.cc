// SPDX-License-Identifier: MIT
// Index expressions drawn at random, against a loop over the elements of the result.
#include <random>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/indexing.h"

namespace uopd::client::index_cases {
namespace {

using fn::IndexItem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One entry of an expression, with what the reference needs.
struct Entry {
  enum Kind { kInt, kRange, kTensor, kNone, kEllipsis } kind = kInt;
  int64_t position = 0;
  Range range;
  Dims dims;  // of the tensor
  std::vector<double> values;
};

struct Reference {
  Dims dims;
  std::vector<int64_t> from;  // position in x, or -1
};

std::vector<int64_t> Sliced(const Range& r, int64_t n) {
  std::vector<int64_t> out;
  const bool back = r.step < 0;
  auto at = [&](std::optional<int64_t> v, int64_t none) {
    if (!v) return none;
    int64_t p = *v < 0 ? *v + n : *v;
    return back ? std::max<int64_t>(-1, std::min(p, n - 1)) : std::max<int64_t>(0, std::min(p, n));
  };
  const int64_t from = at(r.begin, back ? n - 1 : 0), to = at(r.end, back ? -1 : n);
  for (int64_t i = from; back ? i > to : i < to; i += r.step) out.push_back(i);
  return out;
}

Reference Expected(const Dims& x, const std::vector<Entry>& entries) {
  struct Part {
    std::vector<int64_t> list;  // positions along the axis of x
    int64_t stride = 0;         // 0: a new axis
    const Entry* tensor = nullptr;
    int64_t n = 0;
  };
  std::vector<int64_t> strides(x.size(), 1);
  for (size_t i = x.size(); i-- > 1;) strides[i - 1] = strides[i] * x[i];
  size_t taken = 0, axis = 0;
  for (const Entry& e : entries)
    taken += e.kind == Entry::kNone || e.kind == Entry::kEllipsis ? 0 : 1;
  std::vector<Part> parts;
  int64_t base = 0;
  auto whole = [&] {
    parts.push_back({Sliced({}, x[axis]), strides[axis], nullptr, x[axis]});
    ++axis;
  };
  for (const Entry& e : entries) {
    switch (e.kind) {
      case Entry::kInt:
        base += (e.position < 0 ? e.position + x[axis] : e.position) * strides[axis];
        ++axis;
        break;
      case Entry::kRange:
        parts.push_back({Sliced(e.range, x[axis]), strides[axis], nullptr, x[axis]});
        ++axis;
        break;
      case Entry::kTensor:
        parts.push_back({{}, strides[axis], &e, x[axis]});
        ++axis;
        break;
      case Entry::kNone:
        parts.push_back({{0}, 0, nullptr, 1});
        break;
      case Entry::kEllipsis:
        for (size_t i = taken; i < x.size(); ++i) whole();
        break;
    }
  }
  while (axis < x.size()) whole();
  // The common shape of the tensors, and where it goes.
  Dims common;
  size_t first = parts.size(), last = 0, tensors = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].tensor == nullptr) continue;
    first = std::min(first, i), last = i, ++tensors;
    const Dims& d = parts[i].tensor->dims;
    if (d.size() > common.size()) common.insert(common.begin(), d.size() - common.size(), 1);
    for (size_t k = 0; k < d.size(); ++k) {
      int64_t& c = common[common.size() - 1 - k];
      if (d[d.size() - 1 - k] != 1) c = d[d.size() - 1 - k];
    }
  }
  const bool neighbours = tensors > 0 && last - first + 1 == tensors;
  Reference out;
  std::vector<int>
      role;  // of each axis of the result: index of the part, or -1 - k for common axis k
  auto add_common = [&] {
    for (size_t k = 0; k < common.size(); ++k)
      out.dims.push_back(common[k]), role.push_back(-1 - static_cast<int>(k));
  };
  if (tensors > 0 && !neighbours) add_common();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (neighbours && i == first) add_common();
    if (parts[i].tensor != nullptr) continue;
    out.dims.push_back(static_cast<int64_t>(parts[i].list.size()));
    role.push_back(static_cast<int>(i));
  }
  for (int64_t i = 0; i < ir::Product(out.dims); ++i) {
    std::vector<int64_t> at(out.dims.size()), point(common.size());
    int64_t rest = i, p = base;
    for (size_t k = out.dims.size(); k-- > 0;) at[k] = rest % out.dims[k], rest /= out.dims[k];
    bool inside = true;
    for (size_t k = 0; k < at.size(); ++k) {
      if (role[k] < 0)
        point[static_cast<size_t>(-1 - role[k])] = at[k];
      else
        p += parts[static_cast<size_t>(role[k])].list[static_cast<size_t>(at[k])] *
             parts[static_cast<size_t>(role[k])].stride;
    }
    for (const Part& part : parts) {
      if (part.tensor == nullptr) continue;
      const Dims& d = part.tensor->dims;
      int64_t index = 0;
      for (size_t k = 0; k < d.size(); ++k)
        index = index * d[k] + (d[k] == 1 ? 0 : point[common.size() - d.size() + k]);
      auto v = static_cast<int64_t>(part.tensor->values[static_cast<size_t>(index)]);
      if (v < 0) v += part.n;
      inside &= v >= 0 && v < part.n;
      p += v * part.stride;
    }
    out.from.push_back(inside ? p : -1);
  }
  return out;
}

class IndexTest : public OpCases {
 protected:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  std::vector<Entry> Expression(const Dims& x) {
    std::vector<Entry> out;
    bool rest = false;
    const Dims common[] = {{}, {2}, {3, 1}, {3, 2}, {1}, {0}};
    const bool empty = Draw(0, 15) == 0;
    const size_t used = static_cast<size_t>(Draw(0, static_cast<int64_t>(x.size())));
    for (size_t i = 0; i < used; ++i) {
      if (Draw(0, 5) == 0) out.push_back({.kind = Entry::kNone});
      if (!rest && Draw(0, 5) == 0) {
        out.push_back({.kind = Entry::kEllipsis});
        rest = true;
      }
      // After an ellipsis the axis is another one: only what suits every length.
      const int64_t n = rest ? 0 : x[i];
      const int64_t kind = Draw(0, 3);
      if (kind == 0 && n > 0) {
        out.push_back({.kind = Entry::kInt, .position = Draw(-n, n - 1)});
      } else if (kind == 1) {
        Entry e{.kind = Entry::kTensor, .dims = empty ? common[5] : common[Draw(0, 4)]};
        for (int64_t k = 0; k < ir::Product(e.dims); ++k)
          e.values.push_back(static_cast<double>(Draw(-6, 5)));  // some are out of range
        out.push_back(e);
      } else {
        Entry e{.kind = Entry::kRange};
        if (Draw(0, 1) != 0) e.range.begin = Draw(-6, 6);
        if (Draw(0, 1) != 0) e.range.end = Draw(-6, 6);
        e.range.step = Draw(0, 2) == 0 ? 1 : Draw(0, 1) != 0 ? Draw(1, 3) : -Draw(1, 3);
        out.push_back(e);
      }
    }
    return out;
  }
  // The tensors must outlive the items.
  std::vector<IndexItem> Items(const std::vector<Entry>& entries, std::vector<Tensor>& tensors) {
    tensors.clear();
    tensors.reserve(entries.size());
    std::vector<IndexItem> out;
    for (const Entry& e : entries) {
      switch (e.kind) {
        case Entry::kInt:
          out.emplace_back(e.position);
          break;
        case Entry::kRange:
          out.emplace_back(e.range);
          break;
        case Entry::kTensor:
          tensors.push_back(In(e.dims, e.values, Draw(0, 1) != 0 ? Dtype::I32 : Dtype::I64));
          out.emplace_back(tensors.back());
          break;
        case Entry::kNone:
          out.push_back(IndexItem::None());
          break;
        case Entry::kEllipsis:
          out.push_back(IndexItem::Ellipsis());
          break;
      }
    }
    return out;
  }

  std::mt19937_64 random_{20};
};

TEST_F(IndexTest, ReadsAndWritesAtRandom) {
  for (int round = 0; round < 400; ++round) {
    daemon_->check_schedule = round % 4 == 0;
    Dims dims;
    for (int64_t i = Draw(0, 4); i > 0; --i) dims.push_back(Draw(0, 12) == 0 ? 0 : Draw(1, 4));
    const std::vector<Entry> entries = Expression(dims);
    const Tensor x = Ramp(dims, 1, 1);
    std::vector<Tensor> tensors;
    const std::vector<IndexItem> items = Items(entries, tensors);
    const Reference want = Expected(dims, entries);
    std::string text;
    for (const int64_t d : dims) text += " " + std::to_string(d);
    for (const Entry& e : entries) {
      text += "; kind " + std::to_string(e.kind) + " at " + std::to_string(e.position) + " of " +
              (e.range.begin ? std::to_string(*e.range.begin) : "") + ":" +
              (e.range.end ? std::to_string(*e.range.end) : "") + ":" +
              std::to_string(e.range.step);
    }
    SCOPED_TRACE(testing::Message() << "round " << round << ", dims" << text);
    const Tensor y = fn::Index(x, items);
    ASSERT_TRUE(y.status().ok()) << y.status();
    ASSERT_EQ(y.dims(), want.dims);
    const auto in = Out(x);
    std::vector<double> read, put = in, sum = in;
    std::vector<double> value;
    for (size_t i = 0; i < want.from.size(); ++i) {
      const int64_t p = want.from[i];
      value.push_back(-static_cast<double>(i) - 1);
      read.push_back(p < 0 ? 0 : in[static_cast<size_t>(p)]);
      if (p < 0) continue;
      put[static_cast<size_t>(p)] = value.back();
      sum[static_cast<size_t>(p)] += value.back();
    }
    ASSERT_EQ(Out(y), read);
    const Tensor v = In(want.dims, value);
    ASSERT_EQ(Out(fn::IndexPut(x, items, v)), put);
    ASSERT_EQ(Out(fn::IndexPut(x, items, v, true)), sum);
    Tensor assigned = x + 0.0;
    if (round % 2 == 0) {
      ASSERT_TRUE(assigned.Realize().ok());
    }
    EXPECT_TRUE(fn::AssignIndex(assigned, items, v).ok());
    ASSERT_EQ(Out(assigned), put);
  }
}

TEST_F(IndexTest, ValuesBroadcastAndTakeTheDtype) {
  Tensor x = Ramp({3, 2});
  const IndexItem row[] = {1};
  EXPECT_TRUE(fn::AssignIndex(x, row, 9).ok());
  EXPECT_THAT(Out(x), ElementsAre(0, 1, 9, 9, 4, 5));
  const IndexItem columns[] = {IndexItem::Ellipsis(), Range{.step = -1}};
  EXPECT_TRUE(fn::AssignIndex(x, columns, In({1, 1, 2}, {7, 8}, Dtype::I32)).ok());
  EXPECT_EQ(x.dtype(), Dtype::F32);
  EXPECT_THAT(Out(x), ElementsAre(8, 7, 8, 7, 8, 7));
  const Tensor bits = In({3}, {1, 0, 1}, Dtype::Bool), at = In({1}, {2}, Dtype::I64);
  const IndexItem one[] = {at};
  EXPECT_THAT(Out(fn::IndexPut(bits, one, false)), ElementsAre(1, 0, 0));
  EXPECT_THAT(Out(fn::Take(Ramp({2, 2}), In({2, 1}, {3, -3}, Dtype::I32))), ElementsAre(3, 1));
}

TEST_F(IndexTest, WhatAViewDoesNotWriteStaysInTheTensor) {
  Tensor x = Ramp({4});
  Tensor view = x.Slice({Range{0, 3}});
  x.Assign(7);
  const Tensor at = In({1}, {1}, Dtype::I32);
  const IndexItem one[] = {at};
  EXPECT_TRUE(fn::AssignIndex(view, one, 5).ok());
  EXPECT_THAT(Out(view), ElementsAre(0, 5, 2));
  EXPECT_THAT(Out(x), ElementsAre(7, 5, 7, 7));
  x.Assign(8);
  EXPECT_TRUE(fn::AssignSelected(view, 0, In({2}, {-1, 0}, Dtype::I64), Ramp({2}) + 30.0).ok());
  EXPECT_THAT(Out(view), ElementsAre(31, 5, 30));
  EXPECT_THAT(Out(x), ElementsAre(31, 8, 30, 8));
  x.Assign(9);
  EXPECT_TRUE(fn::AssignChanged(view, Ramp({3}), In({3}, {0, 0, 1}, Dtype::Bool)).ok());
  EXPECT_THAT(Out(view), ElementsAre(0, 1, 2));
  EXPECT_THAT(Out(x), ElementsAre(9, 9, 2, 9));
  EXPECT_THAT(fn::AssignChanged(view, Ramp({3}), Ramp({3})).message(),
              HasSubstr("what is written is a tensor of"));
  EXPECT_THAT(fn::AssignChanged(view, Ramp({2}), In({3}, {0, 0, 1}, Dtype::Bool)).message(),
              HasSubstr("the value is a tensor of"));
  EXPECT_FALSE(fn::AssignSelected(view, 1, at, 0).ok());
  EXPECT_THAT(Out(x), ElementsAre(9, 9, 2, 9));
}

TEST_F(IndexTest, RefusesWhatItCannotKnow) {
  const Tensor x = Ramp({2, 3}), mask = In({2}, {1, 0}, Dtype::Bool), floats = Ramp({2});
  const IndexItem by_mask[] = {mask}, by_float[] = {floats}, far[] = {5}, many[] = {0, 0, 0},
                  rests[] = {IndexItem::Ellipsis(), IndexItem::Ellipsis()},
                  zero[] = {Range{.step = 0}};
  EXPECT_THAT(fn::Index(x, by_mask).status().message(), HasSubstr("MaskedSelect"));
  for (std::span<const IndexItem> items :
       {std::span<const IndexItem>(by_float), std::span<const IndexItem>(far),
        std::span<const IndexItem>(many), std::span<const IndexItem>(rests),
        std::span<const IndexItem>(zero)}) {
    EXPECT_EQ(fn::Index(x, items).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(fn::Index(x, items).status().message()), HasSubstr("index_test.cc"));
    EXPECT_EQ(fn::IndexPut(x, items, 1).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const Tensor two = In({2}, {0, 1}, Dtype::I32), three = In({3}, {0, 1, 2}, Dtype::I32);
  const IndexItem uneven[] = {two, three}, row[] = {0};
  EXPECT_FALSE(fn::Index(x, uneven).status().ok());
  EXPECT_FALSE(fn::IndexPut(x, row, Ramp({2})).status().ok());
  Tensor y = x + 0.0;
  EXPECT_FALSE(fn::AssignIndex(y, far, 1).ok());
  EXPECT_EQ(Out(y), Out(x));
}

TEST_F(IndexTest, Gradients) {
  const Tensor at = In({3}, {1, -1, 1}, Dtype::I32), other = In({3}, {0, 1, 0}, Dtype::I32);
  const IndexItem mixed[] = {at, Range{.step = -2}, other};
  auto read = [&](const std::vector<Tensor>& t) { return fn::Index(t[0], mixed); };
  auto put = [&](const std::vector<Tensor>& t) { return fn::IndexPut(t[0], mixed, t[1]); };
  auto add = [&](const std::vector<Tensor>& t) { return fn::IndexPut(t[0], mixed, t[1], true); };
  CheckGradient({Input({3, 3, 2})}, read);
  CheckGradient({Input({3, 3, 2}, 1), Input({3, 2}, 2)}, put);
  CheckGradient({Input({3, 3, 2}, 1), Input({3, 2}, 2)}, add);
  CheckSecondGradient({Input({2, 3, 2}, 1), Input({3, 2}, 2)},
                      [&](const std::vector<Tensor>& t) { return put(t).Square().Square(); });
  const IndexItem rows[] = {Range{1, 3}, 0};
  CheckGradient({Input({4, 2}, 1), Input({2}, 2)},
                [&](const std::vector<Tensor>& t) { return fn::IndexPut(t[0], rows, t[1]); });
}

// A size that is not known to the graph.
TEST_F(IndexTest, ReshapesSymbolicDimensions) {
  const Tensor n = client_.Variable("n", 1, 6, 4);
  const Tensor part = Ramp({6, 4}).Narrow(0, 0, n);
  const Size split[] = {n, 2, 2}, wrong[] = {n, 3};
  const Tensor y = fn::Reshape(part, split);
  ASSERT_TRUE(y.status().ok()) << y.status();
  EXPECT_TRUE(y.is_symbolic());
  EXPECT_THAT(Out(y.Sum({0, 2})),
              ElementsAre(0 + 1 + 4 + 5 + 8 + 9 + 12 + 13, 2 + 3 + 6 + 7 + 10 + 11 + 14 + 15));
  EXPECT_FALSE(fn::Reshape(part, wrong).status().ok());
}

TEST_F(IndexTest, ExpandsToSymbolicSizes) {
  const Tensor n = client_.Variable("n", 1, 6, 4);
  const Size to[] = {n, -1, 2}, wrong[] = {n, 3, 5}, negative[] = {-1, n, 3, 2};
  const Tensor y = fn::Expand(Ramp({3, 1}), to);
  ASSERT_TRUE(y.status().ok()) << y.status();
  EXPECT_TRUE(y.is_symbolic());
  EXPECT_THAT(Out(y.Sum({0})), ElementsAre(0, 0, 4, 4, 8, 8));
  EXPECT_FALSE(fn::Expand(Ramp({2, 1}), wrong).status().ok());
  EXPECT_FALSE(fn::Expand(Ramp({3, 1}), negative).status().ok());
  EXPECT_EQ(fn::Reshape(Ramp({3, 1}), std::span(to).subspan(1, 1)).dims(), (Dims{3}));
}

}  // namespace
}  // namespace uopd::client::index_cases
