// SPDX-License-Identifier: MIT
#include "client/cli/run/run_onnx.h"

#include <map>

#include "client/cli/run/outputs.h"
#include "client/data/files.h"
#include "core/base/text.h"
#include "uopd/client.h"
#include "uopd/onnx_model.h"

namespace uopd::cli {
namespace {

absl::StatusOr<client::OnnxDataMap> OnnxInputs(client::Client& client, const GraphFlags& flags) {
  client::OnnxDataMap out;
  for (const std::string& text : flags.inputs) {
    UOPD_ASSIGN(const auto pair, SplitNamed(text, "--input"));
    UOPD_ASSIGN(const std::string file, client::ReadFile(pair.second));
    const auto array = client::ParseNpy(file);
    if (!array.ok()) return WithFrame(array.status(), Cat("reading ", pair.second));
    out[pair.first] = client.FromBytes(array->dtype, array->dims, array->bytes);
  }
  return out;
}

// The tensors of one output by name: NAME, and of a sequence NAME.0, NAME.1 and so on.
absl::StatusOr<std::map<std::string, client::Tensor>> OnnxTensors(const std::string& name,
                                                                  const client::OnnxData& data) {
  std::map<std::string, client::Tensor> out;
  if (const auto* t = std::get_if<client::Tensor>(&data)) {
    out[name] = *t;
  } else if (const auto* all = std::get_if<std::vector<client::Tensor>>(&data)) {
    for (size_t i = 0; i < all->size(); ++i) out[Cat(name, ".", i)] = (*all)[i];
  } else if (std::holds_alternative<client::OnnxStrings>(data)) {
    return absl::UnimplementedError(Cat("the output ", name, " has strings"));
  }
  return out;
}

}  // namespace

absl::Status RunOnnx(Globals& globals, const GraphFlags& flags) {
  if (!flags.variables.empty())
    return absl::InvalidArgumentError("--var is for graphs, not for models");
  std::map<std::string, std::string> paths;
  for (const std::string& text : flags.outputs) {
    UOPD_ASSIGN(auto pair, SplitNamed(text, "--output"));
    paths[pair.first] = std::move(pair.second);
  }
  UOPD_ASSIGN(auto options, globals.ConnectOptions());
  UOPD_ASSIGN(auto connection, client::Connection::Connect(std::move(options)));
  client::Client client(connection, {.execution = globals.execution});
  UOPD_ASSIGN(const auto runner, client::OnnxRunner::Open(client, flags.graph));
  UOPD_ASSIGN(const client::OnnxDataMap inputs, OnnxInputs(client, flags));
  UOPD_ASSIGN(const client::OnnxDataMap results, runner.Run(inputs));
  nlohmann::json out = {{"outputs", nlohmann::json::object()}};
  for (const auto& [name, data] : results) {
    UOPD_ASSIGN(const auto tensors, OnnxTensors(name, data));
    for (const auto& [own, tensor] : tensors) {
      UOPD_ASSIGN(std::string bytes, tensor.ToBytes());
      const auto path = paths.extract(own);
      UOPD_TRY(GiveOutput(globals, own, {tensor.dtype(), tensor.dims(), std::move(bytes)},
                          path.empty() ? "" : path.mapped(), out["outputs"]));
    }
  }
  if (!paths.empty())
    return absl::InvalidArgumentError(Cat("the model has no output `", paths.begin()->first, "`"));
  if (globals.json) globals.data = out;
  return absl::OkStatus();
}

}  // namespace uopd::cli
