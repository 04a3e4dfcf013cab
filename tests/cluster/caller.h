// SPDX-License-Identifier: MIT
// Caller: one client of one daemon, with a connection and a session of its own.
#pragma once
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "tests/cluster/work.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::cluster {

class Caller {
 public:
  explicit Caller(const std::string& address);

  struct Answer {
    bool tuned = false;
    double seconds = 0;  // of the call
  };
  // Sends the whole graph. DATA_LOSS: a wrong answer. `beam` 0: no tuning.
  absl::StatusOr<Answer> Run(const Work& work, uint32_t beam);
  // Executes a graph that the daemon knows by its digest.
  absl::StatusOr<Answer> Execute(const Work& work, const std::string& digest);
  // The digest.
  absl::StatusOr<v1::PrepareResponse> Prepare(const std::string& graph);

 private:
  absl::Status Open();

  std::unique_ptr<v1::UopdService::Stub> stub_;
  std::string session_;
};

// Jobs in quarantine that a daemon knows, with the reason of each, by their ids.
absl::StatusOr<std::map<std::string, std::string>> QuarantineOf(const std::string& address);

absl::StatusOr<int64_t> RowsOf(const std::string& address, const std::string& store);

}  // namespace uopd::cluster
