// SPDX-License-Identifier: MIT
#include "core/base/target/tensor_map.h"

#include "core/base/text.h"

namespace uopd {

int64_t TensorMap::rows() const {
  int64_t out = 1;
  for (size_t d = 1; d < box.size(); ++d) out *= box[d];
  return out;
}

int64_t TensorMap::box_bytes() const { return rows() * span; }

int64_t TensorMap::tensor_bytes() const {
  int64_t out = dims[0] * element_bytes;
  for (size_t d = 1; d < dims.size(); ++d) {
    int64_t rest = 0;
    if (__builtin_mul_overflow(dims[d] - 1, strides[d - 1], &rest) ||
        __builtin_add_overflow(out, rest, &out))
      return INT64_MAX;
  }
  return out;
}

std::string TensorMap::MaybeWrong() const {
  constexpr int64_t kMostDim = int64_t{1} << 32, kMostStride = int64_t{1} << 40, kPiece = 16;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
    return Cat("elements have ", element_bytes, " bytes");
  if (span != 128 && span != 64 && span != 32) return Cat("a span has ", span, " bytes");
  const size_t n = dims.size();
  if (n < 1 || n > kMostRank || strides.size() != n - 1 || box.size() != n)
    return Cat("a tensor has ", n, " dimensions, ", strides.size(), " strides and a box of ",
               box.size());
  for (const int64_t d : dims) {
    if (d < 1 || d > kMostDim) return Cat("a dimension has ", d, " elements");
  }
  for (const int64_t s : strides) {
    if (s < kPiece || s >= kMostStride || s % kPiece != 0) return Cat("a stride is ", s, " bytes");
  }
  for (const int64_t b : box) {
    if (b < 1 || b > kMostBox) return Cat("a box has ", b, " elements along a dimension");
  }
  if (box[0] * element_bytes != span)
    return Cat("a row of a box has ", box[0] * element_bytes, " bytes, and a span ", span);
  // The product of five sizes of a box has at most 40 bits.
  return box_bytes() < kMostBytes ? std::string() : Cat("a box has ", box_bytes(), " bytes");
}

void TensorMap::Encode(std::string& out) const {
  PutSigned(out, slot);
  PutSigned(out, element_bytes);
  PutSigned(out, span);
  PutVarint(out, dims.size());
  for (const auto* part : {&dims, &strides, &box}) {
    for (const int64_t n : *part) PutSigned(out, n);
  }
}

bool TensorMap::Decode(ByteReader& in, TensorMap& out) {
  uint64_t rank;
  if (!in.Signed(out.slot) || out.slot < 0 || !in.Signed(out.element_bytes) ||
      !in.Signed(out.span) || !in.Varint(rank) || rank < 1 || rank > kMostRank)
    return false;
  out.dims.resize(rank);
  out.strides.resize(rank - 1);
  out.box.resize(rank);
  for (auto* part : {&out.dims, &out.strides, &out.box}) {
    for (int64_t& n : *part) {
      if (!in.Signed(n)) return false;
    }
  }
  return out.MaybeWrong().empty();
}

void EncodeTensorMaps(const std::vector<TensorMap>& maps, std::string& out) {
  PutVarint(out, maps.size());
  for (const TensorMap& map : maps) map.Encode(out);
}

bool DecodeTensorMaps(ByteReader& in, std::vector<TensorMap>& out) {
  uint64_t n;
  if (!in.Varint(n) || n > in.left()) return false;
  out.clear();
  for (uint64_t i = 0; i < n; ++i) {
    if (!TensorMap::Decode(in, out.emplace_back())) return false;
  }
  return true;
}

}  // namespace uopd
