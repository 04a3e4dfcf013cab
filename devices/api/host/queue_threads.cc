// SPDX-License-Identifier: MIT
#include "devices/api/host/queue_threads.h"

#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "core/base/mutex.h"

namespace uopd::devices {
namespace {

class QueueThreads {
 public:
  void Run(std::function<void()> task) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
    if (tasks_.size() <= idle_) {
      wake_.notify_one();
    } else {
      std::thread([this] { Work(); }).detach();
    }
  }

 private:
  [[noreturn]] void Work() UOPD_EXCLUDES(mu_) {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mu_);
        ++idle_;
        lock.Wait(wake_, [this]() UOPD_REQUIRES(mu_) { return !tasks_.empty(); });
        --idle_;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  Mutex mu_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_ UOPD_GUARDED_BY(mu_);
  size_t idle_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace

void RunOnQueueThread(std::function<void()> task) {
  static auto* const threads = new QueueThreads;  // never destroyed: its threads never end
  threads->Run(std::move(task));
}

}  // namespace uopd::devices
