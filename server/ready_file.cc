// SPDX-License-Identifier: MIT
#include "server/ready_file.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

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
  const std::string temporary = Cat(path, ".", getpid());
  std::ofstream out(temporary, std::ios::trunc);
  out << "{\"pid\":" << getpid() << ",\"listen\":" << Quoted(listen) << ",\"http\":" << Quoted(http)
      << "}\n";
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return absl::UnavailableError(Cat("ready file (", path, ") cannot be written"));
  }
  path_ = path;
  return absl::OkStatus();
}

void ReadyFile::Remove() {
  if (!path_.empty()) std::remove(path_.c_str());
  path_.clear();
}

}  // namespace uopd
