// SPDX-License-Identifier: MIT
// Opt: one decision about a kernel, a row of the table of opts (opt_row.h) with its numbers.
//
// Plain values. The row of the kind says what each number names.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace uopd::codegen {

// The numbers are stored in caches (Stored): a new kind comes last.
enum class OptKind : uint8_t {
  kUpcast,
  kUnroll,
  kThread,
  kVector,
  kPack,
  kStream,
  kPrefetch,
  kTensorCore,
  kBlock,
  kLocal,
  kGroup,
  kGroupTop,
  kSwap,
  kPadTo,
  kNoLocals,
  kOnline,
  kPipeline,
  kRaster,
  kPersist,
  kMerge
};
inline constexpr int kOptKinds = 20;

struct Opt {
  OptKind kind = OptKind::kUpcast;
  int axis = 0;  // a position in Axes(), or in the list that OptRow::axis says (plan_kernel.h)
  int64_t amount =
      0;  // what OptRow::amount says: iterations, another axis, a number of an instruction
  int64_t warps = 0;  // of PIPELINE alone: that copy for the others
  bool operator==(const Opt&) const = default;
};

// "UPCAST(0, 4)". A number that the kind does not have is left out, and so is `warps` if it is 0.
std::string Text(const Opt& opt);
// "[UPCAST(0, 4), PACK(1)]"
std::string Text(const std::vector<Opt>& opts);

// The opts of a text such as "UPCAST(0, 4) PACK(1)". '+' may stand between two opts, and ';'
// between two numbers. INVALID_ARGUMENT names the part that is wrong. Whether an opt applies to a
// kernel is not checked.
absl::StatusOr<std::vector<Opt>> ParseOpts(std::string_view text);

// The three numbers by which caches keep an opt and names of kernels tell lists of opts apart:
// kind, axis and amount, and for PIPELINE the amount is its parts and ten times its warps. This
// form only grows, by kinds: the numbers mean the same in every version, so records of earlier
// versions are read as they are. A kind of a later version is no damage, and its record is set
// aside.
struct StoredOpt {
  uint64_t kind = 0;
  int64_t axis = 0, amount = 0;
};
StoredOpt Stored(const Opt& opt);
// "[UPCAST(0, 4), PACK(1, 0)]": the same numbers in keys of caches.
std::string StoredText(const std::vector<Opt>& opts);
// FAILED_PRECONDITION: the kind, which the message names, is of a later version. DATA_LOSS: no opt
// of the kind has these numbers.
absl::StatusOr<Opt> FromStored(const StoredOpt& stored);
// Appends the opt to a list that is read from a record. False: the record is damaged. An opt of a
// later version is left out, and `later` says so: the record is to be set aside once it is read.
bool TakeStored(const StoredOpt& stored, std::vector<Opt>& out, absl::Status& later);

}  // namespace uopd::codegen
