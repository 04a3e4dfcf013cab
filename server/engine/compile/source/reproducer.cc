// SPDX-License-Identifier: MIT
#include "server/engine/compile/source/reproducer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <tuple>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/base/output_file.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"

namespace uopd::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".uop", kOptions = "; options: ", kDevices = "; devices: ";

absl::Status NotOurs(std::string_view what) {
  return absl::FailedPreconditionError(Cat("the file is no reproducer of this version: ", what));
}

// Parses the text that CompileOptions::Text writes: "noopt=0 fast_math=1 beam=0 ignore_beam_cache=0
// cache_level=2".
absl::StatusOr<CompileOptions> ParseOptions(std::string_view text) {
  CompileOptions out;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    const size_t equals = word.find('=');
    int value = 0;
    if (equals == std::string_view::npos ||
        std::from_chars(word.data() + equals + 1, word.data() + word.size(), value).ptr !=
            word.data() + word.size()) {
      return NotOurs(Cat("option `", word, "`"));
    }
    const std::string_view name = word.substr(0, equals);
    if (name == "noopt") {
      out.noopt = value != 0;
    } else if (name == "fast_math") {
      out.fast_math = value != 0;
    } else if (name == "allow_bf16") {
      out.allow_bf16 = value != 0;
    } else if (name == "allow_f16") {
      out.allow_f16 = value != 0;
    } else if (name == "allow_tf32") {
      out.allow_tf32 = value != 0;
    } else if (name == "reproducible") {
      out.reproducible = value != 0;
    } else if (name == "beam") {
      out.beam = value;
    } else if (name == "ignore_beam_cache") {
      out.ignore_beam_cache = value != 0;
    } else if (name == "cache_level") {
      out.cache_level = value;
    } else {
      return NotOurs(Cat("option `", word, "`"));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<ReproducerHead> ReadReproducerHead(std::string_view text) {
  // Take the last such lines, because the error text before them may quote anything.
  std::optional<std::string_view> options, devices;
  while (text.starts_with(';')) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(kOptions)) options = line.substr(kOptions.size());
    if (line.starts_with(kDevices)) devices = line.substr(kDevices.size());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!options || !devices) return NotOurs("its first lines name no options and devices");
  ReproducerHead out;
  UOPD_ASSIGN(out.options, ParseOptions(*options));
  out.devices = *devices;
  return out;
}

absl::Status ReproducerFolder::Explain(absl::Status status, std::string_view graph,
                                       const CompileOptions& options) {
  if (!absl::IsInternal(status)) return status;
  const std::string file = Write(status, graph, options);
  UOPD_LOG(kError, "compiling failed", {"status", ClientText(status.ToString())},
           {"reproducer", file});
  if (file.empty()) return status;
  absl::Status out(status.code(), Cat(StatusText(status), " (reproducer: ", file, ")"));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& value) { out.SetPayload(url, value); });
  return out;
}

bool ReproducerFolder::MakeRoom(size_t bytes) {
  struct File {
    fs::file_time_type time;
    fs::path path;
    size_t bytes = 0;
  };
  if (bytes > limits_.bytes || limits_.files == 0) return false;
  std::error_code error;
  std::vector<File> files;
  size_t held = 0;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    if (entry.path().extension() != kExtension || !entry.is_regular_file(error)) continue;
    File file{entry.last_write_time(error), entry.path(), 0};
    if (const uintmax_t size = entry.file_size(error); !error) file.bytes = size;
    held += file.bytes;
    files.push_back(std::move(file));
  }
  if (error) return false;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::tie(a.time, a.path) < std::tie(b.time, b.path);
  });
  size_t count = files.size();
  for (const File& file : files) {
    if (count < limits_.files && held + bytes <= limits_.bytes) break;
    if (!fs::remove(file.path, error) || error) return false;
    --count;
    held -= file.bytes;
  }
  return true;
}

std::string ReproducerFolder::Write(const absl::Status& status, std::string_view graph,
                                    const CompileOptions& options) {
  if (path_.empty() || graph.size() > limits_.graph_bytes) return {};
  ir::UOpContext ctx;
  const auto root = ir::Decode(ctx, graph, ir::Level::kTensor);
  if (!root.ok()) return {};
  const std::string name = HashBytes(Cat(graph, options.Text())).Hex().substr(0, 16);
  const fs::path file = fs::path(path_) / Cat(name, kExtension);
  const std::string text =
      Cat("; ", absl::StrReplaceAll(StatusText(status), {{"\n", "\n; "}}), "\n", kOptions,
          options.Text(), "\n", kDevices, devices_, "\n", ir::Print(ctx, *root));

  MutexLock lock(mu_);
  std::error_code error;
  fs::create_directories(path_, error);
  if (fs::is_regular_file(fs::symlink_status(file, error))) return file.string();
  if (!MakeRoom(text.size())) return {};
  return WriteFile(file.string(), text, {.mode = 0600}).ok() ? file.string() : "";
}

}  // namespace uopd::engine
