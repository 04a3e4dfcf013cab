// SPDX-License-Identifier: MIT
#include "native/tune_watch.h"

#include <chrono>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "client/cpp/net/session.h"
#include "client/cpp/net/tune_points.h"
#include "native/registry.h"

namespace uopd::python {
namespace {

using std::chrono::steady_clock;

// With a daemon that does not answer.
constexpr std::chrono::seconds kPatience{120}, kPause{1};

// Those that may have a thread, under the lock of the process.
std::set<TuneWatch*>& AllWatches() {
  static auto* const all = new std::set<TuneWatch*>;
  return *all;
}

}  // namespace

void PauseWatches() {
  for (TuneWatch* watch : AllWatches()) watch->Stop();
}
void ContinueWatches() {
  for (TuneWatch* watch : AllWatches()) watch->Start();
}
void ForgetWatches() { AllWatches().clear(); }
void CloseWatches() {
  while (!AllWatches().empty()) (*AllWatches().begin())->Close();
}

TuneWatch::TuneWatch(std::shared_ptr<Box> box, std::string id)
    : box_(std::move(box)), id_(std::move(id)) {
  AllWatches().insert(this);
  Start();
}

TuneWatch::~TuneWatch() {
  if (epoch_ == Epoch())
    Close();
  else
    Abandon(box_);  // the connection is the parent's, and so was the thread
}

void TuneWatch::Close() {
  Stop();
  AllWatches().erase(this);
  box_.reset();
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void TuneWatch::Start() {
  const std::scoped_lock lock(mutex_);
  if (ended_ || reader_.joinable()) return;
  stopping_ = false;
  reader_ = std::thread([this] { Read(); });
}

void TuneWatch::Stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.notify_all();
  }
  if (reader_.joinable()) reader_.join();
}

void TuneWatch::Read() {
  auto answered = steady_clock::now();
  for (;;) {
    grpc::ClientContext call;
    v1::WatchTuneRequest request;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return;
      request.set_id(id_);
      call_ = &call;
    }
    bool first = true;
    const absl::Status status = box_->connection->session().WatchTune(
        call, request, [&](const v1::WatchTuneResponse& message) {
          answered = steady_clock::now();
          Add(message, std::exchange(first, false));
          return absl::OkStatus();
        });
    std::unique_lock lock(mutex_);
    call_ = nullptr;
    if (stopping_) return;
    if (!absl::IsUnavailable(status) || steady_clock::now() - answered > kPatience) {
      ended_ = true;
      end_ = status;
      changed_.notify_all();
      return;
    }
    changed_.wait_for(lock, kPause, [this] { return stopping_; });
  }
}

void TuneWatch::Add(const v1::WatchTuneResponse& message, bool first) {
  const std::scoped_lock lock(mutex_);
  if (first || message.kernels_replaced()) {
    kernels_.clear();
    changed_kernels_.clear();
    replaced_ = true;
  }
  tune_ = message.tune();
  id_ = message.tune().id();  // a longer id may be added that begins as the client's does
  for (const v1::TunedKernel& kernel : message.kernels()) {
    if (kernel.number() >= kMaxKernels) continue;
    client::UpdateKernel(kernels_[kernel.number()], kernel);
    changed_kernels_.insert(kernel.number());
  }
  ready_ |= !message.more();
  if (ready_) changed_.notify_all();
}

bool TuneWatch::WaitFor(absl::Duration time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, absl::ToChronoMilliseconds(time),
                           [this] { return ready_ || ended_; });
}

TuneWatch::Taken TuneWatch::Take() {
  const std::scoped_lock lock(mutex_);
  if (!ready_) return {.end = end_, .news = std::nullopt};
  ready_ = false;
  News news{.tune = tune_, .kernels = {}, .replaced = std::exchange(replaced_, false)};
  for (const uint32_t number : std::exchange(changed_kernels_, {}))
    news.kernels.push_back(kernels_[number]);
  return {.end = absl::OkStatus(), .news = std::move(news)};
}

}  // namespace uopd::python
