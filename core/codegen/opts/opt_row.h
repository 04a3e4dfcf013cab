// SPDX-License-Identifier: MIT
// OptRow: all that is known of one kind of opt. The table has a row for each kind; a row lies in
// the file of its opt (opts/kinds/).
//
// From the table come: parsing and printing, the check of what an opt names, OptPlan::Add, the
// moves of the search, how opts change the length of a kernel, and the list in
// docs/codegen/opts.md.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/codegen/machine.h"
#include "core/codegen/opts/opt.h"

namespace uopd::codegen {

struct Adding;

// What a number of an opt names.
struct Operand {
  enum class Names : uint8_t {
    kNothing,
    kAxis,   // a position in Axes()
    kLoad,   // in Loads()
    kRead,   // in Reads()
    kStore,  // in Stores()
    kPart,   // iterations of the axis; 0: all that are left
    // One of the target's matrix instructions that fit, counted from 1; 0: the first one too.
    kInstruction,
    kNumber  // a number of its own
  };
  Names names = Names::kNothing;
  std::string_view name;     // as the documentation writes it
  bool is_optional = false;  // texts may leave it out if it is 0
};

// What the opts of a kernel may name, as the search sees it.
struct AxisInfo {
  int64_t size = 0;  // iterations; 0: symbolic
  bool is_reduce = false;
};
struct SearchSpace {
  std::vector<AxisInfo> axes;
  int loads = 0;   // Loads()
  int stores = 0;  // Stores()
  int reads = 0;   // Reads()
  // Pairs of axes that MERGE may make one: every load of a reduction moves along both or along
  // none.
  std::vector<std::pair<int, int>> merges;
};

// An amount that the search tries on an axis, and the warps of a PIPELINE.
struct TriedAmount {
  int64_t amount, warps;
  // Lists of amounts are written as numbers.
  // NOLINTNEXTLINE(google-explicit-constructor)
  TriedAmount(int64_t n, int64_t copying_warps = 0) : amount(n), warps(copying_warps) {}
  bool operator==(const TriedAmount&) const = default;
};

// Where the search is: a list of opts, and what may be added to it.
struct MoveSource {
  const SearchSpace& kernel;
  std::span<const AxisInfo> axes;  // those that are tuned, after the MERGEs among the opts
  const Target& target;
  const std::vector<Opt>& opts;

  bool Has(std::span<const OptKind> kinds) const;
  bool Has(OptKind kind) const { return Has(std::span(&kind, 1)); }
};

struct OptRow {
  // How the opt changes the length of a kernel's code.
  enum class Length : uint8_t {
    kNot,     // only loops, or the order of memory
    kOther,   // not in one direction
    kLonger,  // by code of its own
    kCopies   // by as many copies as its amount says
  };

  OptKind kind;
  std::string_view name;
  Machines machines = Machines::kAll;
  Operand axis, amount, warps;
  Length length = Length::kOther;
  // For docs/codegen/opts.md: which axes, what the opt splits off or does, and when it applies.
  std::string_view axes_prose, effect, limits;

  // Adds the opt to a plan, or says why it does not apply (INVALID_ARGUMENT, by Adding::Bad) and
  // changes nothing. The operands are in range, and the machine is right.
  absl::Status (*add)(Adding& adding, const Opt& opt);
  bool makes_lanes = false;   // a value may have two lane dimensions after it: that is checked
  bool makes_stages = false;  // the kernel may stage more after it: their bytes are checked
  bool keeps_size = false;    // the kernel stages no more after it, whatever the plan has

  // The search. For opts of one axis: the amounts to try on it.
  std::vector<TriedAmount> (*amounts)(const SearchSpace& kernel, const AxisInfo& axis,
                                      const Target& target) = nullptr;
  // For all others: the opts to try next.
  std::vector<Opt> (*moves)(const MoveSource& from) = nullptr;
  bool once = false;  // a list with the opt gets no second one on another axis
  // On CPUs the same amount is tried on other axes, since two single moves would pass a far slower
  // kernel.
  bool slides = false;

  bool IsFor(const Target& target) const { return codegen::IsFor(machines, target); }
};

// In the order of a canonical list, in which opts of all kinds can apply together. ONLINE and MERGE
// come before all others. With blocks, threads come before the copies that each of them computes,
// so that neighbouring threads access neighbouring elements; PADTO comes before both, so that the
// others divide the axis.
std::span<const OptRow* const> OptRows();
const OptRow& RowOf(OptKind kind);
// The place of the kind in OptRows().
size_t RankOf(OptKind kind);
// "UPCAST(axis, n)"
std::string Usage(const OptRow& row);
// The table of docs/codegen/opts.md.
std::string OptsDocs();

}  // namespace uopd::codegen
