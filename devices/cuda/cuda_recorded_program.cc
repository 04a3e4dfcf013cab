// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_recorded_program.h"

#include <algorithm>
#include <utility>

#include "devices/cuda/cuda_executable.h"

namespace uopd::devices::cuda {

CudaRecordedProgram::~CudaRecordedProgram() {
  MutexLock lock(mu_);
  if (!context_->Enter()) return;
  const CudaApi& api = context_->api();
  if (exec_ != nullptr) {
    context_->Check(api.cuGraphExecDestroy(exec_), "cuGraphExecDestroy").IgnoreError();
  }
  if (graph_ != nullptr) {
    context_->Check(api.cuGraphDestroy(graph_), "cuGraphDestroy").IgnoreError();
  }
}

template <class Use>
absl::Status CudaRecordedProgram::ForEach(Use use) const {
  for (size_t i = 0; i < launches().size(); ++i) {
    const RecordedLaunch& launch = launches()[i];
    std::vector<CuPointer> addresses;
    for (const RecordedLaunch::Argument& arg : launch.buffers) {
      addresses.push_back(buffers_[static_cast<size_t>(arg.index)] + arg.offset);
    }
    LaunchArguments arguments(std::move(addresses), launch.vars, stop_);
    CuKernelNode node;
    node.function = static_cast<CudaExecutable&>(*launch.executable).function();
    for (int d = 0; d < 3; ++d) {
      node.grid[d] = static_cast<unsigned>(launch.shape.grid[d]);
      node.block[d] = static_cast<unsigned>(launch.shape.block[d]);
    }
    node.shared_bytes = static_cast<unsigned>(launch.shape.shared_bytes);
    node.extra = arguments.extra();
    UOPD_TRY(WithFrame(use(node, i), "in the graph: kernel " + launch.executable->entry()));
  }
  return absl::OkStatus();
}

absl::Status CudaRecordedProgram::Build() const {
  const CudaApi& api = context_->api();
  // What an attempt that failed has left.
  if (graph_ != nullptr) {
    UOPD_TRY(context_->Check(api.cuGraphDestroy(std::exchange(graph_, nullptr)), "cuGraphDestroy"));
  }
  nodes_.assign(launches().size(), nullptr);
  UOPD_TRY(context_->Check(api.cuGraphCreate(&graph_, 0), "cuGraphCreate"));
  UOPD_TRY(ForEach([&](const CuKernelNode& node, size_t i) UOPD_REQUIRES(mu_) -> absl::Status {
    auto& executable = static_cast<CudaExecutable&>(*launches()[i].executable);
    UOPD_TRY(executable.AllowShared(launches()[i].shape.shared_bytes));
    const CuGraphNode* before = i > 0 ? &nodes_[i - 1] : nullptr;
    return context_->Check(
        api.cuGraphAddKernelNode_v2(&nodes_[i], graph_, before, i > 0 ? 1 : 0, &node),
        "cuGraphAddKernelNode_v2");
  }));
  return context_->Check(api.cuGraphInstantiateWithFlags(&exec_, graph_, 0),
                         "cuGraphInstantiateWithFlags");
}

absl::Status CudaRecordedProgram::Update() const {
  const CudaApi& api = context_->api();
  return ForEach([&](const CuKernelNode& node, size_t i) UOPD_REQUIRES(mu_) {
    return context_->Check(api.cuGraphExecKernelNodeSetParams_v2(exec_, nodes_[i], &node),
                           "cuGraphExecKernelNodeSetParams_v2");
  });
}

absl::Status CudaRecordedProgram::Launch(CuStream stream, std::span<const CuPointer> buffers,
                                         CuPointer stop) const {
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
  return context_->Check(context_->api().cuGraphLaunch(exec_, stream), "cuGraphLaunch");
}

}  // namespace uopd::devices::cuda
