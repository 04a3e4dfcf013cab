// SPDX-License-Identifier: MIT
// Files that reproduce an internal failure (uopctl replay). A file has the graph as text, what the
// graph was compiled for, and the error.
//
//   ; compiler fails on kernel r_3_4: job killed its worker (SIGSEGV)
//   ; options: noopt=0 fast_math=0 beam=0 ignore_beam_cache=0 cache_level=2
//   ; devices: CPU
//   %0 = ...
//
// Thread-safe. The number and the bytes of the files are bounded; the oldest files are removed for
// new ones. The same graph and options write the same file. If the folder cannot be written, only
// the file is missing; the answer is the same.
#pragma once
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/engine/compile/source/graph_compiler.h"

namespace uopd::engine {

// The contents of a file's comments.
struct ReproducerHead {
  CompileOptions options;
  std::string devices;  // as in the setting device.list
};
// FAILED_PRECONDITION: the text is not a reproducer.
absl::StatusOr<ReproducerHead> ReadReproducerHead(std::string_view text);

class ReproducerFolder {
 public:
  struct Limits {
    size_t files = 64;
    size_t bytes = 64 << 20;       // of all files together
    size_t graph_bytes = 4 << 20;  // on the wire; a larger graph is not written
  };

  // An empty path writes no files. `devices` are the names of the devices, separated by commas.
  ReproducerFolder(std::string path, std::string devices, Limits limits)
      : path_(std::move(path)), devices_(std::move(devices)), limits_(limits) {}
  ReproducerFolder(std::string path, std::string devices)
      : ReproducerFolder(std::move(path), std::move(devices), Limits()) {}

  // Writes a file for an INTERNAL status and returns the status with the file's name added. Returns
  // other statuses unchanged. `graph` is the wire form of the client's graph.
  absl::Status Explain(absl::Status status, std::string_view graph, const CompileOptions& options)
      UOPD_EXCLUDES(mu_);

 private:
  // Returns the file's path; empty if no file was written.
  std::string Write(const absl::Status& status, std::string_view graph,
                    const CompileOptions& options) UOPD_EXCLUDES(mu_);
  // Removes the oldest files until a file of `bytes` fits. False: it can never fit.
  bool MakeRoom(size_t bytes) UOPD_REQUIRES(mu_);

  const std::string path_, devices_;
  const Limits limits_;
  Mutex mu_;  // one writer at a time, so that the bounds hold
};

}  // namespace uopd::engine
