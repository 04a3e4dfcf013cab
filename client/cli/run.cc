// SPDX-License-Identifier: MIT
// uopctl run: runs a graph from a text file, with inputs from and outputs to .npy files.
#include <CLI/CLI.hpp>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "client/cli/command.h"
#include "client/cli/print_json.h"
#include "client/data/idx.h"
#include "client/data/npy.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/context.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/shape.h"
#include "core/ir/verify/spec.h"

namespace uopd::cli {
namespace {

using client::NpyArray;
using ir::UOp;

constexpr size_t kInline = 64 * 1024;
constexpr size_t kShown = 16;  // elements that are printed of an output without a file

struct RunFlags {
  std::string graph;
  std::vector<std::string> inputs, outputs, variables;
};

struct Slot {
  ir::Dtype dtype = ir::Dtype::Void;
  ir::Dims dims;
  std::string device;
  bool used = false, read = false, written = false;
  std::optional<NpyArray> input;
  std::string output_path;
  std::string result;
  uint64_t bytes() const { return static_cast<uint64_t>(ir::Product(dims) * ir::ByteSize(dtype)); }
};

// Splits "name=value", the value of a flag.
absl::StatusOr<std::pair<std::string, std::string>> Split(const std::string& text,
                                                          std::string_view flag) {
  const size_t at = text.find('=');
  if (at == 0 || at == std::string::npos)
    return absl::InvalidArgumentError(Cat(flag, " takes NAME=VALUE, not `", text, "`"));
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

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

absl::Status ReadFlags(const RunFlags& flags, std::map<int64_t, Slot>& slots,
                       std::map<std::string, std::string>& variables) {
  for (const std::string& text : flags.inputs) {
    UOPD_ASSIGN(auto pair, Split(text, "--input"));
    UOPD_ASSIGN(Slot * slot, Named(slots, pair.first));
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
    UOPD_ASSIGN(auto pair, Split(text, "--output"));
    UOPD_ASSIGN(Slot * slot, Named(slots, pair.first));
    if (!slot->written)
      return absl::InvalidArgumentError(Cat("the graph does not store to ", pair.first));
    slot->output_path = pair.second;
  }
  for (const std::string& text : flags.variables) {
    UOPD_ASSIGN(auto pair, Split(text, "--var"));
    variables[pair.first] = pair.second;
  }
  return absl::OkStatus();
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

nlohmann::json Values(const Slot& slot, size_t most) {
  nlohmann::json out = nlohmann::json::array();
  const auto size = static_cast<size_t>(ir::ByteSize(slot.dtype));
  for (size_t i = 0; i < std::min(most, slot.result.size() / size); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, slot.result.data() + i * size, size);
    if (ir::IsFloat(slot.dtype)) {
      const double v = ir::DecodeFloat(slot.dtype, bits);
      // JSON has no NaN or infinity.
      if (std::isfinite(v))
        out.push_back(slot.dtype == ir::Dtype::F64
                          ? v
                          : std::stod(Cat(static_cast<double>(static_cast<float>(v)))));
      else
        out.push_back(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    } else if (ir::IsUnsigned(slot.dtype)) {
      out.push_back(bits);
    } else {
      out.push_back(ir::WrapTo(slot.dtype, static_cast<ir::Int128>(bits)));
    }
  }
  return out;
}

absl::Status Execute(client::Connection& connection, const v1::Options& options,
                     const std::string& graph, std::map<int64_t, Slot>& slots,
                     const std::vector<int64_t>& variables, v1::ExecuteResponse* response) {
  v1::ExecuteRequest request;
  request.set_request_id(1);
  *request.mutable_options() = options;
  request.set_digest(std::string(HashBytes(graph).view()));
  std::vector<Slot*> returned, downloaded;
  const int64_t count = slots.empty() ? 0 : slots.rbegin()->first + 1;
  std::map<Slot*, uint64_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    v1::Argument& a = *request.add_arguments();
    auto it = slots.find(i);
    if (it == slots.end()) continue;  // a gap in the numbering
    Slot& s = it->second;
    const bool large = s.bytes() > kInline;
    if (large) {
      a.set_buffer(static_cast<uint64_t>(i) + 1);
      handles[&s] = a.buffer();
    }
    if (s.input || s.read) {
      std::string bytes = s.input ? s.input->bytes : std::string(s.bytes(), '\0');
      if (large)
        UOPD_TRY(connection.Upload(a.buffer(), s.device, bytes));
      else
        a.set_data(std::move(bytes));
    }
    if (!s.written) continue;
    (large ? downloaded : returned).push_back(&s);
    a.set_return_data(!large);
  }
  for (int64_t v : variables) request.add_variables(v);
  auto answer = connection.Execute(request);
  if (absl::IsNotFound(answer.status())) {
    request.set_graph(graph);
    request.set_request_id(2);
    answer = connection.Execute(request);
  }
  UOPD_TRY(answer.status());
  if (answer->data_size() != static_cast<int>(returned.size()))
    return absl::InternalError("the daemon returned a wrong number of results");
  for (size_t i = 0; i < returned.size(); ++i)
    returned[i]->result = answer->data(static_cast<int>(i));
  for (Slot* s : downloaded) {
    UOPD_ASSIGN(s->result, connection.Download(handles.at(s), s->bytes()));
  }
  for (const auto& [i, s] : slots) {
    if (s.written && s.result.size() != s.bytes())
      return absl::InternalError(Cat("the result of slot ", i, " has the wrong size"));
  }
  *response = *std::move(answer);
  return absl::OkStatus();
}

absl::Status Run(const Globals& globals, const RunFlags& flags) {
  UOPD_ASSIGN(std::string text, client::ReadFile(flags.graph));
  ir::UOpContext ctx;
  std::vector<UOp> lines;
  auto sink = ir::Parse(ctx, text, lines);
  if (!sink.ok()) return WithFrame(sink.status(), Cat("reading ", flags.graph));
  // The graph is checked and sent in the order of Toposort. Errors shown to users have the node
  // numbers of the file.
  auto numbered = [&](const absl::Status& s) {
    return s.ok() ? s : ir::NumberedAs(s, ir::Toposort(ctx, *sink), lines);
  };
  if (absl::Status s = ir::Verify(ctx, *sink, ir::Level::kTensor); !s.ok())
    return WithFrame(numbered(s), Cat("checking ", flags.graph));
  UOPD_ASSIGN(auto slots, SlotsOf(ctx, *sink));
  std::map<std::string, std::string> values;
  UOPD_TRY(ReadFlags(flags, slots, values));
  std::vector<int64_t> variables;
  for (UOp v : ir::Variables(ctx, *sink)) {
    auto it = values.find(std::string(v.text()));
    if (it == values.end())
      return absl::InvalidArgumentError(
          Cat("variable ", v.text(), " needs a value: --var ", v.text(), "=N"));
    UOPD_ASSIGN(variables.emplace_back(), ValueOf(v, it->second));
    values.erase(it);
  }
  if (!values.empty())
    return absl::InvalidArgumentError(Cat("the graph has no variable ", values.begin()->first));

  UOPD_ASSIGN(auto connection, globals.Connect());
  v1::ExecuteResponse response;
  UOPD_TRY(numbered(Execute(*connection, globals.execution, ir::Encode(ctx, *sink), slots,
                            variables, &response)));
  nlohmann::json out = {{"outputs", nlohmann::json::object()},
                        {"run_us", response.timings().run_us()},
                        {"total_us", response.timings().total_us()},
                        {"kernels_compiled", response.cache().kernels_compiled()},
                        {"kernels_disk", response.cache().kernels_disk()},
                        {"kernels_memory", response.cache().kernels_memory()},
                        {"kernels_tuned", response.cache().kernels_tuned()}};
  for (auto& [i, s] : slots) {
    if (!s.written) continue;
    if (!s.output_path.empty()) {
      UOPD_ASSIGN(std::string file, client::FormatNpy({s.dtype, s.dims, s.result}));
      UOPD_TRY(client::WriteFile(s.output_path, file));
    }
    const auto n = static_cast<size_t>(ir::Product(s.dims));
    const auto shown = Values(s, globals.json && s.output_path.empty() ? n : kShown);
    if (globals.json) {
      out["outputs"][Cat("a", i)] = {{"dtype", std::string(ir::Name(s.dtype))},
                                     {"dims", std::vector<int64_t>(s.dims.begin(), s.dims.end())}};
      if (s.output_path.empty())
        out["outputs"][Cat("a", i)]["values"] = shown;
      else
        out["outputs"][Cat("a", i)]["file"] = s.output_path;
      continue;
    }
    std::string dims;
    for (int64_t d : s.dims) Append(dims, dims.empty() ? "" : ", ", d);
    std::printf("a%lld %s (%s) %s%s%s\n", static_cast<long long>(i),
                std::string(ir::Name(s.dtype)).c_str(), dims.c_str(),
                s.output_path.empty() ? shown.dump().c_str() : "-> ", s.output_path.c_str(),
                s.output_path.empty() && n > kShown ? " ..." : "");
  }
  if (globals.json) PrintJson(out);
  return absl::OkStatus();
}

}  // namespace

void AddRun(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand(
      "run", "run a graph in textual form once; slots without an input start as zeros");
  command->add_option("graph", flags->graph, "file of the textual form (docs/ir.md)")->required();
  command->add_option("--input", flags->inputs, "NAME=FILE.npy, where NAME is a0, a1, ... by slot");
  command->add_option("--output", flags->outputs,
                      "NAME=FILE.npy; outputs without a file are printed");
  command->add_option("--var", flags->variables, "NAME=NUMBER, the value of a variable");
  AddExecution(*command, globals);
  command->callback([&globals, flags] { globals.status = Run(globals, *flags); });
}

}  // namespace uopd::cli
