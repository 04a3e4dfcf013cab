// SPDX-License-Identifier: MIT
// Files from which a failure of ours can be repeated: the graph as text, what it was compiled for, and the error.
//
// Thread-safe. Bounded in number; the same graph and options write the same file. A folder that cannot be written costs the
// file, not the answer.
#pragma once
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::engine {

class ReproducerFolder {
 public:
  static constexpr size_t kMaxFiles = 64;

  // An empty path writes nothing.
  explicit ReproducerFolder(std::string path) : path_(std::move(path)) {}

  // A status that is INTERNAL comes back with the name of the file that was written; others as they are. `graph` is the
  // wire form of the client's graph.
  absl::Status Explain(absl::Status status, std::string_view graph,
                       const std::string& options) UOPD_EXCLUDES(mu_);

 private:
  // The file's path; empty when there is none.
  std::string Write(const absl::Status& status, std::string_view graph,
                    const std::string& options) UOPD_EXCLUDES(mu_);

  const std::string path_;
  Mutex mu_;  // one writer at a time, so that the bound holds
};

}  // namespace uopd::engine
