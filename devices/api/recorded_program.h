// SPDX-License-Identifier: MIT
// A recorded sequence of launches that streams replay with other buffers. What is the same in every
// run (kernels, shapes, variables, offsets) is checked and prepared only once. A driver may turn
// the sequence into one object of its own, such as a CUDA graph. The default implementation is a
// loop.
//
// Device::Record makes it. Owned by shared_ptr and immutable, so any thread may replay it. It keeps
// its device and its executables.
#pragma once
#include <memory>
#include <vector>

#include "devices/api/kernel_code.h"

namespace uopd::devices {

struct RecordedLaunch {
  // The kernel gets the address of byte `offset` of buffer `index` of the replay.
  struct Argument {
    int index = 0;
    size_t offset = 0;
  };
  std::shared_ptr<Executable> executable;
  LaunchShape shape;
  std::vector<Argument> buffers;
  std::vector<int64_t> vars;
};

class RecordedProgram {
 public:
  // REQUIRES: Device::Record has checked the launches.
  RecordedProgram(std::shared_ptr<Device> device, int buffers,
                  std::vector<RecordedLaunch> launches);
  virtual ~RecordedProgram();
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  Device& device() const { return *device_; }
  const std::vector<RecordedLaunch>& launches() const { return launches_; }
  // For each buffer of a replay: the least size in bytes for which every offset and every tensor of
  // a map (LaunchShape::maps) is inside the buffer.
  const std::vector<size_t>& least_bytes() const { return least_bytes_; }
  // A replay that asks for the times of its kernels costs more than one that does not.
  virtual bool times_cost_more() const { return false; }

 private:
  const std::shared_ptr<Device> device_;
  const std::vector<RecordedLaunch> launches_;
  std::vector<size_t> least_bytes_;
};

}  // namespace uopd::devices
