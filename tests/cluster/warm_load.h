// SPDX-License-Identifier: MIT
// WarmLoad: clients that execute a program which every daemon knows, again and again, while other
// things happen.
#pragma once
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "tests/cluster/work.h"

namespace uopd::cluster {

class WarmLoad {
 public:
  // `clients` spread over the daemons at `addresses`. A client whose daemon is gone goes to the
  // next one; that is no error of the daemons that live. Every other failure, and every wrong
  // answer, is one.
  WarmLoad(std::vector<std::string> addresses, int clients);
  ~WarmLoad() { Stop(); }

  void Stop();
  // What each call until now took.
  std::vector<double> seconds() UOPD_EXCLUDES(mu_);
  int64_t moved() const { return moved_; }
  // What went wrong, the first few.
  std::vector<std::string> errors() UOPD_EXCLUDES(mu_);

 private:
  void Client(size_t daemon);

  const std::vector<std::string> addresses_;
  const Work work_;
  std::atomic<bool> over_{false};
  std::atomic<int64_t> moved_{0};
  Mutex mu_;
  std::vector<double> seconds_ UOPD_GUARDED_BY(mu_);
  std::vector<std::string> errors_ UOPD_GUARDED_BY(mu_);
  std::vector<std::jthread> threads_;
};

}  // namespace uopd::cluster
