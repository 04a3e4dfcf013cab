// SPDX-License-Identifier: MIT
// AnswerReactor: the reactor of a unary call. It holds the charges for the call's messages until
// the client has the answer.
//
// gRPC keeps an answer until the client takes it, and a client may take as long as it likes. So a
// large answer is counted among those that its client has not read (UnreadAnswers), and a watch
// ends the call of a client that reads less than kBytesInTime in limits.stream_idle_ms, as it does
// for the pieces of a download.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "server/rpc/call/call_scope.h"
#include "server/rpc/stream/stream_watch.h"

namespace uopd::rpc {

// What the daemon holds for an answer that its client has not read: the message, and the bytes that
// gRPC makes of it.
inline int64_t HeldFor(const google::protobuf::Message& answer) {
  return BytesOf(answer) + static_cast<int64_t>(answer.ByteSizeLong());
}

// Ends a call whose client takes too long for its answer.
class WatchedAnswer final : public WatchedStream {
 public:
  static constexpr int64_t kBytesInTime = 1 << 20;

  WatchedAnswer(grpc::CallbackServerContext& context, int64_t bytes)
      : context_(context), times_(1 + bytes / kBytesInTime) {
    wait_.Begin(NowNs());
  }
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - times_ * IdleLimitNs(limits, WaitFor::kRoom))) context_.TryCancel();
  }

 private:
  grpc::CallbackServerContext& context_;
  const int64_t times_;
  ClientWait wait_;
};

// Deletes itself in OnDone.
class AnswerReactor final : public grpc::ServerUnaryReactor {
 public:
  // The reactor of a call that does not wait for others: the thread that received the call answers
  // it, or a thread of the task pool does soon after.
  explicit AnswerReactor(StreamWatch& watch) : watch_(watch) {}
  // The reactor of a call that may wait for others. `cancellation` ends the call when its client
  // leaves.
  AnswerReactor(StreamWatch& watch, std::shared_ptr<engine::Cancellation> cancellation,
                engine::Charge request)
      : watch_(watch), cancellation_(std::move(cancellation)), request_(std::move(request)) {}

  // The answer is complete. RESOURCE_EXHAUSTED: its client has left too many unread, so it does not
  // get this one. Called once, before Finish.
  absl::Status Hold(engine::Engine& engine, grpc::CallbackServerContext& context,
                    std::string_view session, engine::Caller& caller,
                    const google::protobuf::Message& answer) {
    if (cancellation_ == nullptr && answer.ByteSizeLong() < engine::UnreadAnswers::kLeast)
      return absl::OkStatus();
    const int64_t bytes = HeldFor(answer);
    if (bytes >= engine::UnreadAnswers::kLeast) {
      if (caller.peer.empty()) NameCaller(context, session, caller);
      UOPD_ASSIGN(unread_, engine.clients().unread.Hold(caller, bytes));
      watched_ = std::make_shared<WatchedAnswer>(context, bytes);
      watch_.Add(watched_);
    }
    answer_ = engine::Charge::Always(engine.clients().bytes, bytes, engine::ByteClass::kAnswers);
    return absl::OkStatus();
  }

  void OnCancel() override {
    if (cancellation_ != nullptr) cancellation_->Cancel();
  }
  void OnDone() override {
    if (watched_ != nullptr) watch_.Remove(watched_.get());
    delete this;
  }

 private:
  // A call that does not wait is over in microseconds; gRPC need not take another thread to say so.
  bool InternalInlineable() override { return cancellation_ == nullptr; }

  StreamWatch& watch_;
  const std::shared_ptr<engine::Cancellation> cancellation_;  // null: the call does not wait
  const engine::Charge request_;
  engine::Charge answer_;
  engine::UnreadAnswers::Held unread_;
  std::shared_ptr<WatchedAnswer> watched_;  // null: the answer is small
};

}  // namespace uopd::rpc
