// SPDX-License-Identifier: MIT
// Codecs: how the elements of a buffer lie in memory, by dtype. Stateless but for the dtype of
// AnyCodec.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/interp/program.h"
#include "core/ir/dtype.h"

namespace uopd::interp {

// f32, f64 and the integers.
template <class T>
struct CodecOf {
  Value Get(const std::byte* data, size_t element) const {
    T v;
    std::memcpy(&v, data + element * sizeof(T), sizeof(T));
    Value out;
    if constexpr (std::is_floating_point_v<T>) {
      out.f = static_cast<double>(v);
    } else {
      out.i = static_cast<int64_t>(v);
    }
    return out;
  }
  void Set(std::byte* data, size_t element, Value value) const {
    T v;
    if constexpr (std::is_floating_point_v<T>) {
      v = static_cast<T>(value.f);
    } else {
      v = static_cast<T>(value.i);
    }
    std::memcpy(data + element * sizeof(T), &v, sizeof(T));
  }
};

// Every dtype.
struct AnyCodec {
  ir::Dtype dtype;

  Value Get(const std::byte* data, size_t element) const {
    const auto bytes = static_cast<size_t>(ir::ByteSize(dtype));
    uint64_t bits = 0;
    std::memcpy(&bits, data + element * bytes, bytes);
    Value out;
    if (ir::IsFloat(dtype)) {
      out.f = ir::DecodeFloat(dtype, bits);
    } else {
      out.i = dtype == ir::Dtype::Bool ? static_cast<int64_t>(bits != 0)
                                       : ir::WrapTo(dtype, static_cast<ir::Int128>(bits));
    }
    return out;
  }
  void Set(std::byte* data, size_t element, Value value) const {
    const auto bytes = static_cast<size_t>(ir::ByteSize(dtype));
    const uint64_t bits =
        ir::IsFloat(dtype) ? ir::EncodeFloat(dtype, value.f) : static_cast<uint64_t>(value.i);
    std::memcpy(data + element * bytes, &bits, bytes);
  }
};

// Calls use(codec) with the codec of the dtype.
template <class Use>
auto WithCodec(ir::Dtype dtype, const Use& use) {
  switch (dtype) {
    case ir::Dtype::F32:
      return use(CodecOf<float>());
    case ir::Dtype::F64:
      return use(CodecOf<double>());
    case ir::Dtype::I32:
      return use(CodecOf<int32_t>());
    case ir::Dtype::U32:
      return use(CodecOf<uint32_t>());
    case ir::Dtype::I64:
      return use(CodecOf<int64_t>());
    case ir::Dtype::U16:
      return use(CodecOf<uint16_t>());
    case ir::Dtype::U8:
      return use(CodecOf<uint8_t>());
    default:
      return use(AnyCodec{dtype});
  }
}

}  // namespace uopd::interp
