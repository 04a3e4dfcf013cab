// SPDX-License-Identifier: MIT
#include "server/engine/base/strand.h"

#include <algorithm>
#include <optional>

#include "server/engine/base/request_context.h"

namespace uopd::engine {

void Strand::Turn::End() {
  admission_.Leave();
  if (strand_ != nullptr) std::exchange(strand_, nullptr)->Leave();
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

void Strand::Post(Admission admission, const RequestContext& request, HeldTask task) {
  const Caller caller = admission.caller();
  std::optional<Waiting> refused = Waiting{std::move(task), std::move(admission)};
  refused->cancellation = request.cancellation;
  {
    MutexLock lock(mu_);
    const uint64_t id = refused->id = ++next_id_;
    bool waits = true;
    if (refused->cancellation != nullptr) {
      absl::AnyInvocable<void()> watcher = [self = shared_from_this(), id] { self->Withdraw(id); };
      waits = refused->cancellation->TryWatch(watcher);
    }
    if (waits) {
      tasks_.push_back(std::move(*refused));
      refused.reset();
      if (busy_) return;
      busy_ = true;
    }
  }
  if (!refused) return PostTurn(caller);
  refused->task(Turn(nullptr, std::move(refused->admission)));
}

absl::Status Strand::Post(const RequestContext& request, TaskPool::Task task) {
  UOPD_ASSIGN(Admission admission, task_pool_.Admit(request.caller));
  Post(std::move(admission), request, [task = std::move(task)](const Turn&) mutable {
    task();
    task = nullptr;  // destroys what the task holds before the next task starts
  });
  return absl::OkStatus();
}

void Strand::PostTurn(const Caller& caller) {
  task_pool_.Post(caller, [self = shared_from_this()] { self->RunOne(); });
}

void Strand::Withdraw(uint64_t id) {
  Waiting withdrawn;
  {
    MutexLock lock(mu_);
    const auto it = std::find_if(tasks_.begin(), tasks_.end(),
                                 [id](const Waiting& waiting) { return waiting.id == id; });
    if (it == tasks_.end()) return;
    withdrawn = std::move(*it);
    tasks_.erase(it);
  }
  withdrawn.task(Turn(nullptr, std::move(withdrawn.admission)));
}

void Strand::RunOne() {
  Waiting next;
  {
    MutexLock lock(mu_);
    if (tasks_.empty()) {  // the task that asked for this turn was withdrawn
      busy_ = false;
      return;
    }
    next = std::move(tasks_.front());
    tasks_.pop_front();
  }
  if (next.cancellation != nullptr) next.cancellation->Unwatch();
  next.task(Turn(shared_from_this(), std::move(next.admission)));
}

}  // namespace uopd::engine
