// SPDX-License-Identifier: MIT
#include "core/search/too_long.h"

#include <algorithm>
#include <utility>

namespace uopd::search {

using codegen::Opt;
using codegen::OptRow;

TooLong::Length TooLong::LengthOf(const Opts& opts) const {
  Length out;
  for (const Opt& opt : opts) {
    switch (codegen::RowOf(opt.kind).length) {
      case OptRow::Length::kCopies: {
        const bool known = opt.axis >= 0 && opt.axis < static_cast<int>(axes_.size());
        const int64_t whole = known ? axes_[static_cast<size_t>(opt.axis)].size : 0;
        out.grows.push_back({opt.kind, opt.axis, opt.amount == 0 ? whole : opt.amount});
        break;
      }
      case OptRow::Length::kLonger:
        out.grows.push_back(opt);
        break;
      case OptRow::Length::kNot:
        break;
      case OptRow::Length::kOther:
        out.same.push_back(opt);
    }
  }
  return out;
}

bool TooLong::Covers(const Length& shorter, const Length& longer) {
  return shorter.same == longer.same && std::ranges::all_of(shorter.grows, [&](const Opt& opt) {
           return std::ranges::any_of(longer.grows, [&](const Opt& other) {
             return other.kind == opt.kind && other.axis == opt.axis && other.amount >= opt.amount;
           });
         });
}

void TooLong::Add(const Opts& opts) {
  Length added = LengthOf(opts);
  std::erase_if(known_, [&](const Length& known) { return Covers(added, known); });
  known_.push_back(std::move(added));
}

bool TooLong::Covers(const Opts& opts) const {
  const Length asked = LengthOf(opts);
  return std::ranges::any_of(known_, [&](const Length& known) { return Covers(known, asked); });
}

}  // namespace uopd::search
