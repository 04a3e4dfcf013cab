// SPDX-License-Identifier: MIT
// A recorded sequence as a graph of the driver: a chain of kernel nodes that the driver launches at
// once.
//
// A replay with the buffers and the stop word of the replay before it only launches. Otherwise the
// arguments of the nodes are set first. Graphs of one program run one after the other, as the
// driver has it. Immutable for its users, and thread-safe.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/recorded_program.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

class GpuRecordedProgram final : public RecordedProgram,
                                 public std::enable_shared_from_this<GpuRecordedProgram> {
 public:
  // REQUIRES: context->api().has_graphs(), and there is a launch.
  GpuRecordedProgram(std::shared_ptr<Device> device, std::shared_ptr<GpuContext> context,
                     int buffers, std::vector<RecordedLaunch> launches)
      : RecordedProgram(std::move(device), buffers, std::move(launches)),
        context_(std::move(context)) {}
  ~GpuRecordedProgram() override;
  bool times_cost_more() const override {
    return true;
  }  // the kernels are then launched one by one

  // REQUIRES: context->Enter().
  absl::Status Launch(StreamHandle stream, std::span<const GpuPointer> buffers,
                      GpuPointer stop) const UOPD_EXCLUDES(mu_);

 private:
  absl::Status Build() const UOPD_REQUIRES(mu_);
  absl::Status Update() const UOPD_REQUIRES(mu_);
  // Calls use(node, index) with the parameters of each launch.
  template <class Use>
  absl::Status ForEach(Use use) const UOPD_REQUIRES(mu_);

  const std::shared_ptr<GpuContext> context_;
  mutable Mutex mu_;
  mutable GraphHandle graph_ UOPD_GUARDED_BY(mu_) = nullptr;
  mutable GraphExecHandle exec_ UOPD_GUARDED_BY(mu_) = nullptr;  // null: not built yet
  mutable std::vector<NodeHandle> nodes_ UOPD_GUARDED_BY(mu_);
  // The addresses that the nodes have now.
  mutable std::vector<GpuPointer> buffers_ UOPD_GUARDED_BY(mu_);
  mutable GpuPointer stop_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::devices::gpu
