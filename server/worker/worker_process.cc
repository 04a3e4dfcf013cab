// SPDX-License-Identifier: MIT
#include "server/worker/worker_process.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <exception>
#include <fstream>
#include <new>

#include "core/base/bytes.h"
#include "core/base/text.h"
#include "server/worker/frame_channel.h"
#include "server/worker/job/measure_buffers.h"

namespace uopd::worker {
namespace {

// Freed memory that malloc keeps, and the size from which it maps every piece by itself. NVIDIA's
// compilers and LLVM take some MiB for each kernel; with malloc's own limits those pages come from
// the system anew for each.
constexpr int kHeapKeptBytes = 32 << 20, kHeapMappedBytes = 4 << 20;

void LimitResources(const WorkerSetup& setup) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
#ifndef UOPD_SANITIZED  // shadow memory takes terabytes of address space
  if (setup.address_space_bytes > 0) {
    const rlimit space{setup.address_space_bytes, setup.address_space_bytes};
    setrlimit(RLIMIT_AS, &space);
  }
#endif
  prctl(PR_SET_NAME, setup.name.c_str());
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (setup.nice != 0) setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + setup.nice);
  // When memory runs out, the kernel should kill a worker before the daemon.
  const UniqueFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) [[maybe_unused]]
    const ssize_t n = write(score.get(), "900", 3);
}

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The libraries below may throw. No exception leaves this function.
JobAnswer RunJob(WorkerState& state, std::string_view frame, std::span<const JobHandler> handlers) {
  ByteReader reader(frame);
  std::string_view name, payload;
  if (!reader.String(name) || !reader.String(payload) || !reader.done()) {
    return {.last = true, .result = absl::DataLossError("malformed job")};
  }
  for (const JobHandler& handler : handlers) {
    if (handler.name != name) continue;
    try {
      JobAnswer answer{.result = handler.run(state, payload)};
      answer.broke = state.broken() && !answer.result.ok();
      answer.last = state.broken();
      return answer;
    } catch (const std::bad_alloc&) {
      return {.last = true,
              .result = absl::ResourceExhaustedError(
                  Cat("a worker ran out of memory in a job (", name, ")"))};
    } catch (const std::exception& e) {
      return {.last = true, .result = absl::InternalError(Cat("job ", name, " threw: ", e.what()))};
    }
  }
  return {.result = absl::UnimplementedError(Cat("workers know no job named ", name))};
}

}  // namespace

std::string WorkerSetup::Encode() const {
  std::string out;
  PutString(out, name);
  PutVarint(out, address_space_bytes);
  PutVarint(out, retire_after_jobs);
  PutVarint(out, retire_above_rss_bytes);
  PutSigned(out, nice);
  PutString(out, devices);
  PutVarint(out, device_memory_bytes);
  PutSigned(out, cpu_threads);
  PutString(out, cpu_features);
  PutVarint(out, cuda_ptx ? 1 : 0);
  PutVarint(out, cuda_specific ? 1 : 0);
  return out;
}

absl::StatusOr<WorkerSetup> WorkerSetup::Decode(std::string_view bytes) {
  WorkerSetup out;
  ByteReader reader(bytes);
  int64_t nice, cpu_threads;
  uint64_t cuda_ptx, cuda_specific;
  if (!reader.String(out.name) || !reader.Varint(out.address_space_bytes) ||
      !reader.Varint(out.retire_after_jobs) || !reader.Varint(out.retire_above_rss_bytes) ||
      !reader.Signed(nice) || !reader.String(out.devices) ||
      !reader.Varint(out.device_memory_bytes) || !reader.Signed(cpu_threads) ||
      !reader.String(out.cpu_features) || !reader.Varint(cuda_ptx) || cuda_ptx > 1 ||
      !reader.Varint(cuda_specific) || cuda_specific > 1 || !reader.done()) {
    return absl::DataLossError("malformed worker setup");
  }
  out.nice = static_cast<int>(nice);
  out.cpu_threads = static_cast<int>(cpu_threads);
  out.cuda_ptx = cuda_ptx == 1;
  out.cuda_specific = cuda_specific == 1;
  return out;
}

WorkerState::WorkerState(const WorkerSetup& setup, decltype(devices::RegistryOptions::open) open)
    : setup_(setup), open_(std::move(open)), measure_buffers_(std::make_unique<MeasureBuffers>()) {}

WorkerState::~WorkerState() = default;

absl::StatusOr<devices::Registry*> WorkerState::Devices() {
  if (registry_ == nullptr) {
    devices::RegistryOptions options;
    options.devices = setup_.devices;
    options.memory_limit_bytes = setup_.device_memory_bytes;
    options.cpu_threads = setup_.cpu_threads;
    options.cpu_features = setup_.cpu_features;
    options.cuda_ptx = setup_.cuda_ptx;
    options.cuda_specific = setup_.cuda_specific;
    options.open = open_;
    UOPD_ASSIGN(registry_, devices::Registry::Create(options));
  }
  return registry_.get();
}

absl::StatusOr<std::shared_ptr<devices::Device>> WorkerState::Device(std::string_view name) {
  UOPD_ASSIGN(devices::Registry * registry, Devices());
  return registry->Get(name);
}

absl::StatusOr<std::shared_ptr<const devices::Compiler>> WorkerState::CompilerFor(
    std::string_view device, std::string_view toolchain) {
  UOPD_ASSIGN(devices::Registry * registry, Devices());
  return registry->CompilerFor(device, toolchain);
}

std::string EncodeJob(std::string_view name, std::string_view payload) {
  std::string out;
  out.reserve(name.size() + payload.size() + 20);
  PutString(out, name);
  PutString(out, payload);
  return out;
}

std::string EncodeAnswer(const JobAnswer& answer) {
  std::string out(1, kResult);
  PutVarint(out, answer.last ? 1 : 0);
  PutVarint(out, answer.broke ? 1 : 0);
  PutVarint(out, static_cast<uint64_t>(answer.result.status().code()));
  PutString(out, answer.result.ok() ? *answer.result : StatusText(answer.result.status()));
  return out;
}

absl::StatusOr<JobAnswer> DecodeAnswer(std::string_view bytes) {
  if (bytes.empty() || bytes[0] != kResult) return absl::DataLossError("not an answer");
  ByteReader reader(bytes.substr(1));
  uint64_t last, broke, code;
  std::string text;
  if (!reader.Varint(last) || !reader.Varint(broke) || !reader.Varint(code) ||
      !reader.String(text) || !reader.done() || last > 1 || broke > (code == 0 ? 0u : 1u) ||
      code > static_cast<uint64_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::DataLossError("malformed answer");
  }
  if (code == 0) return JobAnswer{.last = last == 1, .result = std::move(text)};
  return JobAnswer{.last = last == 1,
                   .broke = broke == 1,
                   .result = absl::Status(static_cast<absl::StatusCode>(code), text)};
}

int RunWorker(UniqueFd socket, const WorkerSetup& setup, std::span<const JobHandler> handlers) {
  mallopt(M_TRIM_THRESHOLD, kHeapKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kHeapMappedBytes);
  LimitResources(setup);
  FrameChannel channel(std::move(socket));
  WorkerState state(setup);
  for (uint64_t jobs = 1;; ++jobs) {
    auto frame = channel.Receive({});
    if (!frame.ok()) return absl::IsUnavailable(frame.status()) ? 0 : 2;
    if (!channel.Send(std::string(1, kAccepted), {}).ok()) return 0;
    JobAnswer answer = RunJob(state, *frame, handlers);
    frame->clear();
    answer.last |= setup.retire_after_jobs > 0 && jobs >= setup.retire_after_jobs;
    answer.last |=
        setup.retire_above_rss_bytes > 0 && ResidentBytes() > setup.retire_above_rss_bytes;
    if (!channel.Send(EncodeAnswer(answer), {}).ok()) return 0;
    if (answer.last) return 0;
  }
}

}  // namespace uopd::worker
