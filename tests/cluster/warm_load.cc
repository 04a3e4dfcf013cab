// SPDX-License-Identifier: MIT
#include "tests/cluster/warm_load.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "core/base/status.h"
#include "tests/cluster/caller.h"
#include "tests/e2e/graphs.h"

namespace uopd::cluster {
namespace {

// Between the calls of a client: the machine shall not be full of them.
constexpr std::chrono::milliseconds kThink{20};
constexpr size_t kMostErrors = 20;

Work Sum() {
  return {e2e::AddGraph(3),
          {e2e::Bytes({1, 2, 3}), e2e::Bytes({10, 20, 30})},
          e2e::Bytes({11, 22, 33})};
}

}  // namespace

WarmLoad::WarmLoad(std::vector<std::string> addresses, int clients)
    : addresses_(std::move(addresses)), work_(Sum()) {
  for (int i = 0; i < clients; ++i)
    threads_.emplace_back([this, i] { Client(static_cast<size_t>(i) % addresses_.size()); });
}

void WarmLoad::Stop() {
  over_ = true;
  threads_.clear();
}

void WarmLoad::Client(size_t daemon) {
  std::unique_ptr<Caller> caller;
  std::string digest;
  size_t moves = 0;
  while (!over_) {
    if (caller == nullptr) {
      caller = std::make_unique<Caller>(addresses_[daemon]);
      const auto prepared = caller->Prepare(work_.graph);
      absl::Status status = prepared.status();
      if (status.ok()) {
        digest = prepared->digest();
        status = caller->Execute(work_, digest).status();  // loads the kernel
      }
      if (absl::IsUnavailable(status) && ++moves < addresses_.size()) {
        caller = nullptr;
        daemon = (daemon + 1) % addresses_.size();
        continue;
      }
      if (!status.ok()) {
        const MutexLock lock(mu_);
        if (errors_.size() < kMostErrors) errors_.push_back(StatusText(status));
        return;
      }
    }
    const auto answer = caller->Execute(work_, digest);
    if (absl::IsUnavailable(answer.status())) {
      ++moved_;
      moves = 0;
      caller = nullptr;
      daemon = (daemon + 1) % addresses_.size();
      continue;
    }
    {
      const MutexLock lock(mu_);
      if (answer.ok()) seconds_.push_back(answer->seconds);
      if (!answer.ok() && errors_.size() < kMostErrors)
        errors_.push_back(StatusText(answer.status()));
    }
    std::this_thread::sleep_for(kThink);
  }
}

std::vector<double> WarmLoad::seconds() {
  const MutexLock lock(mu_);
  return seconds_;
}

std::vector<std::string> WarmLoad::errors() {
  const MutexLock lock(mu_);
  return errors_;
}

}  // namespace uopd::cluster
