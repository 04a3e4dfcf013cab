// SPDX-License-Identifier: MIT
// Machine: all that codegen and the search do otherwise for GPUs than for CPUs. There are two rows:
// one in the room of CPUs (cpu/machine.cc) and one in that of GPUs (gpu/machine.cc).
//
// Code for both kinds of machines asks a row, and never which row it has. Passes and opts that one
// kind of machine alone has say so in their own tables (pass_table.h, opts/opt_row.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/codegen/opts/opt.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct Adding;
struct PackPart;
struct PlanView;

struct Machine {
  enum class Kind : uint8_t { kCpu, kGpu };  // GPUs: Target::blocks
  Kind kind;

  // ---- The heuristic (opts/choose/heuristic.h) and the search.
  using Choose = std::vector<Opt>(ir::UOpContext& ctx, ir::UOp sink, const Target& target);
  Choose* maybe_choose_rows;     // of attention by matrix instructions; null: the machine has none
  Choose* choose;                // of other kernels
  Choose* maybe_choose_threads;  // what a launch needs even without a heuristic; null: nothing
  // A kernel whose arrays of rows are larger gets an ONLINE, which computes about so many elements
  // of a row together.
  int64_t (*row_bytes)(const Target& target);
  int64_t row_piece;  // each piece multiplies the sums of all earlier ones once
  bool tries_tiles;   // the search begins with tiles of vectors, and moves opts from axis to axis
  // How many copies of a kernel run at the same time.
  int64_t (*parallel)(const Target& target);

  // ---- Opts.
  // TC of a sum of products, and of a kernel with ONLINE (null: there is none).
  absl::Status (*add_product)(Adding& adding, const Opt& opt);
  absl::Status (*maybe_add_rows)(Adding& adding, const Opt& opt);
  bool keeps_partials;  // BLOCK cuts output axes too: partial results of a panel lie in an array
  // Every kernel must fit in a block of threads; else only those that stage values are checked.
  bool limits_blocks;
  // Why a kernel whose shared arrays have so many parts does not fit; empty if it does.
  std::string (*too_large)(ir::UOpContext& ctx, ir::UOp made, const Target& target, int64_t parts);

  // ---- The kernel that a plan makes (opts/make/).
  // PACK of a value.
  ir::UOp (*pack)(ir::UOpContext& ctx, ir::UOp value, std::span<const PackPart> parts,
                  int64_t& next_id);
  // The place of the loop over an axis, beside `is_scanned`: the smallest is the outermost.
  using LoopPlace = std::pair<bool, size_t>;
  LoopPlace (*loop_place)(const PlanView& plan, size_t axis);
  // Whether the iterations of the loop that is left of the axis become blocks of a launch.
  bool (*is_grid)(const PlanView& plan, size_t axis);
  // The last tile of an output axis begins earlier instead of being gated: it computes some
  // elements twice.
  bool overlaps_tiles;
  bool shares_gates;  // the lanes of a vector share a gate where vectors divide the axis

  // ---- Passes.
  struct Sums {
    // From so many copies of a sum on, its unrolled terms join one accumulator in turn: in a loop,
    // and without one.
    int64_t chained_in_loop, chained_without;
    bool joins_maxima;  // unrolled terms of a maximum are joined pairwise, in one order
    // Long sums of products are cut into chunks as other sums are (passes/sum_chunks.h).
    bool cuts_products;
  } sums;
  double poll_ns;         // between two polls of a loop (passes/polls.h)
  double long_launch_ns;  // a launch that takes longer polls when it begins
  double (*launch_ns)(double thread_ns, int64_t blocks, int64_t threads, const Target& target);
  int64_t (*shared_bytes)(ir::UOpContext& ctx, ir::UOp linear);  // of the arrays that threads share
};

const Machine& MachineOf(const Target& target);

// For which machines a row of the table of passes, or of opts, is.
enum class Machines : uint8_t { kAll, kCpus, kGpus };
bool IsFor(Machines machines, const Target& target);
std::string_view Name(Machines machines);  // "all", "CPUs", "GPUs"

}  // namespace uopd::codegen
