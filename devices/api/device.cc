// SPDX-License-Identifier: MIT
#include "devices/api/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/api/check_launch.h"

namespace uopd::devices {

Executable::Executable(std::shared_ptr<Device> device, std::string entry, ArgLayout args)
    : device_(std::move(device)), entry_(std::move(entry)), args_(args) {}
Executable::~Executable() = default;

absl::StatusOr<std::string> Executable::Disassemble(size_t) const {
  return absl::UnimplementedError(device_->info().name + " does not show the code of its kernels");
}

Buffer::Buffer(std::shared_ptr<Device> device, size_t size, MemoryKind kind, std::byte* host_data)
    : device_(std::move(device)), size_(size), kind_(kind), host_data_(host_data) {}
Buffer::~Buffer() = default;

RecordedProgram::RecordedProgram(std::shared_ptr<Device> device, int buffers,
                                 std::vector<RecordedLaunch> launches)
    : device_(std::move(device)),
      launches_(std::move(launches)),
      least_bytes_(static_cast<size_t>(buffers), 0) {
  for (const RecordedLaunch& launch : launches_) {
    for (const RecordedLaunch::Argument& arg : launch.buffers) {
      size_t& least = least_bytes_[static_cast<size_t>(arg.index)];
      least = std::max(least, arg.offset);
    }
    for (const TensorMap& map : launch.shape.maps) {
      const RecordedLaunch::Argument& arg = launch.buffers[static_cast<size_t>(map.slot)];
      const auto bytes = static_cast<size_t>(map.tensor_bytes());
      size_t& least = least_bytes_[static_cast<size_t>(arg.index)];
      least = std::max(least, bytes > SIZE_MAX - arg.offset ? SIZE_MAX : arg.offset + bytes);
    }
  }
}
RecordedProgram::~RecordedProgram() = default;

absl::StatusOr<std::shared_ptr<const RecordedProgram>> Device::Record(
    int buffers, std::vector<RecordedLaunch> launches) {
  for (size_t i = 0; i < launches.size(); ++i) {
    const RecordedLaunch& launch = launches[i];
    if (launch.executable == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("Launch ", i, " has no kernel"));
    }
    UOPD_TRY(CheckLaunch(*this, *launch.executable, launch.shape, launch.buffers.size(),
                         launch.vars.size()));
    for (const RecordedLaunch::Argument& arg : launch.buffers) {
      if (arg.index >= 0 && arg.index < buffers) continue;
      return absl::InvalidArgumentError(absl::StrCat("Launch ", i, " of kernel ",
                                                     launch.executable->entry(), " takes buffer ",
                                                     arg.index, " of ", buffers));
    }
  }
  return DoRecord(buffers, std::move(launches));
}

absl::StatusOr<std::shared_ptr<const RecordedProgram>> Device::DoRecord(
    int buffers, std::vector<RecordedLaunch> launches) {
  return std::make_shared<RecordedProgram>(shared_from_this(), buffers, std::move(launches));
}

}  // namespace uopd::devices
