// SPDX-License-Identifier: MIT
// StreamReactor: what all streaming calls have in common. A stream
//
//   (1) owns itself from Start to OnDone, and whoever works for it holds it, too;
//   (2) begins once it is admitted, and ends once, with the status that its scope counts;
//   (3) is cancelled when its client leaves, or, between two messages, when its token is revoked;
//   (4) says when it waits for its client, so that the watch can end it (stream_watch.h).
//
// A stream that sends messages also holds the memory of each (SentMemory).
//
// `Reactor` is one of gRPC. gRPC calls it with one event of a kind at a time.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "server/engine/base/shutting_down.h"
#include "server/rpc/call/answer_reactor.h"
#include "server/rpc/call/call_scope.h"
#include "server/rpc/call/request_record.h"
#include "server/rpc/stream/stream_watch.h"

namespace uopd::rpc {

template <class Reactor>
class StreamReactor : public Reactor,
                      public WatchedStream,
                      public std::enable_shared_from_this<StreamReactor<Reactor>> {
 public:
  // Makes a Stream with these arguments and starts it. The result is alive at least until gRPC has
  // called OnDone.
  template <class Stream, class... Args>
  static Stream* Start(Args&&... args) {
    auto stream = std::make_shared<Stream>(std::forward<Args>(args)...);
    stream->Run();
    return stream.get();
  }

  void OnCancel() override {
    const auto alive = this->shared_from_this();
    cancellation_->Cancel();
    Cancelled();
  }
  void OnDone() final {
    watch_.Remove(this);
    self_ = nullptr;  // *this may be gone
  }
  void EndIfIdle(int64_t now_ns, const WatchLimits& limits) override {
    if (wait_.Overdue(now_ns - IdleLimitNs(limits, WaitFor::kRoom)) || !scope_.CheckToken().ok())
      context_.TryCancel();
  }

 protected:
  StreamReactor(engine::Engine& engine, StreamWatch& watch, grpc::CallbackServerContext& context,
                Method method)
      : engine_(engine), watch_(watch), context_(context), scope_(engine, context, method) {
    scope_.request().EndWith(cancellation_);
  }

  // The call is admitted. An error ends the stream.
  virtual absl::Status Begin() = 0;
  // The client has left. What gRPC does for the stream then fails, and that ends it. A stream that
  // may have nothing to do with gRPC for a while ends itself here.
  virtual void Cancelled() {}
  // Lets go of what the stream holds for others, before the client hears the status.
  virtual void LetGo() {}

  // Why a message did not reach the client. gRPC does not say it.
  absl::Status WriteFailed() const {
    if (engine_.gate().draining()) return engine::ShuttingDown();
    return absl::CancelledError("client does not read any more");
  }

  // Keeps the stream alive for a task that works for it. `self` is this object.
  template <class Stream>
  std::shared_ptr<Stream> Alive(Stream* self) {
    return std::shared_ptr<Stream>(this->shared_from_this(), self);
  }
  void End(const absl::Status& status) { End(status, status); }
  // Ends the stream with `status`, and the daemon counts `counted` (CallScope::End).
  void End(const absl::Status& status, const absl::Status& counted) {
    LetGo();
    this->Finish(scope_.End(status, counted));
  }

  engine::RequestContext& request() { return scope_.request(); }

  // The stream waits for its client from BeginWait to EndWait. EndWait returns false if the watch
  // has ended the stream meanwhile.
  void BeginWait() { wait_.Begin(NowNs()); }
  bool EndWait() { return wait_.End(); }
  // EndWait for streams that carry the data of clients: their waits count as time on the wire.
  bool EndWireWait() {
    int64_t waited_ns = 0;
    const bool goes_on = wait_.End(&waited_ns);
    if (goes_on) RecordWire(request(), waited_ns);
    return goes_on;
  }

  engine::Engine& engine_;
  StreamWatch& watch_;
  grpc::CallbackServerContext& context_;
  CallScope scope_;
  const std::shared_ptr<engine::Cancellation> cancellation_ =
      std::make_shared<engine::Cancellation>();
  ClientWait wait_;

 private:
  void Run() {
    self_ = this->shared_from_this();
    watch_.Add(self_);
    absl::Status status = scope_.admitted();
    if (status.ok()) status = Begin();
    if (!status.ok()) End(status);
  }

  std::shared_ptr<StreamReactor> self_;  // from Start to OnDone
};

// The memory of one message that a stream sends: charged to what clients hold as long as the
// message is there, and counted among what its client has not read until that has it.
struct SentMemory {
  engine::Charge charge;
  engine::UnreadAnswers::Held unread;

  static absl::StatusOr<SentMemory> Of(engine::Engine& engine, const engine::Caller& caller,
                                       const google::protobuf::Message& message) {
    const int64_t bytes = HeldFor(message);
    SentMemory out;
    UOPD_ASSIGN(out.unread, engine.clients().unread.Hold(caller, bytes));
    out.charge = engine::Charge::Always(engine.clients().bytes, bytes, engine::ByteClass::kAnswers);
    return out;
  }
};

}  // namespace uopd::rpc
