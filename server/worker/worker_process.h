// SPDX-License-Identifier: MIT
// A worker process: its setup, the jobs that it knows, and its main loop.
//
// A worker has one thread. It takes jobs from its socket, one at a time, and answers each with two
// frames: "accepted" before it starts the job, and the result. So the sender of a job can
// distinguish a worker that died of the job from one that was dead before. A worker ends when its
// socket ends, when its parent ends (PR_SET_PDEATHSIG), or by itself after an answer that announces
// its end.
//
// Frames
//   job       name, payload                  (strings)
//   accepted  kAccepted
//   result    kResult, last, broke, code, message or payload
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "devices/registry.h"

namespace uopd::worker {

// Fixed when a worker is spawned. Plain data that is sent through the fork server.
struct WorkerSetup {
  std::string name = "uopd-worker";     // the name in ps, at most 15 bytes
  uint64_t address_space_bytes = 0;     // RLIMIT_AS; 0: none. Not applied under sanitizers
  uint64_t retire_after_jobs = 500;     // then a fresh process takes over; 0: never
  uint64_t retire_above_rss_bytes = 0;  // the same, against leaks; 0: never
  int nice = 0;                         // added to the daemon's nice value
  std::string devices = "CPU";          // as in RegistryOptions
  uint64_t device_memory_bytes = 0;
  int cpu_threads = 0;
  std::string cpu_features;  // as in RegistryOptions
  bool cuda_ptx = false;
  bool cuda_specific = false;

  std::string Encode() const;
  static absl::StatusOr<WorkerSetup> Decode(std::string_view bytes);
};

class MeasureBuffers;

// State that the jobs of a worker share. Used by one thread.
class WorkerState {
 public:
  // `open` opens the devices. Null: their drivers do.
  explicit WorkerState(const WorkerSetup& setup,
                       decltype(devices::RegistryOptions::open) open = {});
  ~WorkerState();
  const WorkerSetup& setup() const { return setup_; }
  // Opens the device at first use. Errors as Registry::Get.
  absl::StatusOr<std::shared_ptr<devices::Device>> Device(std::string_view name);
  // As Registry::CompilerFor.
  absl::StatusOr<std::shared_ptr<const devices::Compiler>> CompilerFor(std::string_view device,
                                                                       std::string_view toolchain);
  // What the last job "measure" left for the next one.
  MeasureBuffers& measure_buffers() { return *measure_buffers_; }
  // A job calls this when it has broken something that later jobs need, such as the context of a
  // GPU. The worker ends after its answer, and the job is treated as one that crashed.
  void SetBroken() { broken_ = true; }
  bool broken() const { return broken_; }

 private:
  absl::StatusOr<devices::Registry*> Devices();

  const WorkerSetup setup_;
  const decltype(devices::RegistryOptions::open) open_;
  std::unique_ptr<devices::Registry> registry_;
  const std::unique_ptr<MeasureBuffers> measure_buffers_;
  bool broken_ = false;
};

// A kind of job: bytes in, bytes or an error out.
struct JobHandler {
  std::string_view name;
  absl::StatusOr<std::string> (*run)(WorkerState& state, std::string_view payload);
};

// First bytes of frames, used by both ends.
inline constexpr char kAccepted = 'A';
inline constexpr char kResult = 'R';
std::string EncodeJob(std::string_view name, std::string_view payload);

struct JobAnswer {
  bool last = false;   // the worker ends after this answer
  bool broke = false;  // WorkerState::SetBroken; the result is an error
  absl::StatusOr<std::string> result;
};
std::string EncodeAnswer(const JobAnswer& answer);
absl::StatusOr<JobAnswer> DecodeAnswer(std::string_view bytes);  // DATA_LOSS

// Runs in the worker: applies the setup and serves jobs until the socket ends. Returns the exit
// code.
int RunWorker(UniqueFd socket, const WorkerSetup& setup, std::span<const JobHandler> handlers);

}  // namespace uopd::worker
