// SPDX-License-Identifier: MIT
// Dtypes for layers that know no UOps: the stable numbers of dtype.def, and sets of them.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace uopd {

enum class DtypeNumber : uint8_t {
#define UOPD_DTYPE(name, text, wire, ...) name = wire,
#include "core/base/target/dtype.def"
#undef UOPD_DTYPE
};

std::string_view Name(DtypeNumber dtype);  // "bf16"

class DtypeNumberSet {
 public:
  constexpr DtypeNumberSet() = default;
  constexpr DtypeNumberSet(std::initializer_list<DtypeNumber> all) {
    for (DtypeNumber d : all) bits_ |= Bit(d);
  }
  constexpr void Add(DtypeNumber d) { bits_ |= Bit(d); }
  constexpr bool Has(DtypeNumber d) const { return (bits_ & Bit(d)) != 0; }
  constexpr uint32_t bits() const { return bits_; }  // bit n: the dtype of number n
  constexpr bool operator==(const DtypeNumberSet&) const = default;

 private:
  static constexpr uint32_t Bit(DtypeNumber d) { return uint32_t{1} << static_cast<int>(d); }
  uint32_t bits_ = 0;
};

}  // namespace uopd
