// SPDX-License-Identifier: MIT
// A record of rewrites, one JSON object a line, that `uopctl viz` reads.
//
//   {"rule":3,"set":"index","name":"sum","file":"core/rules/index.cc","line":85}
//   {"node":12,"op":"ADD<index>","src":[3,5],"arg":"{2}"}              arg only where there is one
//   {"pass":1,"parent":0,"name":"schedule/symbolic","root":12}         a Rewriter::Run
//   {"step":1,"pass":1,"before":12,"after":15,"rule":3,"from":"r0+0","to":"r0"}
//   {"end":1,"result":15}
//
// Numbers of rules, nodes and passes are the file's own; whatever is named has been described on an
// earlier line. Passes without rewrites are left out. `parent` is the pass that ran the rule that
// started this one, or 0. Lines of one Run stand together, inner Runs before the outer one.
//
// The file is opened by TRACE_REWRITES=FILE, VIZ=1 or TRACK_MATCH_STATS=2, or by Open; it is shared
// by all threads, and closed to new lines after 4 GiB.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/rewrite/rule_set.h"

namespace uopd::rewrite {

// The process's file.
class TraceFile {
 public:
  // The open one, or null. Reads the debug flags on the first call. Thread-safe.
  static TraceFile* MaybeGet();
  // Records into `path` from now on. UNAVAILABLE if it cannot be written.
  static absl::Status Open(const std::string& path);

  int64_t NextPass();
  uint32_t NextNodes(uint32_t n);         // the first of n numbers
  uint32_t RuleNumber(const Rule& rule);  // describes the rule when it is new
  void Write(std::string_view lines);

 private:
  struct State;
  explicit TraceFile(std::unique_ptr<State> state);
  ~TraceFile();
  std::unique_ptr<State> state_;
};

// A name that passes of this thread are recorded under, e.g. "codegen r_16_16".
class TraceGroup {
 public:
  explicit TraceGroup(std::string name);
  ~TraceGroup();
  TraceGroup(const TraceGroup&) = delete;
  TraceGroup& operator=(const TraceGroup&) = delete;
};

// The part of a Rewriter that records. Nodes are described once per Rewriter.
class TraceRecorder {
 public:
  explicit TraceRecorder(TraceFile& file) : file_(file) {}

  void Begin(std::string_view pass, UOp root);
  void Step(UOp before, UOp after, const Rule& rule);
  void End(UOp result);

 private:
  uint32_t Number(UOp u);  // describes u and everything below that is new

  TraceFile& file_;
  std::vector<uint32_t> numbers_;  // by node id; 0 until described
  std::string lines_;
  std::string pass_;
  UOp root_;
  int64_t pass_number_ = 0, parent_ = 0, steps_ = 0;
};

// `text` as a JSON string, quotes included. Bytes that are no printable ASCII become \u00XX.
std::string JsonString(std::string_view text);

}  // namespace uopd::rewrite
