// SPDX-License-Identifier: MIT
// Executor: what the client library needs of a daemon. Connection implements it over gRPC; tests
// implement it in process.
//
// Nothing here waits for the daemon: a call returns when its message is queued, and its Future ends
// when the daemon has answered. The daemon serves the calls of an Executor in order, so a call sees
// the effects of all earlier calls. A call whose inputs come from a call that failed fails with the
// same error. All functions may be called from any thread; several Clients may share an Executor.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "uopd/future.h"
#include "uopd/options.h"

namespace uopd::client {

// Traffic of an Executor, in bytes of serialised messages.
struct Traffic {
  uint64_t execute_bytes = 0;
  uint64_t upload_bytes = 0;
  uint64_t other_bytes = 0;
  uint64_t total() const { return execute_bytes + upload_bytes + other_bytes; }
};

// What one slot of a graph is bound to.
struct Argument {
  uint64_t handle = 0;                      // 0: memory for this call only
  std::shared_ptr<const std::string> data;  // contents before the run; null: those of the buffer
  bool return_data = false;                 // the answer has the contents after the run
  bool made = false;  // the call makes the contents; if it fails, the buffer has none
};

// Contents that calls only read. The bytes stay where they are until the call that gets them has
// returned.
struct Content {
  uint64_t handle = 0;      // new
  std::string_view device;  // empty: the daemon's default
  std::string_view bytes;   // not empty
};

// A loop: the call is run again and again, without the client between two steps. Every step finds
// what the one before left in the buffers.
struct Loop {
  uint32_t steps = 1;            // at most: 1 to 1024
  std::vector<int64_t> strides;  // added to the variables between two steps; 0 for floats
  std::optional<size_t> stop;    // an argument with return_data: not zero ends the loop
  // No step is run if the buffer of `stop` is not zero before, as an earlier loop left it.
  bool unless_stopped = false;
  // Called with the data of every step, in order, before the future of the call ends; on any
  // thread, one at a time. It must be quick and must not wait for futures.
  std::function<void(std::span<const std::string> data)> step;
};

// One run of a graph.
struct Call {
  std::string digest;                        // SHA-256 of the graph, 32 bytes
  std::shared_ptr<const std::string> graph;  // sent if the daemon does not know the digest
  std::vector<Argument> arguments;           // in order of slots
  std::vector<int64_t> variables;            // in the order of the graph
  std::vector<uint64_t> free_buffers;        // after a run that succeeds
  ExecutionOptions options;
  // Null: it is run once. Data of arguments with a handle are written before the first step alone.
  // The result is that of the last step.
  std::shared_ptr<const Loop> loop;
};

// What the daemon says about a run. Times are in microseconds.
struct CallReport {
  bool graph_sent = false;  // the daemon did not know the graph
  // The schedule was computed by this call; or was ready in the memory of the daemon.
  bool schedule_miss = false, schedule_memory = false;
  // Kernels that were ready, in the daemon's cache, with the server of its cluster, in none of
  // these.
  uint32_t kernels_memory = 0, kernels_disk = 0, kernels_cluster = 0, kernels_compiled = 0;
  uint32_t kernels_shared =
      0;  // others: another request was getting them already, and this one waited
  uint32_t kernels_tuned = 0, kernels_draft = 0;
  double queue_us = 0, verify_us = 0, schedule_us = 0, codegen_us = 0, render_us = 0;
  double compile_us = 0, load_us = 0, tune_us = 0, copy_us = 0, run_us = 0, total_us = 0;
  double kernels_us = 0;  // with ExecutionOptions::profile
};

struct CallResult {
  std::vector<std::string> data;  // of every argument with return_data, in order of slots
  CallReport report;
};

// `result` may be read once `future` has ended well.
struct Answer {
  Future future;
  std::shared_ptr<CallResult> result;
};

// What a client waits for.
struct Progress {
  // Bytes of tensors that are on the way in either direction, and those of them that have arrived.
  // Both begin anew when nothing is on the way.
  uint64_t upload_bytes = 0, uploaded_bytes = 0;
  uint64_t download_bytes = 0, downloaded_bytes = 0;
  size_t calls = 0;  // not answered
  // What the daemon says about its work for this client. Not set if it was not asked, or did not
  // answer at once.
  struct Daemon {
    uint32_t programs = 0;                    // that are being compiled
    uint32_t kernels = 0, kernels_ready = 0;  // of these programs, as far as they are known
    uint32_t kernels_to_tune = 0;             // of all clients
  };
  std::optional<Daemon> daemon;
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual Answer Submit(Call call) = 0;
  // Creates the buffer if its handle is new. An empty device means the daemon's default.
  virtual Future Upload(uint64_t handle, std::string_view device,
                        std::shared_ptr<const std::string> bytes) = 0;
  // True if large contents should be uploaded at once, by UploadCopy, in place of being kept until
  // a call needs them.
  virtual bool uploads_at_once() const { return false; }
  // The same as Upload. It copies the bytes before it returns, and may wait for room meanwhile.
  virtual Future UploadCopy(uint64_t handle, std::string_view device, std::string_view bytes) {
    return Upload(handle, device, std::make_shared<const std::string>(bytes));
  }
  // Makes buffers that no call may write, and waits until the daemon has their contents. What the
  // daemon has already, from whomever, need not be sent. After an error none of them may be used.
  virtual absl::Status UploadContents(std::span<const Content> contents) {
    absl::Status first;
    for (const Content& content : contents)
      first.Update(UploadCopy(content.handle, content.device, content.bytes).Wait());
    return first;
  }
  // Frees buffers on the daemon, without an answer. A Call frees more cheaply.
  virtual void Free(std::vector<uint64_t> /*handles*/) {}
  // Reads a whole buffer of out.size() bytes. `out` must stay until the future has ended.
  virtual Future Download(uint64_t handle, std::span<char> out) = 0;
  // OK unless the daemon has lost the contents of the buffer, as far as that is known: then the
  // error of every call that uses them. Costs nothing while nothing was lost.
  virtual absl::Status Held(uint64_t /*handle*/) const { return absl::OkStatus(); }
  // Ends everything that is not done yet with CANCELLED.
  virtual void Cancel() {}

  // What is on the way. The daemon is asked for its part if wanted, for at most some tenths of a
  // second.
  virtual Progress progress(bool /*ask_daemon*/) { return {}; }
  // Waits until the next call can be queued without waiting for room, for at most `time`. False: it
  // cannot.
  virtual bool WaitForRoom(absl::Duration /*time*/) { return true; }

  // The device that an empty name means. Empty: it is not known.
  virtual std::string_view default_device() const { return {}; }

  // Of a message, in bytes.
  virtual uint64_t max_message_bytes() const { return 16 << 20; }

  // A number that no other buffer of the session has.
  uint64_t NewHandle() { return next_handle_.fetch_add(1, std::memory_order_relaxed); }
  // The first of so many numbers that no other request of the session has.
  uint64_t NewRequestIds(uint64_t count) {
    return next_request_.fetch_add(count, std::memory_order_relaxed);
  }
  uint64_t NewRequestId() { return NewRequestIds(1); }

  virtual Traffic traffic() const { return {}; }
  // Of its futures.
  virtual std::weak_ptr<Driver> driver() const { return {}; }

 private:
  std::atomic<uint64_t> next_handle_ = 1;
  std::atomic<uint64_t> next_request_ = 1;
};

// An Executor without a daemon, for clients that only build graphs (Export in tensor.h).
class OfflineExecutor final : public Executor {
 public:
  Answer Submit(Call) override { return {Refused(), nullptr}; }
  Future Upload(uint64_t, std::string_view, std::shared_ptr<const std::string>) override {
    return Refused();
  }
  Future Download(uint64_t, std::span<char>) override { return Refused(); }

 private:
  static Future Refused() {
    return Future(
        absl::FailedPreconditionError("this client has no daemon: it only builds graphs"));
  }
};

}  // namespace uopd::client
