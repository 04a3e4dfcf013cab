// SPDX-License-Identifier: MIT
#include "core/base/target/fragment.h"

#include "core/base/status.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd {

Fragment Fragment::Of(std::string_view text) {
  Fragment out;
  std::vector<Bit>* into = &out.lane;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '|') {
      into = &out.element;
    } else if (c == '-') {
      into->push_back({});
    } else {
      UOPD_CHECK((c == 'r' || c == 'c' || c == 'k') && i + 1 < text.size());
      into->push_back({c, text[++i] - '0'});
    }
  }
  return out;
}

std::string Fragment::Text() const {
  std::string out;
  const auto add = [&](const std::vector<Bit>& bits) {
    for (const Bit& b : bits) {
      if (!out.empty()) out += ' ';
      out += b.axis;
      if (b.axis != '-') Append(out, b.bit);
    }
  };
  add(lane);
  out += out.empty() ? "|" : " |";
  add(element);
  return out;
}

int64_t Fragment::Place(char axis, int64_t lane_number, int64_t element_number) const {
  int64_t out = 0;
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane[i].axis == axis) out |= (lane_number >> i & 1) << lane[i].bit;
  }
  for (size_t i = 0; i < element.size(); ++i) {
    if (element[i].axis == axis) out |= (element_number >> i & 1) << element[i].bit;
  }
  return out;
}

}  // namespace uopd
