// SPDX-License-Identifier: MIT
// GraphState::Realize and Read: from live tensors to one Execute request and back.
#include <algorithm>

#include "client/cpp/graph_state.h"
#include "client/cpp/tensor.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"

namespace uopd::client {
namespace {

constexpr uint64_t kInlineBytes = 64 * 1024;  // larger inputs go through an upload stream
constexpr uint64_t kReturnBytes = 256;        // results up to this size come with the answer

using ir::Op;
using ir::UOp;

// Joins the contents of the pieces of a stored value.
std::string JoinedBytes(ir::UOpContext& ctx, UOp stored, std::vector<std::string> pieces) {
  if (stored.Is(Op::BUFFER) || stored.ints().empty()) return std::move(pieces[0]);
  const auto axis = static_cast<size_t>(stored.ints()[0]);
  const ir::Dims dims = *ir::StaticDims(*ctx.ShapeOf(stored));
  std::string out;
  // Copies, for each row, the part of each piece in order.
  const int64_t rows = ir::Product(std::span(dims).first(axis));
  for (int64_t r = 0; r < rows; ++r) {
    for (const std::string& piece : pieces) {
      const size_t length = piece.size() / static_cast<size_t>(rows);
      out.append(piece, static_cast<size_t>(r) * length, length);
    }
  }
  return out;
}

}  // namespace

// Handles of the buffers that live tensors other than the pending ones read. These buffers must
// keep their contents and must not be freed.
absl::flat_hash_set<uint64_t> GraphState::ReadByOthers(std::span<const Pending> pending) {
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : pending) computed.insert(p.state.get());
  absl::flat_hash_set<uint64_t> out;
  std::vector<UOp> lazy;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || computed.contains(t)) continue;
    if (t->replaces) {
      for (uint64_t handle : HandlesOf(t->replaces)) out.insert(handle);
    }
    if (t->uop.Is(Op::BUFFER))
      out.insert(static_cast<uint64_t>(t->uop.slot()));
    else
      lazy.push_back(t->uop);
  }
  if (lazy.empty()) return out;
  for (UOp u : ir::Toposort(*ctx_, lazy)) {
    if (u.Is(Op::BUFFER)) out.insert(static_cast<uint64_t>(u.slot()));
  }
  return out;
}

absl::StatusOr<std::string> GraphState::Wire(UOp sink) {
  UOPD_TRY(Verified(sink));
  UOPD_TRY(ir::VerifyRoot(*ctx_, sink, ir::Level::kTensor));
  return ir::Encode(*ctx_, sink);
}

absl::StatusOr<v1::ExecuteResponse> GraphState::Send(v1::ExecuteRequest& request, UOp sink) {
  auto memo = digests_.find(sink.id());
  std::string graph;
  if (memo == digests_.end()) {
    UOPD_ASSIGN(graph, Wire(sink));
    memo = digests_.emplace(sink.id(), HashBytes(graph)).first;
  }
  request.set_digest(std::string(memo->second.view()));
  request.set_request_id(executor_->NewRequestId());
  *request.mutable_options() = options_.execution;
  absl::StatusOr<v1::ExecuteResponse> response = executor_->Execute(request);
  if (!absl::IsNotFound(response.status())) return response;
  // The daemon does not know the graph (or has forgotten it).
  request.set_graph(graph.empty() ? ir::Encode(*ctx_, sink) : std::move(graph));
  request.set_request_id(executor_->NewRequestId());
  response = executor_->Execute(request);
  if (response.ok()) ++stats_.graphs_sent;
  return response;
}

void GraphState::Discard(std::span<const Pending> pending) {
  for (const Pending& p : pending) {
    if (!p.target || p.replaces) continue;
    for (uint64_t handle : HandlesOf(p.target)) buffers_.erase(handle);
  }
}

UOp GraphState::NewTarget(const TensorState& t) {
  auto buffer = [&](const ir::Dims& dims, std::string_view device) {
    return NewBuffer(t.dtype, dims, device,
                     static_cast<uint64_t>(ir::Product(dims) * ir::ByteSize(t.dtype)));
  };
  if (!InPieces(t.uop)) return buffer(t.dims, t.device);
  const ir::Layout layout = LayoutOf(t.uop);
  std::vector<UOp> pieces;
  for (size_t i = 0; i < layout.devices.size(); ++i) {
    ir::Dims dims = t.dims;
    if (layout.sharded()) dims[static_cast<size_t>(layout.axis)] = layout.sizes[i];
    pieces.push_back(buffer(dims, layout.devices[i]));
  }
  const ir::Dims axis = layout.sharded() ? ir::Dims{layout.axis} : ir::Dims{};
  return ctx_->Make(Op::MULTI, t.dtype, pieces, ctx_->Data(axis, ""));
}

absl::StatusOr<GraphState::Plan> GraphState::MakePlan(
    std::span<const std::shared_ptr<TensorState>> tensors) {
  Plan plan;
  absl::flat_hash_set<const TensorState*> seen;
  for (const auto& t : tensors) {
    if (t == nullptr) return absl::FailedPreconditionError("an empty tensor cannot be computed");
    if (!t->error.ok()) return t->error;
    if (t->graph.get() != this)
      return absl::InvalidArgumentError("tensors of different clients cannot be computed together");
    if (t->symbolic) {
      return absl::InvalidArgumentError(
          "a tensor with a symbolic dimension cannot be computed by itself");
    }
    UOPD_TRY(Verified(t->uop));
    if ((IsStored(t->uop) && !t->replaces) || ir::Product(t->dims) == 0 ||
        !seen.insert(t.get()).second)
      continue;
    plan.pending.push_back({t, UOp(), false});
  }
  if (plan.pending.empty()) return plan;

  // An assigned tensor is written in place if nobody else reads the old contents; otherwise it gets
  // a new buffer.
  plan.kept = ReadByOthers(plan.pending);
  std::vector<Output> outputs;
  for (Pending& p : plan.pending) {
    TensorState& t = *p.state;
    p.replaces = static_cast<bool>(t.replaces);
    if (p.replaces) {
      for (uint64_t old : HandlesOf(t.replaces))
        p.replaces &= !plan.kept.contains(old) && !plan.written.contains(old);
    }
    p.target = p.replaces ? t.replaces : NewTarget(t);
    outputs.push_back({t.uop, p.target, p.replaces});
    for (uint64_t handle : HandlesOf(p.target)) plan.written.insert(handle);
  }
  auto form = Normalize(*ctx_, outputs);
  if (!form.ok()) {
    Discard(plan.pending);
    return form.status();
  }
  plan.form = *std::move(form);
  return plan;
}

absl::StatusOr<Exported> GraphState::Export(std::span<const std::shared_ptr<TensorState>> tensors) {
  UOPD_ASSIGN(const Plan plan, MakePlan(tensors));
  Discard(plan.pending);
  if (plan.pending.empty())
    return absl::InvalidArgumentError("there is nothing to compute: the tensors are realised");
  Exported out;
  UOPD_ASSIGN(out.graph, Wire(plan.form.sink));
  out.digest = std::string(HashBytes(out.graph).view());
  out.nodes = ir::Toposort(*ctx_, plan.form.sink).size();
  out.slots = plan.form.buffers.size();
  return out;
}

absl::Status GraphState::MakeZeros(std::span<const uint64_t> handles) {
  std::vector<Output> outputs;
  for (uint64_t handle : handles) {
    const Buffer& b = buffers_.at(handle);
    if (!b.zeros || b.on_daemon) continue;
    const ir::Dims flat = {static_cast<int64_t>(b.bytes) / ir::ByteSize(b.dtype)};
    const UOp target = ir::Buffer(*ctx_, static_cast<int64_t>(handle), b.dtype,
                                  ir::ShapeArg(*ctx_, flat), ir::AddrSpace::GLOBAL, b.device);
    outputs.push_back({ir::Expand(*ctx_, ctx_->Const(b.dtype, 0), flat), target, false});
  }
  if (outputs.empty()) return absl::OkStatus();
  UOPD_ASSIGN(const NormalForm form, Normalize(*ctx_, outputs));
  v1::ExecuteRequest request;
  for (uint64_t handle : form.buffers) request.add_arguments()->set_buffer(handle);
  UOPD_TRY(Send(request, form.sink).status());
  for (uint64_t handle : form.buffers) buffers_.at(handle).on_daemon = true;
  ++stats_.executes;
  return absl::OkStatus();
}

absl::Status GraphState::Realize(std::span<const std::shared_ptr<TensorState>> tensors) {
  UOPD_ASSIGN(const Plan plan, MakePlan(tensors));
  if (plan.pending.empty()) return absl::OkStatus();
  std::vector<uint64_t> returned;
  auto response = Run(plan, returned);
  if (!response.ok()) {
    Discard(plan.pending);
    return response.status();
  }
  std::erase_if(buffers_, [&](const auto& entry) { return !plan.Keeps(entry.first); });
  for (const Pending& p : plan.pending) Settle(p, *response, returned);
  Compact();
  return absl::OkStatus();
}

absl::StatusOr<v1::ExecuteResponse> GraphState::Run(const Plan& plan,
                                                    std::vector<uint64_t>& returned) {
  UOPD_TRY(MakeZeros(plan.form.buffers));
  v1::ExecuteRequest request;
  for (uint64_t handle : plan.form.buffers) {
    UOPD_TRY(AddArgument(plan, handle, request, returned));
  }
  for (int64_t v : plan.form.variables) request.add_variables(v);
  for (const auto& [handle, b] : buffers_) {
    if (b.on_daemon && !plan.Keeps(handle)) request.add_free_buffers(handle);
  }
  UOPD_ASSIGN(v1::ExecuteResponse response, Send(request, plan.form.sink));
  UOPD_TRY(CheckResults(response, returned));
  Count(response);
  for (const v1::Argument& a : request.arguments()) {
    stats_.inline_bytes += a.data().size();
    if (a.buffer() != 0) buffers_.at(a.buffer()).LeaveToDaemon();
  }
  return response;
}

absl::Status GraphState::AddArgument(const Plan& plan, uint64_t handle, v1::ExecuteRequest& request,
                                     std::vector<uint64_t>& returned) {
  Buffer& b = buffers_.at(handle);
  v1::Argument& a = *request.add_arguments();
  if (b.has_data && b.bytes > kInlineBytes) {
    UOPD_TRY(WithFrame(executor_->Upload(handle, b.device, b.data), "uploading a tensor"));
    stats_.uploaded_bytes += b.bytes;
    b.LeaveToDaemon();
  } else if (b.has_data) {
    a.set_data(b.data);
  }
  if (plan.Keeps(handle) || b.on_daemon) a.set_buffer(handle);
  if (plan.written.contains(handle) && b.bytes <= kReturnBytes) {
    a.set_return_data(true);
    returned.push_back(handle);
  }
  return absl::OkStatus();
}

absl::Status GraphState::CheckResults(const v1::ExecuteResponse& response,
                                      std::span<const uint64_t> returned) const {
  if (static_cast<size_t>(response.data_size()) != returned.size()) {
    return absl::InternalError(
        Cat("the daemon returned ", response.data_size(), " results, not ", returned.size()));
  }
  for (size_t i = 0; i < returned.size(); ++i) {
    const size_t bytes = response.data(static_cast<int>(i)).size();
    if (bytes != buffers_.at(returned[i]).bytes) {
      return absl::InternalError(Cat("result ", i, " has ", bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

void GraphState::Count(const v1::ExecuteResponse& response) {
  ++stats_.executes;
  stats_.kernels_compiled += response.cache().kernels_compiled();
  stats_.kernels_disk += response.cache().kernels_disk();
  stats_.kernels_memory += response.cache().kernels_memory();
  stats_.kernels_tuned = response.cache().kernels_tuned();
  stats_.schedule_misses += response.cache().schedule() == v1::CACHE_RESULT_MISS;
  stats_.last_run_us = response.timings().run_us();
}

void GraphState::Settle(const Pending& p, const v1::ExecuteResponse& response,
                        std::span<const uint64_t> returned) {
  TensorState& t = *p.state;
  t.uop = p.target;
  t.replaces = UOp();
  t.has_host = false;
  t.host = std::string();
  std::vector<std::string> pieces;
  const std::vector<uint64_t> handles = HandlesOf(p.target);
  for (uint64_t handle : handles) {
    const auto at = std::find(returned.begin(), returned.end(), handle);
    if (at == returned.end()) return;
    pieces.push_back(response.data(static_cast<int>(at - returned.begin())));
  }
  t.host = JoinedBytes(*ctx_, p.target, std::move(pieces));
  t.has_host = true;
}

absl::StatusOr<std::string> GraphState::Read(const std::shared_ptr<TensorState>& t) {
  if (!t->error.ok()) return t->error;
  if (ir::Product(t->dims) == 0) return std::string();
  UOPD_TRY(Realize(std::span(&t, 1)));
  if (t->has_host) return t->host;
  std::vector<uint64_t> handles = HandlesOf(t->uop);
  if (t->uop.Is(Op::MULTI) && t->uop.ints().empty()) handles.resize(1);  // all pieces are equal
  std::vector<std::string> pieces;
  for (uint64_t handle : handles) {
    UOPD_ASSIGN(pieces.emplace_back(), ReadBuffer(handle));
  }
  return JoinedBytes(*ctx_, t->uop, std::move(pieces));
}

absl::StatusOr<std::string> GraphState::ReadBuffer(uint64_t handle) {
  const Buffer& b = buffers_.at(handle);
  if (b.has_data) return b.data;
  UOPD_TRY(MakeZeros(std::span(&handle, 1)));
  ++stats_.downloads;
  UOPD_ASSIGN(std::string out, executor_->Download(handle, b.bytes));
  if (out.size() != b.bytes)
    return absl::InternalError(Cat("download gave ", out.size(), " bytes of ", b.bytes));
  return out;
}

}  // namespace uopd::client
