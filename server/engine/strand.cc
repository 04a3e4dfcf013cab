// SPDX-License-Identifier: MIT
#include "server/engine/strand.h"

namespace uopd::engine {

bool Strand::TryEnter() {
  MutexLock lock(mu_);
  if (busy_) return false;
  return busy_ = true;
}

void Strand::Leave() {
  {
    MutexLock lock(mu_);
    if (tasks_.empty()) {
      busy_ = false;
      return;
    }
  }
  PostTurn();
}

absl::Status Strand::Post(Executor::Task task) {
  UOPD_TRY(executor_.Admit());
  {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
    if (busy_) return absl::OkStatus();
    busy_ = true;
  }
  PostTurn();
  return absl::OkStatus();
}

void Strand::PostTurn() {
  executor_.Post([self = shared_from_this()] { self->RunOne(); });
}

void Strand::RunOne() {
  Executor::Task task;
  {
    MutexLock lock(mu_);
    task = std::move(tasks_.front());
    tasks_.pop_front();
  }
  task();
  task = nullptr;  // what it holds goes before the next one starts
  executor_.Leave();
  Leave();
}

}  // namespace uopd::engine
