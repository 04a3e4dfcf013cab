// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_recorded_program.h"

#include <algorithm>
#include <utility>

#include "devices/gpu/gpu_executable.h"

namespace uopd::devices::gpu {

GpuRecordedProgram::~GpuRecordedProgram() {
  MutexLock lock(mu_);
  if (!context_->Enter()) return;
  const GpuApi& api = context_->api();
  if (exec_ != nullptr) {
    context_->Check(api.GraphExecDestroy(exec_)).IgnoreError();
  }
  if (graph_ != nullptr) {
    context_->Check(api.GraphDestroy(graph_)).IgnoreError();
  }
}

template <class Use>
absl::Status GpuRecordedProgram::ForEach(Use use) const {
  for (size_t i = 0; i < launches().size(); ++i) {
    const RecordedLaunch& launch = launches()[i];
    std::vector<GpuPointer> addresses;
    for (const RecordedLaunch::Argument& arg : launch.buffers) {
      addresses.push_back(buffers_[static_cast<size_t>(arg.index)] + arg.offset);
    }
    UOPD_ASSIGN(const auto maps,
                context_->tensor_maps().For(context_->api(), launch.shape.maps, addresses));
    LaunchArguments arguments(addresses, launch.vars, stop_, maps);
    KernelNode node;
    const auto& executable = static_cast<GpuExecutable&>(*launch.executable);
    node.function = executable.function();
    for (int d = 0; d < 3; ++d) {
      node.grid[d] = static_cast<unsigned>(launch.shape.grid[d]);
      node.block[d] = static_cast<unsigned>(launch.shape.block[d]);
    }
    node.shared_bytes = executable.AddedShared(launch.shape.shared_bytes);
    node.arguments = arguments.list();
    node.extra = arguments.extra();
    UOPD_TRY(WithFrame(use(node, i), "in the graph: kernel " + launch.executable->entry()));
  }
  return absl::OkStatus();
}

absl::Status GpuRecordedProgram::Build() const {
  const GpuApi& api = context_->api();
  // What an attempt that failed has left.
  if (graph_ != nullptr) {
    UOPD_TRY(context_->Check(api.GraphDestroy(std::exchange(graph_, nullptr))));
  }
  nodes_.assign(launches().size(), nullptr);
  UOPD_TRY(context_->Check(api.GraphCreate(&graph_, 0)));
  UOPD_TRY(ForEach([&](const KernelNode& node, size_t i) UOPD_REQUIRES(mu_) -> absl::Status {
    auto& executable = static_cast<GpuExecutable&>(*launches()[i].executable);
    UOPD_TRY(executable.AllowShared(launches()[i].shape.shared_bytes));
    const NodeHandle* before = i > 0 ? &nodes_[i - 1] : nullptr;
    return context_->Check(api.GraphAddKernel(&nodes_[i], graph_, before, i > 0 ? 1 : 0, &node));
  }));
  return context_->Check(api.GraphInstantiate(&exec_, graph_, 0));
}

absl::Status GpuRecordedProgram::Update() const {
  const GpuApi& api = context_->api();
  return ForEach([&](const KernelNode& node, size_t i) UOPD_REQUIRES(mu_) {
    return context_->Check(api.GraphSetKernel(exec_, nodes_[i], &node));
  });
}

absl::Status GpuRecordedProgram::Launch(StreamHandle stream, std::span<const GpuPointer> buffers,
                                        GpuPointer stop) const {
  MutexLock lock(mu_);
  const bool same = stop_ == stop && std::ranges::equal(buffers_, buffers);
  if (exec_ == nullptr || !same) {
    buffers_.assign(buffers.begin(), buffers.end());
    stop_ = stop;
    absl::Status set = exec_ == nullptr ? Build() : Update();
    if (!set.ok()) {
      buffers_.clear();  // the nodes may have any arguments now
      return set;
    }
  }
  return context_->Check(context_->api().GraphLaunch(exec_, stream));
}

}  // namespace uopd::devices::gpu
