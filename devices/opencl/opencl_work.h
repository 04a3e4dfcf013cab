// SPDX-License-Identifier: MIT
// What one stream has given to OpenCL and what is not known to be finished yet: a batch.
//
// Commands go to an in-order queue of OpenCL and run while the stream goes on. Finish waits for the
// batch, reads errors and times, and drops what the batch keeps. A batch has at most one StopFlag:
//
//     empty ── a command ──► open ── a launch with a flag ──► open for this flag
//       ▲                      │  ▲                             │      ▲
//       └────── Finish ────────┴──┼─────────────────────────────┘      │
//                                 └ launches without a flag            └ launches with this flag
//
// Any other command first finishes a batch that has a flag, so that it is skipped if the run was
// stopped. The thread that waits in Finish also copies the flag to the stop word of the kernels.
//
// Used by one thread at a time: the queue of the stream calls it. A call that returns an error has
// finished the batch.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/api/stop_flag.h"
#include "devices/opencl/opencl_context.h"
#include "devices/opencl/opencl_executable.h"

namespace uopd::devices::opencl {

// The stop words that the kernels of one stream read: one that is set when a run is to end, and one
// that is never set.
//
// Kernels cannot read the word of a StopFlag, which is ordinary memory of the host. So the stream
// copies the flag to a word in fine-grained shared memory, which a running kernel sees. A device
// without such memory has words that are never set: it only skips what is queued.
//
// The owner is the work of one stream; only its thread may call Set.
class StopWords {
 public:
  // `queue` is used only before Make returns.
  static absl::StatusOr<StopWords> Make(std::shared_ptr<OpenClContext> context, ClQueue* queue);
  StopWords(StopWords&& other) noexcept
      : context_(std::move(other.context_)),
        words_(std::exchange(other.words_, nullptr)),
        reachable_(other.reachable_) {}
  StopWords& operator=(StopWords&&) = delete;
  ~StopWords();

  const int32_t* never() const { return words_; }
  const int32_t* word() const { return words_ + kApart; }
  // False: no running kernel would see it.
  bool reachable() const { return reachable_; }
  void Set(bool stop);  // does nothing if the word is not reachable

 private:
  static constexpr size_t kApart = 32;  // 128 bytes: words on two cache lines

  StopWords(std::shared_ptr<OpenClContext> context, int32_t* words, bool reachable)
      : context_(std::move(context)), words_(words), reachable_(reachable) {}

  std::shared_ptr<OpenClContext> context_;
  int32_t* words_;
  const bool reachable_;
};

using Keeper = std::shared_ptr<const void>;

class OpenClWork {
 public:
  static absl::StatusOr<std::shared_ptr<OpenClWork>> Make(std::shared_ptr<OpenClContext> context);
  ~OpenClWork();
  OpenClWork(const OpenClWork&) = delete;
  OpenClWork& operator=(const OpenClWork&) = delete;

  struct Launch {
    std::shared_ptr<OpenClExecutable> executable;
    LaunchShape shape;
    std::vector<Keeper> buffers;
    std::vector<void*> pointers;
    std::vector<int64_t> vars;
    int64_t* maybe_duration_ns = nullptr;
    std::shared_ptr<const StopFlag> maybe_stop;
  };

  // From host memory or from a buffer to the other. `keep` lives until the copy is done.
  absl::Status Copy(void* to, const void* from, size_t bytes, std::vector<Keeper> keep);
  absl::Status Fill(void* to, size_t bytes, std::byte value, Keeper keep);
  absl::Status Run(const Launch& launch);
  // Drops `object` when all earlier commands are done.
  void Drop(Keeper object);
  absl::Status Finish();

 private:
  struct Command {
    ClEvent* event = nullptr;
    std::string what;  // for messages
    int64_t* maybe_duration_ns = nullptr;
  };

  OpenClWork(std::shared_ptr<OpenClContext> context, ClQueue* queue, StopWords words)
      : context_(std::move(context)), queue_(queue), words_(std::move(words)) {}

  // Makes the batch ready for a command under `stop`, which may be null.
  absl::Status Prepare(const std::shared_ptr<const StopFlag>& stop, const std::string& what);
  // Finishes the batch. Returns its error, or else `status`.
  absl::Status Fail(absl::Status status);
  // Adds a command that `enqueue` gives to the queue of OpenCL.
  absl::Status Add(std::string what, std::vector<Keeper> keep,
                   const std::function<absl::Status(ClEvent** event)>& enqueue);
  // Waits for the last command, and passes the flag on meanwhile.
  void AwaitLast();
  absl::Status Outcome(const Command& command);

  const std::shared_ptr<OpenClContext> context_;
  ClQueue* const queue_;
  StopWords words_;
  std::vector<Command> commands_;
  std::vector<Keeper> kept_;
  std::shared_ptr<const StopFlag> stop_;  // of the batch; may be null
};

}  // namespace uopd::devices::opencl
