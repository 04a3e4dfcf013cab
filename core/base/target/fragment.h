// SPDX-License-Identifier: MIT
// Fragment: which lane of a warp holds which elements of an operand of a matrix instruction.
//
// A bit of an element's place (row r, column c, or position k along the sum) is a bit of the lane's
// number or of the element's number inside of the lane. As text, lowest bit first: "k1 k2 r0 r1 r2
// | k0 r3 k3" means that bits 0 and 1 of the lane are bits 1 and 2 of k, bits 2 to 4 of the lane
// are bits 0 to 2 of the row, and an element's number in the lane has bits 0 of k, 3 of the row and
// 3 of k. "-": the bit does not matter, lanes that differ in it alone hold the same elements.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uopd {

struct Fragment {
  struct Bit {
    char axis = '-';  // 'r', 'c', 'k', or '-'
    int bit = 0;      // of the place along the axis
    bool operator==(const Bit&) const = default;
  };
  std::vector<Bit> lane, element;  // lowest bit first

  // REQUIRES: a text as above.
  static Fragment Of(std::string_view text);
  std::string Text() const;

  int64_t elements() const { return int64_t{1} << element.size(); }  // of one lane
  int64_t lanes() const { return int64_t{1} << lane.size(); }
  // The place along an axis of an element of a lane.
  int64_t Place(char axis, int64_t lane_number, int64_t element_number) const;
  bool operator==(const Fragment&) const = default;
};

}  // namespace uopd
