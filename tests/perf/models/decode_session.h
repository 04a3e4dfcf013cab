// SPDX-License-Identifier: MIT
// A daemon and a client that runs decode steps of Llama-3.2-1B's shape on it, with the weights
// filled and one step done.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/perf/models/subjects.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"

namespace uopd::perf {

// One thread. Members are destroyed in reverse order: the daemon ends last.
struct DecodeSession {
  // Starts a daemon with these flags, unless the options have an address.
  static absl::StatusOr<std::unique_ptr<DecodeSession>> Start(
      const Options& options, const std::vector<std::string>& flags);

  // INTERNAL if the token is another one than that of the first step: the position is the same,
  // over caches that a step writes the same values to.
  absl::Status CheckToken(const std::string& token) const;

  std::unique_ptr<test::Daemon> daemon;
  std::optional<client::Client> client;
  std::unique_ptr<Subject> subject;
  std::string first;
};

}  // namespace uopd::perf
