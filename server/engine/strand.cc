// SPDX-License-Identifier: MIT
#include "server/engine/strand.h"

namespace uopd::engine {

void Strand::Turn::End() {
  if (strand_ == nullptr) return;
  admission_.Leave();
  std::exchange(strand_, nullptr)->Leave();
}

bool Strand::TryEnter() {
  MutexLock lock(mu_);
  if (busy_) return false;
  return busy_ = true;
}

void Strand::Leave() {
  Caller next;
  {
    MutexLock lock(mu_);
    if (tasks_.empty()) {
      busy_ = false;
      return;
    }
    next = tasks_.front().admission.caller();
  }
  PostTurn(next);
}

void Strand::Post(Admission admission, HeldTask task) {
  const Caller caller = admission.caller();
  {
    MutexLock lock(mu_);
    tasks_.push_back({std::move(task), std::move(admission)});
    if (busy_) return;
    busy_ = true;
  }
  PostTurn(caller);
}

absl::Status Strand::Post(const Caller& caller, Executor::Task task) {
  UOPD_ASSIGN(Admission admission, executor_.Admit(caller));
  Post(std::move(admission), [task = std::move(task)](const Turn&) mutable {
    task();
    task = nullptr;  // what it holds goes before the next one starts
  });
  return absl::OkStatus();
}

void Strand::PostTurn(const Caller& caller) {
  executor_.Post(caller, [self = shared_from_this()] { self->RunOne(); });
}

void Strand::RunOne() {
  Waiting next;
  {
    MutexLock lock(mu_);
    next = std::move(tasks_.front());
    tasks_.pop_front();
  }
  next.task(Turn(shared_from_this(), std::move(next.admission)));
}

}  // namespace uopd::engine
