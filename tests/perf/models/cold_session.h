// SPDX-License-Identifier: MIT
// A daemon of its own for one measurement of what an unseen graph costs (cold_perf.cc,
// cold_gpu_perf.cc).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/net/session.h"
#include "tests/perf/models/recorder.h"
#include "tests/perf/models/subjects.h"
#include "tests/support/daemon.h"

namespace uopd::perf {

// A daemon in `folder` with one client and a model whose weights have no values yet.
struct ColdSession {
  static absl::StatusOr<std::unique_ptr<ColdSession>> Open(const std::string& daemon,
                                                           const std::string& folder,
                                                           const std::string& subject,
                                                           std::vector<std::string> flags);
  // The graph of a step whose tensors have memory, as that of every run: a step assigns to that
  // memory in place. Starts a daemon of its own for it.
  static absl::StatusOr<std::string> GraphOfRuns(const std::string& daemon,
                                                 const std::string& subject);
  absl::StatusOr<v1::PrepareResponse> Prepare();
  // Waits until no kernel of the prepared program is a draft.
  absl::Status AwaitOptimised();
  // Ends the daemon so that its cache is complete.
  absl::Status Stop();

  std::unique_ptr<test::Daemon> daemon;
  std::shared_ptr<Recorder> recorder;
  std::unique_ptr<client::Client> client;
  std::unique_ptr<Subject> subject;
  // What Prepare sends. If it is empty, Prepare takes the graph of a first step, whose tensors have
  // no memory.
  std::string graph;
};

// A folder that is removed with the object.
class ColdFolder {
 public:
  ColdFolder();
  ~ColdFolder();
  ColdFolder(const ColdFolder&) = delete;
  ColdFolder& operator=(const ColdFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace uopd::perf
