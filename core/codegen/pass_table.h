// SPDX-License-Identifier: MIT
// The passes of codegen, as a table. Lower runs the rows in order;
// uopd-opt runs each of them alone, and docs/codegen/passes.md lists them.
//
// A pass changes the form of one kernel. What it has to know beside the graph is in KernelWork: the
// target, the opts, and what earlier passes found out. What later passes and the launch have to
// know, it notes there.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/codegen/gpu/passes/pipeline/pipeline.h"
#include "core/codegen/machine.h"

namespace uopd::codegen {

// A kernel on its way through the table. Not thread-safe. What it refers to outlives it.
struct KernelWork {
  ir::UOpContext& ctx;
  Target target;  // of the device, without the instructions that are of no use here (check_tiles)
  const Options& options;
  ir::UOp root;                  // the kernel in its present form: a SINK, later a LINEAR
  ir::UOp given = {};            // the kernel that the opts are about, as choose_opts saw it
  LoweredKernel kernel = {};     // all but `linear`, which `root` is at the end
  std::vector<int64_t> largest;  // the maximum of each of kernel.variables
  PipelineWay way = {};          // how PIPELINE copies (choose_copies)
  // The pass describe_launch sets these two: the estimated time of one thread, and whether the
  // launch is so long that blocks poll before they begin.
  double thread_ns = 0;
  bool long_launch = false;
  std::vector<std::string> notes = {};  // why the last row did what it did

  bool Has(OptKind kind) const;
};

struct Pass {
  enum class Form : uint8_t { kKernel, kLines };  // a SINK, or a LINEAR

  std::string_view name;  // "unroll"; no two rows have the same
  Machines machines;
  Form before, after;
  std::string_view file;  // below core/
  std::string_view doc;   // what it does, in one line of Markdown
  absl::Status (*run)(KernelWork& work);

  bool IsFor(const Target& target) const { return codegen::IsFor(machines, target); }
};

// In the order in which Lower runs them.
std::span<const Pass> Passes();

// Runs the pass if it is for the target's kind of machine, checks what it made, and traces its
// notes. INVALID_ARGUMENT: the kernel is not in the form that the pass takes, or as the pass says.
// INTERNAL: the pass made a wrong graph.
absl::Status RunPass(const Pass& pass, KernelWork& work);

// The rows from the first one to that of this name. NOT_FOUND: no pass is called so.
absl::StatusOr<std::span<const Pass>> PassesUpTo(std::string_view name);

// Runs these rows of the table in order, and ends at the first error. What they rewrite is recorded
// under the names of the kernel and of the row: "codegen r_16_16/unroll".
absl::Status RunPasses(KernelWork& work, std::span<const Pass> passes = Passes());

// The list of passes for docs/codegen/passes.md, as a Markdown table.
std::string PassesDocs();

}  // namespace uopd::codegen
