// SPDX-License-Identifier: MIT
#include "client/cli/run/graph_run.h"

#include <CLI/CLI.hpp>
#include <bit>
#include <charconv>

#include "client/data/files.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "uopd/v1/graph.pb.h"

namespace uopd::cli {
namespace {

using ir::UOp;
using Slot = GraphRun::Slot;

constexpr size_t kInline = 64 * 1024;

// a0, slot0 and 0 all name slot 0.
absl::StatusOr<Slot*> Named(std::map<int64_t, Slot>& slots, const std::string& name) {
  std::string_view digits = name;
  if (digits.starts_with("slot"))
    digits.remove_prefix(4);
  else if (digits.starts_with('a'))
    digits.remove_prefix(1);
  int64_t n = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 0) {
    return absl::InvalidArgumentError(Cat("`", name, "` names no slot: a0, slot0 or 0 does"));
  }
  auto it = slots.find(n);
  if (it == slots.end()) return absl::InvalidArgumentError(Cat("the graph has no slot ", n));
  return &it->second;
}

absl::StatusOr<std::map<int64_t, Slot>> SlotsOf(ir::UOpContext& ctx, UOp sink) {
  std::map<int64_t, Slot> slots;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(ir::Op::STORE)) {
      for (ir::UOp base : ir::BasesOf(ctx, u.src(0))) slots[base.slot()].written = true;
      for (UOp v : ir::Toposort(ctx, u.src(1))) {
        if (v.Is(ir::Op::PARAM)) slots[v.slot()].read = true;
      }
    }
    if (!u.Is(ir::Op::PARAM)) continue;
    Slot& s = slots[u.slot()];
    s.dtype = u.dtype();
    s.dims = ir::MaxDims(ctx, *ctx.ShapeOf(u));
    s.device = u.text();
    s.used = true;
  }
  return slots;
}

// The value in the form of a request: for a float, the bits of a double.
absl::StatusOr<int64_t> ValueOf(ir::UOp variable, const std::string& text) {
  const char* end = text.data() + text.size();
  auto read = [&](auto& v) {
    const auto r = std::from_chars(text.data(), end, v);
    return r.ec == std::errc() && r.ptr == end;
  };
  const bool is_float = ir::IsFloat(variable.dtype());
  double number = 0;
  int64_t integer = 0;
  if (is_float ? read(number) : read(integer))
    return is_float ? std::bit_cast<int64_t>(number) : integer;
  return absl::InvalidArgumentError(Cat("--var ", variable.text(), "=", text, ": the value is no ",
                                        is_float ? "number" : "integer"));
}

// The handle of a slot's buffer on the daemon; 0 for a slot whose data travel in the request.
uint64_t HandleOf(int64_t number, const Slot& slot) {
  return slot.bytes() > kInline ? static_cast<uint64_t>(number) + 1 : 0;
}

}  // namespace

absl::StatusOr<std::pair<std::string, std::string>> SplitNamed(const std::string& text,
                                                               std::string_view flag) {
  const size_t at = text.find('=');
  if (at == 0 || at == std::string::npos)
    return absl::InvalidArgumentError(Cat(flag, " takes NAME=VALUE, not `", text, "`"));
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

absl::Status GraphRun::ReadFlags(const GraphFlags& flags,
                                 std::map<std::string, std::string>& variables) {
  for (const std::string& text : flags.inputs) {
    UOPD_ASSIGN(auto pair, SplitNamed(text, "--input"));
    UOPD_ASSIGN(Slot * slot, Named(slots_, pair.first));
    UOPD_ASSIGN(std::string file, client::ReadFile(pair.second));
    auto array = client::ParseNpy(file);
    if (!array.ok()) return WithFrame(array.status(), Cat("reading ", pair.second));
    if (array->dtype != slot->dtype || array->bytes.size() != slot->bytes()) {
      return absl::InvalidArgumentError(
          Cat(pair.second, " holds ", array->bytes.size(), " bytes of ", ir::Name(array->dtype),
              "; ", pair.first, " takes ", slot->bytes(), " of ", ir::Name(slot->dtype)));
    }
    slot->input = *std::move(array);
  }
  for (const std::string& text : flags.outputs) {
    UOPD_ASSIGN(auto pair, SplitNamed(text, "--output"));
    UOPD_ASSIGN(Slot * slot, Named(slots_, pair.first));
    if (!slot->written)
      return absl::InvalidArgumentError(Cat("the graph does not store to ", pair.first));
    slot->output_path = pair.second;
  }
  for (const std::string& text : flags.variables) {
    UOPD_ASSIGN(auto pair, SplitNamed(text, "--var"));
    variables[pair.first] = pair.second;
  }
  return absl::OkStatus();
}

absl::Status GraphRun::Load(const GraphFlags& flags) {
  UOPD_ASSIGN(std::string text, client::ReadFile(flags.graph, client::kMostGraphBytes));
  auto sink = ir::Parse(ctx_, text, lines_);
  if (!sink.ok()) return WithFrame(sink.status(), Cat("reading ", flags.graph));
  sink_ = *sink;
  if (absl::Status s = ir::Verify(ctx_, sink_, ir::Level::kTensor); !s.ok()) {
    return WithFrame(ir::NumberedAs(s, ir::Toposort(ctx_, sink_), lines_),
                     Cat("checking ", flags.graph));
  }
  UOPD_ASSIGN(slots_, SlotsOf(ctx_, sink_));
  std::map<std::string, std::string> values;
  UOPD_TRY(ReadFlags(flags, values));
  for (UOp v : ir::Variables(ctx_, sink_)) {
    auto it = values.find(std::string(v.text()));
    if (it == values.end())
      return absl::InvalidArgumentError(
          Cat("variable ", v.text(), " needs a value: --var ", v.text(), "=N"));
    UOPD_ASSIGN(variables_.emplace_back(), ValueOf(v, it->second));
    values.erase(it);
  }
  if (!values.empty())
    return absl::InvalidArgumentError(Cat("the graph has no variable ", values.begin()->first));
  graph_ = ir::Encode(ctx_, sink_);
  return absl::OkStatus();
}

absl::StatusOr<v1::ExecuteRequest> GraphRun::FirstRequest(client::Session& session) {
  v1::ExecuteRequest request;
  request.set_digest(std::string(HashBytes(graph_).view()));
  const int64_t count = slots_.empty() ? 0 : slots_.rbegin()->first + 1;
  for (int64_t i = 0; i < count; ++i) {
    v1::Argument& a = *request.add_arguments();
    auto it = slots_.find(i);
    if (it == slots_.end()) continue;  // a gap in the numbering
    Slot& s = it->second;
    a.set_buffer(HandleOf(i, s));
    if (s.input || s.read) {
      std::string bytes = s.input ? s.input->bytes : std::string(s.bytes(), '\0');
      if (a.buffer() != 0)
        UOPD_TRY(session.Upload(a.buffer(), s.device, bytes));
      else
        a.set_data(std::move(bytes));
    }
    a.set_return_data(s.written && a.buffer() == 0);
  }
  for (int64_t v : variables_) request.add_variables(v);
  return request;
}

absl::StatusOr<v1::ExecuteResponse> GraphRun::Execute(client::Session& session,
                                                      const v1::Options& options) {
  if (!request_) {
    UOPD_ASSIGN(request_, FirstRequest(session));
  }
  *request_->mutable_options() = options;
  request_->set_request_id(next_id_++);
  auto answer = session.Execute(*request_);
  if (absl::IsNotFound(answer.status())) {
    request_->set_graph(graph_);
    request_->set_request_id(next_id_++);
    answer = session.Execute(*request_);
    request_->clear_graph();
  }
  if (!answer.ok()) return ir::NumberedAs(answer.status(), ir::Toposort(ctx_, sink_), lines_);
  return answer;
}

absl::Status GraphRun::FetchResults(client::Session& session, const v1::ExecuteResponse& response) {
  int next = 0;
  for (auto& [i, s] : slots_) {
    if (!s.written) continue;
    if (const uint64_t handle = HandleOf(i, s); handle != 0) {
      UOPD_ASSIGN(s.result, session.Download(handle, s.bytes()));
    } else if (next < response.data_size()) {
      s.result = response.data(next++);
    }
    if (s.result.size() != s.bytes())
      return absl::InternalError(Cat("the result of slot ", i, " has the wrong size"));
  }
  if (next != response.data_size())
    return absl::InternalError("the daemon returned a wrong number of results");
  return absl::OkStatus();
}

absl::StatusOr<std::string> LoadGraph(const std::string& path, const std::string& device) {
  UOPD_ASSIGN(const std::string text, client::ReadFile(path, client::kMostGraphBytes));
  ir::UOpContext ctx;
  std::vector<UOp> lines;
  const auto sink = ir::Parse(ctx, text, lines);
  if (!sink.ok()) return WithFrame(sink.status(), Cat("reading ", path));
  if (absl::Status s = ir::Verify(ctx, *sink, ir::Level::kTensor); !s.ok()) {
    return WithFrame(ir::NumberedAs(s, ir::Toposort(ctx, *sink), lines), Cat("checking ", path));
  }
  std::string encoded = ir::Encode(ctx, *sink);
  if (device.empty()) return encoded;
  v1::Graph graph;
  if (!graph.ParseFromString(encoded)) return absl::InternalError("the graph does not decode");
  bool any = false;
  for (v1::Node& node : *graph.mutable_nodes()) {
    const bool has_device =
        node.op() == ir::Info(ir::Op::PARAM).wire || node.op() == ir::Info(ir::Op::COPY).wire;
    if (!has_device || !node.text().empty()) continue;
    node.set_text(device);
    any = true;
  }
  if (!any) return absl::InvalidArgumentError(Cat(path, " names its devices itself"));
  return graph.SerializeAsString();
}

void AddGraph(CLI::App& command, GraphFlags& flags) {
  command.add_option("graph", flags.graph, "file of the textual form (docs/ir.md)")->required();
  command.add_option("--input", flags.inputs, "NAME=FILE.npy, where NAME is a0, a1, ... by slot");
  command.add_option("--var", flags.variables, "NAME=NUMBER, the value of a variable");
}

}  // namespace uopd::cli
