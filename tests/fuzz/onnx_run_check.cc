// SPDX-License-Identifier: MIT
#include "tests/fuzz/onnx_run_check.h"

#include <sys/mman.h>
#include <unistd.h>

#include <ctime>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "tests/fuzz/clean_message.h"
#include "tests/fuzz/memory_meter.h"
#include "uopd/onnx_model.h"

namespace uopd::test {
namespace {

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

absl::Status RunOnce(const std::string& path) {
  client::Client client(std::make_shared<client::OfflineExecutor>());
  client::OnnxLimits limits;
#ifdef UOPD_SANITIZED
  limits.nodes /= 16;  // each takes ten times as long
#endif
  UOPD_ASSIGN(const client::OnnxRunner runner, client::OnnxRunner::Open(client, path, limits));
  return runner.Run({}).status();
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status) ||
         absl::IsNotFound(status);
}

}  // namespace

OnnxRunVerdict CheckOnnxRun(std::string_view file) {
  OnnxRunVerdict out;
  const UniqueFd fd(memfd_create("onnx", MFD_CLOEXEC));
  if (write(fd.get(), file.data(), file.size()) != static_cast<ssize_t>(file.size())) {
    out.wrong = "the file could not be written";
    return out;
  }
  const std::string path = Cat("/proc/self/fd/", fd.get());
  const double begin = ThreadSeconds();
  {
    const MemoryMeter memory;
    out.status = RunOnce(path);
    out.peak = memory.peak();
  }
  out.seconds = ThreadSeconds() - begin;
  if (out.status.ok()) return out;
  const std::string message = StatusText(out.status);
  if (!IsRefusal(out.status)) out.wrong = Cat("the code: ", out.status.ToString());
  if (!IsCleanMessage(message)) out.wrong = Cat("the message: ", message);
  return out;
}

}  // namespace uopd::test
