// SPDX-License-Identifier: MIT
// Pipeline: the calls of one Session on one stream, in order, without waiting for answers.
//
// Calls are kept until they are answered. So they can be sent again, in order:
//   - The daemon does not know the program of an Execute: the call is repeated with its graph.
//   - The transport broke: the session is resumed. The daemon says up to which sequence number it
//     has served calls; uploads up to there are done. Each Execute has a request id, which the
//     daemon runs once.
//   - The daemon is shutting down: the same by another connection, because another daemon may be at
//     the address.
//   - The session is gone, since the daemon was restarted or the lease ran out: another one is
//     opened. Calls that use what was made in an earlier session fail; all others are sent in the
//     new one. What the calls that are sent again make is made there.
//   - A call failed: the daemon runs no later call of the same epoch. Calls that read what the
//     failed call should have made fail with its error, without being sent. All others are sent
//     again under the next epoch.
//
// One thread at a time handles the events of the stream: a thread that waits for a future of the
// pipeline, since that spares a switch between threads, or else the pipeline's own thread. The own
// thread leaves the events alone for kPause after a waiting thread has handled some. The stream is
// opened by the first call and stays open. Thread-safe.
#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "client/cpp/net/session.h"
#include "client/cpp/net/shared_area.h"
#include "core/base/mutex.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::client {

class Pipeline final : public Driver {
 public:
  static constexpr auto kPause = std::chrono::milliseconds(2);

  struct Item {
    v1::PipelineRequest request;               // without sequence, epoch and session
    std::shared_ptr<const std::string> graph;  // of an Execute
    // The data of an Upload. It is copied into the message when it is sent.
    std::shared_ptr<const std::string> payload;
    size_t payload_begin = 0, payload_bytes = 0;
    // In place of the payload of an Upload, or the place for a Download.
    SharedSlot slot;
    std::vector<uint64_t> uses;   // handles that must have been made
    std::vector<uint64_t> makes;  // handles that have no contents if this call fails
    size_t held_bytes = 0;        // that count against the bound of the pipeline
    // Called once, without a lock, on the pipeline's thread or on the one that pushes. With OK, the
    // response has the result.
    std::function<void(const absl::Status&, v1::PipelineResponse&)> done;
    // Called before `done` for each answer to a Repeat but the last one, on the pipeline's thread.
    std::shared_ptr<const std::function<void(v1::PipelineResponse&)>> step;

    // The Execute that the message has or repeats; null if the message is another call.
    v1::ExecuteRequest* execute();
    // Gives an Execute another request id, and a Repeat as many as it has steps.
    void GiveIds(Executor& numbers);
    // The request ids that have no answer yet.
    RequestIds ids() const;
    // What a Download that ended well has read.
    std::string_view Downloaded(const v1::PipelineResponse& response) const;

    // Used by the Pipeline.
    uint64_t sequence = 0;  // 0: not sent on this stream
    uint64_t sent_as = 0;   // the last sequence that it had, on any stream
    bool graph_sent = false, cancelled = false;
  };

  Pipeline(Session& session, size_t most_items, size_t most_bytes, Executor& numbers,
           std::function<void(Item&, size_t)> sent);
  ~Pipeline() override;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Gets memory that the client shares with the daemon, if the daemon gives any and there is none
  // yet. To be called before large transfers.
  void OpenArea();
  // Copies the bytes into shared memory for an Upload. Waits for room there if only transfers are
  // ahead, and not for a program, which may run for long. False: there is no shared memory or room.
  bool Share(std::string_view bytes, Item& item);
  // Waits while the pipeline is full.
  void Push(std::unique_ptr<Item> item);
  // OK unless the buffer was made in a session that is gone.
  absl::Status Held(uint64_t handle);
  // True if there is room for several more calls; waits for it for at most `time`.
  bool WaitForRoom(absl::Duration time);
  void CancelAll();
  Progress progress();
  // nullopt: no answer.
  std::optional<Progress::Daemon> AskDaemon();
  // Ends what is not done with CANCELLED. To be called once, before the destructor.
  void Close();
  // Ends the stream, and leaves nothing of gRPC and no thread: the process is about to fork. Calls
  // that are not answered stay, and no Push may come until Continue, which sends them again.
  void Pause();
  void Continue();

  void DriveUntil(const std::function<bool()>& done, absl::Time until) override;

 private:
  using Ended = std::vector<std::pair<std::unique_ptr<Item>, absl::Status>>;
  using Clock = std::chrono::steady_clock;
  static constexpr int kTries = 5;  // of a call, without any answer between them
  enum Tag : intptr_t { kStarted = 1, kRead, kWritten, kFinished };

  static void* AsTag(Tag tag) { return reinterpret_cast<void*>(tag); }
  static void Finish(Ended& ended);

  // The error of the call that should have made what the item uses, or why that is lost. Notes what
  // the item makes.
  absl::Status CheckUses(const Item& item) UOPD_REQUIRES(mutex_);
  absl::Status CheckHeld(uint64_t handle) const UOPD_REQUIRES(mutex_);
  struct Queued {
    absl::Status refused{};  // CheckUses
    bool must_wait = false;  // for the message before it
  };
  // Takes the item unless it is refused.
  Queued Queue(std::unique_ptr<Item>& item);
  void CancelOnDaemon(RequestIds ids);
  void Work();
  // Ends the stream and handles its last events; the own thread has ended then.
  // REQUIRES: closing_ or paused_ is set.
  void StopEvents();
  // Handles one event. False: there was none until then, or there will be no more.
  bool HandleOne(std::chrono::system_clock::time_point until);
  void LeaveEvents();
  // True if the own thread may handle events.
  bool MayWork() const UOPD_REQUIRES(handler_mutex_);
  // The events of a stream.
  void OnEvent(Tag tag, bool ok);
  void OnResponse();
  void OnStreamEnd();
  void OnSilence();

  void OpenStream() UOPD_REQUIRES(mutex_);
  void WriteNext() UOPD_REQUIRES(mutex_);
  // Fills in what the message says about its data. False: it has to wait for shared memory.
  bool Complete(Item& item) UOPD_REQUIRES(mutex_);
  // True if shared memory is used up, and will be free soon without anything done.
  bool SoonFree() UOPD_REQUIRES(mutex_);
  void FinishIfBroken() UOPD_REQUIRES(mutex_);
  void ShutDownQueue() UOPD_REQUIRES(mutex_);
  void BreakStream() UOPD_REQUIRES(mutex_);
  std::unique_ptr<Item> PopFront() UOPD_REQUIRES(mutex_);
  // When an item is queued, and when it is no longer kept.
  void Count(const Item& item) UOPD_REQUIRES(mutex_);
  void Uncount(const Item& item) UOPD_REQUIRES(mutex_);
  int MostTries() const UOPD_REQUIRES(mutex_) { return leaving_ ? kTriesOfRestart : kTries; }
  // All items will be sent again.
  void Rewind() UOPD_REQUIRES(mutex_);
  void OnFailure(const v1::PipelineResponse& response, Ended& ended) UOPD_REQUIRES(mutex_);
  // Ends the first item with an error, and all that need what it makes with the same error.
  void FailFront(const absl::Status& status, Ended& ended) UOPD_REQUIRES(mutex_);
  void FailAll(const absl::Status& status, Ended& ended) UOPD_REQUIRES(mutex_);
  // Uploads and frees up to `last_sequence` are done.
  void DropServed(uint64_t last_sequence, Ended& ended) UOPD_REQUIRES(mutex_);
  // There is another session. Ends the items that use what is lost, and keeps all others.
  void DropLost(const absl::Status& lost, Ended& ended) UOPD_REQUIRES(mutex_);
  // Resumes the session or opens another one, and then a stream for the items. True: it is to be
  // tried again.
  bool ContinueSession(Ended& ended);

  Session& session_;
  const size_t most_items_, most_bytes_;
  Executor& numbers_;  // gives request ids and handles
  const std::function<void(Item&, size_t)> sent_;

  Mutex mutex_;
  std::condition_variable room_;                                     // items were removed
  std::deque<std::unique_ptr<Item>> items_ UOPD_GUARDED_BY(mutex_);  // not answered
  // Handles whose contents a call should have made that failed. The daemon may know them not, or
  // with other contents.
  absl::flat_hash_map<uint64_t, absl::Status> missing_ UOPD_GUARDED_BY(mutex_);
  // Buffers with handles below lost_below_ were made in a session that is gone, unless they are in
  // made_again_.
  std::string session_id_ UOPD_GUARDED_BY(mutex_);
  std::atomic<uint64_t> lost_below_ = 0;  // changed under mutex_
  absl::Status lost_ UOPD_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> made_again_ UOPD_GUARDED_BY(mutex_);
  size_t held_bytes_ UOPD_GUARDED_BY(mutex_) = 0;
  std::string data_ UOPD_GUARDED_BY(mutex_);  // of the Upload that is being written
  Progress progress_ UOPD_GUARDED_BY(mutex_);
  // Each belongs to one stream: what is left of a broken stream cannot change what a later one
  // uses.
  std::shared_ptr<SharedArea> area_ UOPD_GUARDED_BY(mutex_);  // null: none
  bool ask_for_area_ UOPD_GUARDED_BY(mutex_) = true;
  size_t next_ UOPD_GUARDED_BY(mutex_) = 0;  // the first item to be sent
  uint64_t sequence_ UOPD_GUARDED_BY(mutex_) = 0, epoch_ UOPD_GUARDED_BY(mutex_) = 1;
  Clock::time_point front_since_ UOPD_GUARDED_BY(mutex_);
  bool deadline_passed_ UOPD_GUARDED_BY(mutex_) = false;  // of the first item
  bool closing_ UOPD_GUARDED_BY(mutex_) = false, shut_down_ UOPD_GUARDED_BY(mutex_) = false;
  bool paused_ UOPD_GUARDED_BY(mutex_) = false;
  int tries_ UOPD_GUARDED_BY(mutex_) = 0;  // since a call last succeeded
  // Since a call last succeeded: why the daemon said that it cannot serve, and whether it is
  // shutting down.
  absl::Status said_ UOPD_GUARDED_BY(mutex_);
  bool leaving_ UOPD_GUARDED_BY(mutex_) = false;

  // The stream. open_: from OpenStream until OnStreamEnd ends without another stream.
  bool open_ UOPD_GUARDED_BY(mutex_) = false, started_ UOPD_GUARDED_BY(mutex_) = false;
  bool writing_ UOPD_GUARDED_BY(mutex_) = false, reading_ UOPD_GUARDED_BY(mutex_) = false;
  bool broken_ UOPD_GUARDED_BY(mutex_) = false, finishing_ UOPD_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::ClientContext> context_ UOPD_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::PipelineRequest, v1::PipelineResponse>> stream_
      UOPD_GUARDED_BY(mutex_);
  v1::PipelineResponse incoming_;  // written by gRPC while reading_
  grpc::Status status_;            // of the stream, written by gRPC while finishing_
  std::unique_ptr<grpc::CompletionQueue> queue_ = std::make_unique<grpc::CompletionQueue>();
  std::mutex calls_;  // held during calls beside the stream, and from Pause to Continue

  enum class Handler { kNone, kOwn, kWaiting };
  Mutex handler_mutex_;
  std::condition_variable handler_left_;
  Handler handler_ UOPD_GUARDED_BY(handler_mutex_) = Handler::kNone;
  Clock::time_point last_waiting_ UOPD_GUARDED_BY(handler_mutex_);
  int wanted_ UOPD_GUARDED_BY(handler_mutex_) = 0;  // threads that wait for the own one to leave
  bool drained_ UOPD_GUARDED_BY(handler_mutex_) = false;  // there are no more events
  bool stopping_ UOPD_GUARDED_BY(handler_mutex_) = false;

  std::thread thread_;  // started by the first call
};

}  // namespace uopd::client
