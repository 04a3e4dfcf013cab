// SPDX-License-Identifier: MIT
// A file that tells whoever started the daemon where it serves. It exists from the end of the start
// until the daemon gives up its addresses.
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

  // Writes the file at `path` atomically: one line of JSON with pid, listen and http.
  absl::Status Write(const std::string& path, const std::string& listen, const std::string& http);
  void Remove();  // no effect if nothing was written
  // Removes the regular file at `path`, and nothing else that may be there.
  static void RemoveAt(const std::string& path);

 private:
  std::string path_;
};

}  // namespace uopd
