// SPDX-License-Identifier: MIT
// A daemon in process: runs the graphs of a Client with the reference evaluator and remembers what
// it was sent. With check_schedule, every graph is scheduled too, its kernels are interpreted one
// by one, and the results must agree.
#pragma once
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/support/models/sync_executor.h"
#include "tests/support/schedule_interpreter.h"
#include "tests/support/tensor_interpreter.h"

namespace uopd::client {

class InterpreterExecutor : public SyncExecutor {
 public:
  absl::StatusOr<v1::ExecuteResponse> Execute(v1::ExecuteRequest& request) override {
    traffic_.execute_bytes += request.ByteSizeLong();
    requests.push_back(request);
    if (!fail_with.ok()) return fail_with;
    if (!request.graph().empty()) {
      if (HashBytes(request.graph()).view() != request.digest())
        return absl::InvalidArgumentError("the digest is not the graph's");
      graphs_[request.digest()] = request.graph();
    }
    auto known = graphs_.find(request.digest());
    if (known == graphs_.end()) return absl::NotFoundError("unknown digest");
    ir::UOpContext ctx;
    UOPD_ASSIGN(ir::UOp sink, ir::Decode(ctx, known->second, ir::Level::kTensor));
    std::vector<test::HostArray> slots(static_cast<size_t>(request.arguments_size()));
    std::set<std::string> devices;
    // What is not stored whole before it is looked at.
    std::set<uint32_t> read;
    const std::vector<ir::UOp> order = ir::Toposort(ctx, sink);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const ir::UOp u = *it;
      // A target; of new memory the rest is 0.
      if (u.Is(ir::kMovementOps | ir::OpSet{ir::Op::MULTI}) && !read.contains(u.id())) continue;
      for (size_t i = 0; i < u.n_src(); ++i) {
        const bool stored = (u.Is(ir::Op::STORE) || u.Is(ir::Op::AFTER)) && i == 0;
        if (!stored) read.insert(u.src(i).id());
      }
    }
    for (ir::UOp u : order) {
      if (!u.Is(ir::Op::PARAM)) continue;
      const auto slot = static_cast<size_t>(u.slot());
      if (slot >= slots.size())
        return absl::InvalidArgumentError(Cat("slot ", slot, " has no argument"));
      const v1::Argument& a = request.arguments(static_cast<int>(slot));
      const ir::Dims dims = *ir::StaticDims(*ctx.ShapeOf(u));
      const auto bytes = static_cast<size_t>(ir::Product(dims) * ir::ByteSize(u.dtype()));
      std::string data(bytes, '\0');
      if (a.has_data())
        data = a.data();
      else if (auto it = buffers.find(a.buffer()); it != buffers.end())
        data = it->second;
      else if (read.contains(u.id()))
        return absl::InvalidArgumentError(Cat("slot ", slot, ", which is read, is unknown"));
      if (data.size() != bytes)
        return absl::InvalidArgumentError(Cat("slot ", slot, " has the wrong size"));
      slots[slot] = test::HostArray::FromBytes(u.dtype(), dims, data);
    }
    std::map<std::string, int64_t> variables;
    const auto names = ir::Variables(ctx, sink);
    if (static_cast<int>(names.size()) != request.variables_size())
      return absl::InvalidArgumentError("wrong number of variables");
    for (size_t i = 0; i < names.size(); ++i)
      variables[std::string(names[i].text())] = request.variables(static_cast<int>(i));
    UOPD_ASSIGN(std::vector<test::HostArray> after,
                test::TensorInterpreter(ctx).Run(sink, slots, variables));
    if (check_schedule) UOPD_TRY(CheckSchedule(ctx, sink, slots, variables, after));
    v1::ExecuteResponse response;
    for (int i = 0; i < request.arguments_size(); ++i) {
      const v1::Argument& a = request.arguments(i);
      if (a.return_data()) response.add_data(after[static_cast<size_t>(i)].ToBytes());
      if (a.buffer() != 0) buffers[a.buffer()] = after[static_cast<size_t>(i)].ToBytes();
    }
    for (uint64_t handle : request.free_buffers()) {
      if (buffers.erase(handle) == 0)
        return absl::InvalidArgumentError(Cat("buffer ", handle, " freed twice"));
    }
    response.mutable_cache()->set_kernels_memory(1);
    return response;
  }

  absl::Status UploadNow(uint64_t handle, std::string_view, std::string_view bytes) override {
    traffic_.upload_bytes += bytes.size();
    buffers[handle] = std::string(bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> DownloadNow(uint64_t handle, uint64_t) override {
    auto it = buffers.find(handle);
    if (it == buffers.end()) return absl::NotFoundError("no such buffer");
    return it->second;
  }

  void ForgetGraphs() { graphs_.clear(); }
  std::string_view default_device() const override { return default_name; }

  bool check_schedule = false;
  std::string default_name;
  std::map<uint64_t, std::string> buffers;
  std::vector<v1::ExecuteRequest> requests;
  absl::Status fail_with;

 private:
  static absl::Status CheckSchedule(ir::UOpContext& ctx, ir::UOp sink,
                                    const std::vector<test::HostArray>& before,
                                    const std::map<std::string, int64_t>& variables,
                                    const std::vector<test::HostArray>& after) {
    UOPD_ASSIGN(const schedule::Schedule schedule, schedule::MakeSchedule(ctx, sink, {}));
    UOPD_ASSIGN(const std::vector<test::HostArray> got,
                test::RunSchedule(schedule, before, variables));
    for (size_t i = 0; i < after.size(); ++i) {
      const std::vector<double> x = got[i].ToDoubles(), y = after[i].ToDoubles();
      // Kernels may round intermediate values elsewhere than the tensor graph says.
      const double error = !ir::IsFloat(after[i].dtype)     ? 0
                           : ir::Bits(after[i].dtype) == 64 ? 1e-12
                           : ir::Bits(after[i].dtype) == 32 ? 1e-5
                                                            : 1e-2;
      for (size_t k = 0; k < x.size(); ++k) {
        const bool same = x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k])) ||
                          std::abs(x[k] - y[k]) <= error * std::max(1.0, std::abs(y[k]));
        if (!same) {
          return absl::InternalError(Cat("the schedule gives ", x[k], " for element ", k,
                                         " of slot ", i, ", which is ", y[k]));
        }
      }
    }
    return absl::OkStatus();
  }

  std::map<std::string, std::string> graphs_;
};

}  // namespace uopd::client
