// SPDX-License-Identifier: MIT
#include "client/cli/run/outputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/ir/shape.h"

namespace uopd::cli {
namespace {

constexpr size_t kShown = 16;  // elements that are printed of an output without a file

nlohmann::json Values(const client::NpyArray& result, size_t most) {
  nlohmann::json out = nlohmann::json::array();
  const auto size = static_cast<size_t>(ir::ByteSize(result.dtype));
  for (size_t i = 0; i < std::min(most, result.bytes.size() / size); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, result.bytes.data() + i * size, size);
    if (ir::IsFloat(result.dtype)) {
      const double v = ir::DecodeFloat(result.dtype, bits);
      // JSON has no NaN or infinity.
      if (std::isfinite(v))
        out.push_back(result.dtype == ir::Dtype::F64
                          ? v
                          : std::stod(Cat(static_cast<double>(static_cast<float>(v)))));
      else
        out.push_back(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    } else if (ir::IsUnsigned(result.dtype)) {
      out.push_back(bits);
    } else {
      out.push_back(ir::WrapTo(result.dtype, static_cast<ir::Int128>(bits)));
    }
  }
  return out;
}

}  // namespace

absl::Status GiveOutput(const Globals& globals, const std::string& name,
                        const client::NpyArray& result, const std::string& path,
                        nlohmann::json& outputs) {
  if (!path.empty()) {
    UOPD_ASSIGN(std::string file, client::FormatNpy(result));
    UOPD_TRY(WriteFile(path, file));
  }
  const auto n = static_cast<size_t>(ir::Product(result.dims));
  const auto shown = Values(result, globals.json && path.empty() ? n : kShown);
  if (globals.json) {
    outputs[name] = {{"dtype", std::string(ir::Name(result.dtype))},
                     {"dims", std::vector<int64_t>(result.dims.begin(), result.dims.end())}};
    if (path.empty())
      outputs[name]["values"] = shown;
    else
      outputs[name]["file"] = path;
    return absl::OkStatus();
  }
  std::string dims;
  for (int64_t d : result.dims) Append(dims, dims.empty() ? "" : ", ", d);
  std::printf("%s %s (%s) %s%s%s\n", name.c_str(), std::string(ir::Name(result.dtype)).c_str(),
              dims.c_str(), path.empty() ? shown.dump().c_str() : "-> ", path.c_str(),
              path.empty() && n > kShown ? " ..." : "");
  return absl::OkStatus();
}

}  // namespace uopd::cli
