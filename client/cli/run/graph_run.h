// SPDX-License-Identifier: MIT
// A graph in textual form with its inputs, as `uopctl run` and `uopctl profile` execute it.
//
//   GraphFlags ── Load ──► GraphRun ── Execute ──► results in GraphRun::slots
//
// Used by one thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/cli/command.h"
#include "client/data/npy.h"
#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::cli {

struct GraphFlags {
  std::string graph;
  std::vector<std::string> inputs, outputs, variables;  // NAME=VALUE
};

// Splits "NAME=VALUE", the value of a flag.
absl::StatusOr<std::pair<std::string, std::string>> SplitNamed(const std::string& text,
                                                               std::string_view flag);

// Adds the flags of `flags` except for --output.
void AddGraph(CLI::App& command, GraphFlags& flags);

// The graph of a file in its wire form, checked. `device` not empty: what the graph leaves to the
// default device is on this one. INVALID_ARGUMENT also if the graph leaves nothing to it.
absl::StatusOr<std::string> LoadGraph(const std::string& path, const std::string& device);

class GraphRun {
 public:
  struct Slot {
    ir::Dtype dtype = ir::Dtype::Void;
    ir::Dims dims;
    std::string device;
    bool used = false, read = false, written = false;
    std::optional<client::NpyArray> input;
    std::string output_path;
    std::string result;
    uint64_t bytes() const {
      return static_cast<uint64_t>(ir::Product(dims) * ir::ByteSize(dtype));
    }
  };

  // Reads and checks the graph and its inputs. Errors name the file, or the flag.
  absl::Status Load(const GraphFlags& flags);
  // Runs the graph once. Slots without an input start as zeros. The first call sends what is large
  // and perhaps the graph. Later calls start from the contents that the call before has left.
  absl::StatusOr<v1::ExecuteResponse> Execute(client::Session& session, const v1::Options& options);
  // Fetches the results of the last Execute into the slots.
  absl::Status FetchResults(client::Session& session, const v1::ExecuteResponse& response);

  std::map<int64_t, Slot>& slots() { return slots_; }
  const std::string& graph() const { return graph_; }  // encoded, after Load

 private:
  absl::Status ReadFlags(const GraphFlags& flags, std::map<std::string, std::string>& variables);
  absl::StatusOr<v1::ExecuteRequest> FirstRequest(client::Session& session);

  ir::UOpContext ctx_;
  std::vector<ir::UOp> lines_;  // in the order of the file
  ir::UOp sink_;
  std::string graph_;  // encoded
  std::map<int64_t, Slot> slots_;
  std::vector<int64_t> variables_;
  std::optional<v1::ExecuteRequest> request_;  // of the last Execute
  uint64_t next_id_ = 1;
};

}  // namespace uopd::cli
