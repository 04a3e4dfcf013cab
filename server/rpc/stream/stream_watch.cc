// SPDX-License-Identifier: MIT
#include "server/rpc/stream/stream_watch.h"

#include <utility>
#include <vector>

#include "core/base/telemetry/trace.h"

namespace uopd::rpc {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

}  // namespace

StreamWatch::StreamWatch(std::function<WatchLimits()> limits)
    : limits_(std::move(limits)), thread_([this] { Run(); }) {}

StreamWatch::~StreamWatch() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StreamWatch::Add(const std::shared_ptr<WatchedStream>& stream) {
  {
    MutexLock lock(mu_);
    streams_.emplace(stream.get(), stream);
    if (!std::exchange(parked_, false)) return;
  }
  changed_.notify_all();
}

void StreamWatch::Remove(const WatchedStream* stream) {
  MutexLock lock(mu_);
  streams_.erase(stream);
  // The stream's RPC may be destroyed when this function returns, so wait for EndIfIdle. The
  // watch's own thread does not wait for itself.
  if (std::this_thread::get_id() == thread_.get_id()) return;
  lock.Wait(changed_, [&]() UOPD_REQUIRES(mu_) { return looked_at_ != stream; });
}

void StreamWatch::LookAt(WatchedStream& stream, int64_t now_ns, const WatchLimits& limits) {
  {
    MutexLock lock(mu_);
    if (!streams_.contains(&stream)) return;
    looked_at_ = &stream;
  }
  stream.EndIfIdle(now_ns, limits);
  {
    MutexLock lock(mu_);
    looked_at_ = nullptr;
  }
  changed_.notify_all();
}

void StreamWatch::Run() {
  std::vector<std::shared_ptr<WatchedStream>> alive;
  for (;;) {
    {
      MutexLock lock(mu_);
      if (streams_.empty()) {
        parked_ = true;
        lock.Wait(changed_, [this]() UOPD_REQUIRES(mu_) { return stop_ || !parked_; });
      }
      const auto until = std::chrono::steady_clock::now() + kInterval;
      if (lock.WaitUntil(changed_, until, [this]() UOPD_REQUIRES(mu_) { return stop_; })) return;
      for (const auto& [key, stream] : streams_) {
        if (auto held = stream.lock()) alive.push_back(std::move(held));
      }
    }
    const WatchLimits limits = limits_();
    const int64_t now = NowNs();
    for (const auto& stream : alive) LookAt(*stream, now, limits);
    alive.clear();  // without the lock, which the end of a stream takes
  }
}

}  // namespace uopd::rpc
