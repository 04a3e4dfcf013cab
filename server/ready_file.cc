// SPDX-License-Identifier: MIT
#include "server/ready_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/base/output_file.h"
#include "core/base/text.h"

namespace uopd {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

absl::Status ReadyFile::Write(const std::string& path, const std::string& listen,
                              const std::string& http) {
  const auto write = [&]() -> absl::Status {
    UOPD_ASSIGN(OutputFile out, OutputFile::Create(path));
    UOPD_TRY(out.Write(Cat("{\"pid\":", getpid(), ",\"listen\":", Quoted(listen),
                           ",\"http\":", Quoted(http), "}\n")));
    UOPD_TRY(out.Keep());
    if (!out.is_stream()) path_ = path;
    return absl::OkStatus();
  };
  if (const absl::Status status = write(); !status.ok()) {
    return absl::UnavailableError(
        Cat("ready file (", path, ") cannot be written: ", StatusText(status)));
  }
  return absl::OkStatus();
}

void ReadyFile::Remove() {
  if (!path_.empty()) RemoveAt(path_);
  path_.clear();
}

void ReadyFile::RemoveAt(const std::string& path) {
  struct stat facts{};
  if (lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) unlink(path.c_str());
}

}  // namespace uopd
