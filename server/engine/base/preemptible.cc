// SPDX-License-Identifier: MIT
#include "server/engine/base/preemptible.h"

#include <future>
#include <utility>

namespace uopd::engine {

Preemptible::Then::~Then() {
  if (call) call();
}

Preemptible::~Preemptible() {
  if (preempted_->load(std::memory_order_relaxed)) ends_->fetch_add(1, std::memory_order_release);
}

bool Preemptible::Begin() {
  MutexLock lock(mu_);
  begun_ = !preempted_->load(std::memory_order_relaxed);
  return begun_;
}

void Preemptible::Preempt() {
  MutexLock lock(mu_);
  preempted_->store(true, std::memory_order_relaxed);
}

bool Preemptible::Keep(const std::shared_ptr<Then>& then) {
  MutexLock lock(mu_);
  if (!begun_ || !preempted_->load(std::memory_order_relaxed)) return false;
  then_.push_back(then);
  return true;
}

bool Preemptible::IsLeaving() {
  MutexLock lock(mu_);
  return begun_ && preempted_->load(std::memory_order_relaxed);
}

std::shared_ptr<Preemptible> PreemptibleTable::New(int64_t bytes) {
  std::shared_ptr<Preemptible> out(new Preemptible(ends_, bytes));
  MutexLock lock(mu_);
  std::erase_if(all_, [](const std::weak_ptr<Preemptible>& work) { return work.expired(); });
  all_.push_back(out);
  return out;
}

std::vector<std::shared_ptr<Preemptible>> PreemptibleTable::All() {
  std::vector<std::shared_ptr<Preemptible>> out;
  MutexLock lock(mu_);
  for (const auto& work : all_) {
    if (auto held = work.lock()) out.push_back(std::move(held));
  }
  return out;
}

int64_t PreemptibleTable::leaving_bytes() {
  int64_t out = 0;
  for (const auto& work : All()) out += work->IsLeaving() ? work->bytes_ : 0;
  return out;
}

bool PreemptibleTable::AfterPreempted(absl::AnyInvocable<void()> then) {
  const auto all = All();  // perhaps destroyed here, without the lock
  const auto last = std::make_shared<Preemptible::Then>();
  bool any = false;
  for (const auto& work : all) any |= work->Keep(last);
  if (any) last->call = std::move(then);
  return any;
}

bool PreemptibleTable::AwaitPreempted(std::chrono::milliseconds limit) {
  const auto ended = std::make_shared<std::promise<void>>();
  if (!AfterPreempted([ended] { ended->set_value(); })) return false;
  ended->get_future().wait_for(limit);
  return true;
}

}  // namespace uopd::engine
