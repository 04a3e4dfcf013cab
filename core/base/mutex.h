// SPDX-License-Identifier: MIT
// std::mutex with clang's thread-safety attributes.
//
// std::mutex and not absl::Mutex: the distribution's Abseil is not instrumented, so ThreadSanitizer
// cannot see its locks. Use UOPD_GUARDED_BY on every member that a mutex protects; clang builds
// check it (-Wthread-safety -Werror).
#pragma once
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define UOPD_TSA(x) __attribute__((x))
#else
#define UOPD_TSA(x)
#endif
#define UOPD_GUARDED_BY(m) UOPD_TSA(guarded_by(m))
#define UOPD_REQUIRES(...) UOPD_TSA(requires_capability(__VA_ARGS__))
#define UOPD_EXCLUDES(...) UOPD_TSA(locks_excluded(__VA_ARGS__))
#define UOPD_ACQUIRE(...) UOPD_TSA(acquire_capability(__VA_ARGS__))
#define UOPD_RELEASE(...) UOPD_TSA(release_capability(__VA_ARGS__))

namespace uopd {

class UOPD_TSA(capability("mutex")) Mutex {
 public:
  void Lock() UOPD_ACQUIRE() { mu_.lock(); }
  void Unlock() UOPD_RELEASE() { mu_.unlock(); }
  std::mutex& native() { return mu_; }

 private:
  std::mutex mu_;
};

class UOPD_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) UOPD_ACQUIRE(mu) : lock_(mu.native()) {}
  ~MutexLock() UOPD_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Waits on cv until pred() holds; the mutex is held when pred runs and when Wait returns.
  template <class Pred>
  void Wait(std::condition_variable& cv, Pred pred) {
    cv.wait(lock_, pred);
  }
  // As Wait, but gives up at `deadline` (a std::chrono time point); returns pred()'s last value.
  template <class TimePoint, class Pred>
  bool WaitUntil(std::condition_variable& cv, TimePoint deadline, Pred pred) {
    return cv.wait_until(lock_, deadline, pred);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace uopd
