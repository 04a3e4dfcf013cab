// SPDX-License-Identifier: MIT
// Files from which a failure of ours can be repeated (uopctl replay): the graph as text, what it
// was compiled for, and the error.
//
//   ; compiler fails on kernel r_3_4: job killed its worker (SIGSEGV)
//   ; options: noopt=0 fast_math=0 beam=0 ignore_beam_cache=0 cache_level=2
//   ; devices: CPU
//   %0 = ...
//
// Thread-safe. Bounded in number and in bytes: the oldest files make room. The same graph and
// options write the same file. A folder that cannot be written costs the file, not the answer.
#pragma once
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/engine/compile/pipeline.h"

namespace uopd::engine {

// What the comments of a file say.
struct ReproducerHead {
  CompileOptions options;
  std::string devices;  // as setting device.list
};
// FAILED_PRECONDITION for a text that is no reproducer.
absl::StatusOr<ReproducerHead> ReadReproducerHead(std::string_view text);

class ReproducerFolder {
 public:
  struct Limits {
    size_t files = 64;
    size_t bytes = 64 << 20;       // of all files together
    size_t graph_bytes = 4 << 20;  // on the wire; a larger graph is not written
  };

  // An empty path writes nothing. `devices` is the setting device.list.
  ReproducerFolder(std::string path, std::string devices, Limits limits)
      : path_(std::move(path)), devices_(std::move(devices)), limits_(limits) {}
  ReproducerFolder(std::string path, std::string devices)
      : ReproducerFolder(std::move(path), std::move(devices), Limits()) {}

  // A status that is INTERNAL comes back with the name of the file that was written; others as they
  // are. `graph` is the wire form of the client's graph.
  absl::Status Explain(absl::Status status, std::string_view graph, const CompileOptions& options)
      UOPD_EXCLUDES(mu_);

 private:
  // The file's path; empty when there is none.
  std::string Write(const absl::Status& status, std::string_view graph,
                    const CompileOptions& options) UOPD_EXCLUDES(mu_);
  // Removes the oldest files until one of `bytes` fits. False when it never does.
  bool MakeRoom(size_t bytes) UOPD_REQUIRES(mu_);

  const std::string path_, devices_;
  const Limits limits_;
  Mutex mu_;  // one writer at a time, so that the bounds hold
};

}  // namespace uopd::engine
