// SPDX-License-Identifier: MIT
// The file that says where the daemon serves, for whoever started it. Exists from the end of the
// start until the addresses are given up.
#pragma once
#include <string>

#include "core/base/status.h"

namespace uopd {

class ReadyFile {
 public:
  ReadyFile() = default;
  ~ReadyFile() { Remove(); }
  ReadyFile(const ReadyFile&) = delete;
  ReadyFile& operator=(const ReadyFile&) = delete;

  // Appears whole at `path`: one line of JSON with pid, listen, http.
  absl::Status Write(const std::string& path, const std::string& listen, const std::string& http);
  void Remove();  // no effect where nothing was written

 private:
  std::string path_;
};

}  // namespace uopd
