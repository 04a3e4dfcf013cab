// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/codegen/opts/opt_row.h"

namespace uopd::codegen {

extern const OptRow kOnlineRow, kMergeRow, kThreadRow, kPadToRow, kNoLocalsRow, kVectorRow,
    kTensorCoreRow, kLocalRow, kGroupRow, kGroupTopRow, kUpcastRow, kUnrollRow, kBlockRow, kPackRow,
    kStreamRow, kPrefetchRow, kSwapRow, kPipelineRow, kRasterRow, kPersistRow;

namespace {

constexpr std::array<const OptRow*, kOptKinds> kRows = {
    &kOnlineRow,   &kMergeRow,      &kThreadRow,   &kPadToRow,  &kNoLocalsRow,
    &kVectorRow,   &kTensorCoreRow, &kLocalRow,    &kGroupRow,  &kGroupTopRow,
    &kUpcastRow,   &kUnrollRow,     &kBlockRow,    &kPackRow,   &kStreamRow,
    &kPrefetchRow, &kSwapRow,       &kPipelineRow, &kRasterRow, &kPersistRow};

// By kind: the place of its row.
const std::array<size_t, kOptKinds>& Ranks() {
  static const auto ranks = [] {
    std::array<size_t, kOptKinds> out;
    out.fill(kOptKinds);
    for (size_t i = 0; i < kRows.size(); ++i) out[static_cast<size_t>(kRows[i]->kind)] = i;
    for (const size_t rank : out) UOPD_CHECK(rank < kOptKinds);  // each kind has a row
    return out;
  }();
  return ranks;
}

}  // namespace

std::span<const OptRow* const> OptRows() { return kRows; }

size_t RankOf(OptKind kind) { return Ranks()[static_cast<size_t>(kind)]; }

const OptRow& RowOf(OptKind kind) { return *kRows[RankOf(kind)]; }

std::string Usage(const OptRow& row) {
  std::string out = Cat(row.name, "(");
  std::string_view between;
  for (const Operand& operand : {row.axis, row.amount, row.warps}) {
    if (operand.names == Operand::Names::kNothing) continue;
    Append(out,
           operand.is_optional ? Cat("[", between, operand.name, "]") : Cat(between, operand.name));
    between = ", ";
  }
  return out + ")";
}

std::string OptsDocs() {
  std::string out =
      "| opt | machines | axes | what it does | limits |\n"
      "|---|---|---|---|---|\n";
  for (const OptRow* row : kRows)
    Append(out, "| `", Usage(*row), "` | ", Name(row->machines), " | ", row->axes_prose, " | ",
           row->effect, " | ", row->limits, " |\n");
  return out;
}

bool MoveSource::Has(std::span<const OptKind> kinds) const {
  return std::ranges::any_of(
      opts, [&](const Opt& o) { return std::ranges::find(kinds, o.kind) != kinds.end(); });
}

}  // namespace uopd::codegen
