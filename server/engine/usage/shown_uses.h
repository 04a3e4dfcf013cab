// SPDX-License-Identifier: MIT
// Metrics by a name that clients decide, such as a kernel or a program.
//
// Only some names have series of their own: at most kShown, those that took most of the time
// lately. The rest counts as "other". A name that gets series starts them at 0, and one that loses
// them goes on in "other". So every series only grows, and the sum of all is what was used.
//
// Thread-safe. Adding to a Use takes no lock. The metrics change in Publish only.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "core/base/mutex.h"

namespace uopd::engine {

// Use: what one name used since the last Publish. It has
//   Name                       the type of a name; ordered
//   static Name Other(name)    the name under which `name` counts while it is not shown
//   int64_t Publish(name)      moves what was added into the series of `name`; returns the
//                              nanoseconds among it
//   static void Show(name)     makes the series of `name`, at 0: of a series that begins with a
//                              value, Prometheus does not see the increase
//   static void Forget(name)   removes the series of `name`
template <class Use>
class ShownUses {
 public:
  using Clock = std::chrono::steady_clock;
  using Name = typename Use::Name;
  static constexpr size_t kShown = 40;
  static constexpr size_t kKnown = 4096;  // names that are counted apart
  static constexpr std::chrono::minutes kHalfLife{10};
  // Every name that gets series is a new one for Prometheus, so the names change slowly.
  static constexpr std::chrono::minutes kBetweenChanges{1};

  // The use of this name. If kKnown names are in use, all further ones are one.
  std::shared_ptr<Use> Get(const Name& name) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (const auto it = uses_.find(name); it != uses_.end()) return it->second.use;
    if (uses_.size() >= kKnown) DropUnused();
    Entry& entry = uses_[uses_.size() < kKnown ? name : Use::Other(name)];
    if (entry.use == nullptr) {
      Use::Show(Use::Other(name));  // it counts there until it is shown
      entry.use = std::make_shared<Use>();
    }
    return entry.use;
  }

  // Moves what was added into the metrics, and chooses the names that are shown.
  void Publish(Clock::time_point now = Clock::now()) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    const double halves = std::chrono::duration<double>(now - published_) / kHalfLife;
    const double left = std::exp2(-std::max(halves, 0.0));
    published_ = now;
    for (auto& [name, entry] : uses_) {
      entry.recent_ns *= left;
      Move(name, entry);
    }
    Choose(now);
  }

 private:
  // A name takes the place of another one if it used this many times as much.
  static constexpr double kClearlyMore = 1.5;

  struct Entry {
    std::shared_ptr<Use> use;
    double recent_ns = 0;  // falls by half in kHalfLife
    bool shown = false;
  };
  using Uses = std::map<Name, Entry>;

  static void Move(const Name& name, Entry& entry) {
    const int64_t ns = entry.use->Publish(entry.shown ? name : Use::Other(name));
    entry.recent_ns += static_cast<double>(ns);
  }

  // Forgets names that nobody holds any more.
  void DropUnused() UOPD_REQUIRES(mu_) {
    for (auto it = uses_.begin(); it != uses_.end();) {
      // Only this map has the use, so nobody adds to it.
      const bool unused = it->second.use.use_count() == 1 && !it->second.shown;
      if (unused) Move(it->first, it->second);
      it = unused ? uses_.erase(it) : std::next(it);
    }
  }

  void Choose(Clock::time_point now) UOPD_REQUIRES(mu_) {
    while (true) {
      typename Uses::value_type* most = nullptr;   // of those not shown
      typename Uses::value_type* least = nullptr;  // of those shown
      for (auto& one : uses_) {
        const Entry& entry = one.second;
        if (entry.shown) {
          if (least == nullptr || entry.recent_ns < least->second.recent_ns) least = &one;
        } else if (entry.recent_ns > 0 && one.first != Use::Other(one.first)) {
          if (most == nullptr || entry.recent_ns > most->second.recent_ns) most = &one;
        }
      }
      if (most == nullptr) return;
      if (shown_ < kShown) {
        Use::Show(most->first);
        most->second.shown = true;
        ++shown_;
        continue;
      }
      const bool soon = changed_ != Clock::time_point::min() && now < changed_ + kBetweenChanges;
      const double needed = kClearlyMore * least->second.recent_ns;
      if (soon || most->second.recent_ns <= needed) return;
      changed_ = now;
      Use::Forget(least->first);
      Use::Show(most->first);
      least->second.shown = false;
      most->second.shown = true;
    }
  }

  Mutex mu_;
  Uses uses_ UOPD_GUARDED_BY(mu_);
  size_t shown_ UOPD_GUARDED_BY(mu_) = 0;
  Clock::time_point published_ UOPD_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point changed_ UOPD_GUARDED_BY(mu_) = Clock::time_point::min();
};

}  // namespace uopd::engine
