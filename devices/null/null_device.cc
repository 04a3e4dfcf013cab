// SPDX-License-Identifier: MIT
#include "devices/null/null_device.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace uopd::devices::null {

absl::StatusOr<std::string> NullCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  return std::string(source);
}

namespace {

class NullExecutable final : public HostExecutable {
 public:
  using HostExecutable::HostExecutable;
  absl::Status Run(const LaunchShape&, const Arguments&, const StopFlag&) override {
    static_cast<NullDevice&>(device()).CountLaunch();
    return absl::OkStatus();
  }
};

DeviceInfo MakeInfo(const NullOptions& options, size_t limit_bytes) {
  DeviceInfo info;
  info.name = absl::StrCat("NULL:", options.index);
  info.processor = options.processor;
  info.max_buffer_bytes = static_cast<int64_t>(limit_bytes);
  info.total_bytes = static_cast<int64_t>(limit_bytes);
  info.runs_inline = !options.background;
  return info;
}

}  // namespace

Target NullTarget() {
  Target target;
  target.kind = "null";
  target.arch = "none";
  target.toolchain = "null-1";
  target.format = CodeFormat::kC;
  target.vector_bytes = 16;
  std::fill_n(target.max_grid, 3, int64_t{std::numeric_limits<int32_t>::max()});
  std::fill_n(target.max_block, 3, 1024);
  target.max_block_threads = 1024;
  target.shared_bytes = 48 << 10;
  return target;
}

namespace {

// Kernels of this device write nothing, so clients see what is in fresh memory.
HostHeap::Options Cleared(HostHeap::Options memory) {
  memory.clear = true;
  return memory;
}

}  // namespace

std::shared_ptr<NullDevice> NullDevice::Open(const NullOptions& options) {
  return std::shared_ptr<NullDevice>(new NullDevice(options));
}

NullDevice::NullDevice(const NullOptions& options)
    : Device(MakeInfo(options, HostHeap::Completed(options.memory).limit_bytes), options.target),
      heap_(Cleared(options.memory)),
      background_(options.background) {}

absl::Status NullDevice::status() const {
  MutexLock lock(mu_);
  return status_;
}

void NullDevice::SetStatus(absl::Status status) {
  MutexLock lock(mu_);
  status_ = std::move(status);
}

absl::StatusOr<std::shared_ptr<Buffer>> NullDevice::Allocate(size_t bytes, MemoryKind kind) {
  UOPD_TRY(status());
  return heap_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> NullDevice::Load(const KernelCode& kernel_code) {
  UOPD_TRY(status());
  if (kernel_code.entry.empty()) return absl::InternalError("The code names no entry");
  return std::make_shared<NullExecutable>(shared_from_this(), kernel_code.entry, kernel_code.args);
}

absl::StatusOr<std::unique_ptr<Stream>> NullDevice::NewStream() {
  UOPD_TRY(status());
  return std::make_unique<HostStream>(shared_from_this(), background_);
}

}  // namespace uopd::devices::null
