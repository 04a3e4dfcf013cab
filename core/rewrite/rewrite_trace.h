// SPDX-License-Identifier: MIT
// A record of all rewrites of a process: a file with one JSON object per line, which `uopctl viz`
// reads.
//
//   {"rule":3,"set":"index","name":"sum","file":"core/rules/index.cc","line":85}
//   {"node":12,"op":"ADD<index>","src":[3,5],"arg":"{2}"}              arg only where there is one
//   {"pass":1,"parent":0,"name":"schedule/symbolic","root":12}         a Rewriter::Run in its group
//   {"step":1,"pass":1,"before":12,"after":15,"rule":3,"from":"r0+0","to":"r0"}
//   {"end":1,"result":15}
//   {"note":"one tile of 64 x 128 takes 3100 cycles","name":"codegen r_64_128/choose_opts"}
//
// Invariants
//   (1) Numbers of rules, nodes and passes are valid in this file only. A line that describes a
//       number stands before every line that uses it.
//   (2) A pass (a Rewriter::Run) without rewrites has no lines. The lines of one pass are
//       contiguous; those of an inner pass stand before those of the outer one.
//   (3) A note says why a pass of codegen did what it did. It stands behind the rewrites of its
//       pass.
//   (4) `parent` is the pass whose rule started this pass, or 0.
//
// The file is opened by TRACE_REWRITES=FILE, VIZ=1 or TRACK_MATCH_STATS=2, or by Open. All threads
// share it. After 4 GiB no more lines are written.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

// The trace file of the process.
class TraceFile {
 public:
  // The open file, or null. The first call reads the debug flags. Thread-safe.
  static TraceFile* MaybeGet();
  // Records into `path` from now on. UNAVAILABLE if it cannot be written.
  static absl::Status Open(const std::string& path);
  // Records nothing from now on. Rewrites that still run lose their lines.
  static void Close();

  int64_t NextPass();
  uint32_t NextNodes(uint32_t n);         // reserves n numbers, returns the first one
  uint32_t RuleNumber(const Rule& rule);  // writes the description of a new rule
  void Write(std::string_view lines);

 private:
  struct State;
  explicit TraceFile(std::unique_ptr<State> state);
  ~TraceFile();
  static void Use(TraceFile* next);  // closes the one before
  std::unique_ptr<State> state_;
};

// While it lives, a prefix of the names of what this thread records. Groups nest: "codegen
// r_16_16/unroll".
class TraceGroup {
 public:
  explicit TraceGroup(std::string name);
  ~TraceGroup();
  // From now on the name is another one, also that of the notes in groups that are still open.
  void Rename(std::string name);
  TraceGroup(const TraceGroup&) = delete;
  TraceGroup& operator=(const TraceGroup&) = delete;

 private:
  size_t place_;  // among the groups of the thread
};

// Whether notes are recorded: else nobody need make their texts.
bool TracesNotes();
// Records why this thread does what it does. The line of the note has the names of the open groups,
// and is written when the innermost of them ends.
void TraceNote(std::string_view text);

// Records the rewrites of one Rewriter. Each Rewriter describes a node at most once.
class TraceRecorder {
 public:
  explicit TraceRecorder(TraceFile& file) : file_(file) {}

  void Begin(std::string_view pass, UOp root);
  void Step(UOp before, UOp after, const Rule& rule);
  void End(UOp result);

 private:
  uint32_t Number(UOp u);  // describes u and all new nodes below it

  TraceFile& file_;
  std::vector<uint32_t> numbers_;  // by node id; 0: not described yet
  std::string lines_;
  std::string pass_;
  UOp root_;
  int64_t pass_number_ = 0, parent_ = 0, steps_ = 0;
};

// `text` as a JSON string with quotes. Bytes that are not printable ASCII become \u00XX.
std::string JsonString(std::string_view text);

}  // namespace uopd::rewrite
