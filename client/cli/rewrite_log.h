// SPDX-License-Identifier: MIT
// RewriteLog: a file of recorded rewrites (core/rewrite/rewrite_trace.h) in memory, and the graphs
// between its steps.
#pragma once
#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace uopd::cli {

class RewriteLog {
 public:
  struct Rule {
    std::string name;  // "index.sum"
    std::string file;
    int line = 0;
  };
  struct Step {
    size_t pass = 0;  // index into passes()
    uint32_t before = 0, after = 0;
    uint32_t rule = 0;
    std::string from, to;
  };
  struct Pass {
    int64_t id = 0, parent = 0;
    std::string name;
    uint32_t root = 0, result = 0;
    std::vector<size_t> steps;  // indices into steps()
  };
  // Why a pass of codegen did what it did.
  struct Note {
    std::string name, text;  // of the pass, with its kernel
    size_t before = 0;       // passes() that began before the note
  };
  struct RuleSummary {
    uint32_t rule = 0;
    int64_t rewrites = 0;
    int64_t nodes = 0;  // added by all rewrites together: nodes of results minus nodes replaced
  };

  // INVALID_ARGUMENT: a line is no record; the message names the line. The last line may be cut
  // off, because the writer may have been killed.
  static absl::StatusOr<RewriteLog> Read(std::istream& in);

  const std::vector<Pass>& passes() const { return passes_; }  // in order of their start
  const std::vector<Step>& steps() const { return steps_; }    // in order
  const Rule& rule(uint32_t number) const { return rules_.at(number); }
  const std::vector<Note>& notes() const { return notes_; }  // in order
  bool truncated() const { return truncated_; }

  size_t NodesUnder(uint32_t node) const;
  // Most rewrites first.
  std::vector<RuleSummary> Summary() const;

  // What step `index` did to the graph of its pass, one node per line. "- ": the node is only in
  // the graph before the step; "+ ": only in the graph after it; two spaces: a source of such a
  // node. With `whole`, all other nodes have two spaces too.
  std::string Diff(size_t index, bool whole);

 private:
  struct Node {
    std::string op, arg;
    std::vector<uint32_t> src;
    auto operator<=>(const Node&) const = default;
  };

  absl::Status Line(const std::string& text);
  uint32_t Intern(Node node);
  uint32_t Resolve(uint32_t root, const std::map<uint32_t, uint32_t>& map);
  std::vector<uint32_t> Order(uint32_t root) const;
  std::string Text(uint32_t node) const;

  std::vector<Node> nodes_;  // by number
  std::map<Node, uint32_t> interned_;
  std::map<uint32_t, Rule> rules_;
  std::vector<Pass> passes_;
  std::map<int64_t, size_t> pass_by_id_;
  std::vector<Step> steps_;
  std::vector<Note> notes_;
  bool truncated_ = false;
};

}  // namespace uopd::cli
