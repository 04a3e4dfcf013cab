// SPDX-License-Identifier: MIT
#include "server/engine/reproducer.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_replace.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/ir/print.h"
#include "core/ir/wire.h"

namespace uopd::engine {

namespace fs = std::filesystem;

absl::Status ReproducerFolder::Explain(absl::Status status, std::string_view graph,
                                       const std::string& options) {
  if (!absl::IsInternal(status)) return status;
  const std::string file = Write(status, graph, options);
  UOPD_LOG(kError, "compiling failed", {"status", status}, {"reproducer", file});
  if (file.empty()) return status;
  absl::Status out(status.code(), Cat(StatusText(status), " (reproducer: ", file, ")"));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& value) { out.SetPayload(url, value); });
  return out;
}

std::string ReproducerFolder::Write(const absl::Status& status, std::string_view graph,
                                    const std::string& options) {
  if (path_.empty()) return {};
  ir::UOpContext ctx;
  const auto root = ir::Decode(ctx, graph, ir::Stage::kTensor);
  if (!root.ok()) return {};
  const std::string name = HashBytes(Cat(graph, options)).Hex().substr(0, 16) + ".uop";
  const fs::path file = fs::path(path_) / name;

  MutexLock lock(mu_);
  std::error_code error;
  fs::create_directories(path_, error);
  if (fs::exists(file, error)) return file.string();
  const fs::directory_iterator entries(path_, error);
  if (error || static_cast<size_t>(std::distance(begin(entries), end(entries))) >= kMaxFiles) {
    return {};
  }
  std::ofstream out(file);
  out << "; " << absl::StrReplaceAll(StatusText(status), {{"\n", "\n; "}}) << "\n; options: " << options
      << "\n"
      << ir::Print(ctx, *root);
  out.close();
  if (!out) {
    fs::remove(file, error);
    return {};
  }
  return file.string();
}

}  // namespace uopd::engine
