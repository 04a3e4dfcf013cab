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

// A call costs about as much as sending a megabyte. So inputs travel inside the request if they
// are at most this large and fit into a part of the largest message; others are uploaded before.
constexpr uint64_t kInlineBytes = 1 << 20, kInlineTotal = 4 << 20, kInlinePart = 4;
// Results that come with the answer: every tensor of at most kReturnBytes, and new tensors, which
// are often read at once, up to kReturnNewBytes and kReturnTotal in one answer.
constexpr uint64_t kReturnBytes = 256, kReturnNewBytes = 64 << 10, kReturnTotal = 1 << 20;
constexpr size_t kMostForms = 256;  // normalised graphs that are remembered

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

// The buffers that live tensors other than the pending ones read. These buffers must keep their
// contents and must not be freed.
NumberSet GraphState::ReadByOthers(std::span<const Pending> pending) {
  absl::flat_hash_set<const TensorState*> computed;
  for (const Pending& p : pending) computed.insert(p.state.get());
  NumberSet out;
  std::vector<UOp> lazy;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (!t->uop || computed.contains(t)) continue;
    if (t->replaces) {
      for (uint64_t number : NumbersOf(t->replaces)) out.Insert(number);
    }
    if (t->uop.Is(Op::BUFFER))
      out.Insert(static_cast<uint64_t>(t->uop.slot()));
    else
      lazy.push_back(t->uop);
  }
  if (lazy.empty()) return out;
  for (UOp u : ir::Toposort(*ctx_, lazy)) {
    if (u.Is(Op::BUFFER)) out.Insert(static_cast<uint64_t>(u.slot()));
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
    for (uint64_t number : NumbersOf(p.target)) buffers_.Remove(number);
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
      for (uint64_t old : NumbersOf(t.replaces))
        p.replaces &= !plan.kept.Contains(old) && !plan.written.Contains(old);
    }
    p.target = p.replaces ? t.replaces : NewTarget(t);
    outputs.push_back({t.uop, p.target, p.replaces});
    for (uint64_t number : NumbersOf(p.target)) {
      plan.written.Insert(number);
      if (!t.replaces) plan.made.Insert(number);
    }
  }
  auto form = Normalized(outputs);
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

absl::StatusOr<NormalForm> GraphState::Normalized(std::span<const Output> outputs) {
  std::vector<uint32_t> key;
  for (const Output& o : outputs)
    key.insert(key.end(), {o.value.id(), o.target.id(), o.replaces ? 1U : 0U});
  if (const auto known = forms_.find(key); known != forms_.end()) return known->second;
  UOPD_ASSIGN(NormalForm form, Normalize(*ctx_, outputs));
  if (forms_.size() >= kMostForms) forms_.clear();
  forms_.emplace(std::move(key), form);
  return form;
}

absl::Status GraphState::MakeZeros(std::span<const uint64_t> numbers) {
  std::vector<Output> outputs;
  for (uint64_t number : numbers) {
    const ClientBuffer& b = buffers_.at(number);
    if (!b.zeros || b.on_daemon) continue;
    const ir::Dims flat = {static_cast<int64_t>(b.bytes) / ir::ByteSize(b.dtype)};
    const UOp target = ir::Buffer(*ctx_, static_cast<int64_t>(number), b.dtype,
                                  ir::ShapeArg(*ctx_, flat), ir::AddrSpace::GLOBAL, b.device);
    outputs.push_back({ir::Expand(*ctx_, ctx_->Const(b.dtype, 0), flat), target, false});
  }
  if (outputs.empty()) return absl::OkStatus();
  UOPD_ASSIGN(const NormalForm form, Normalize(*ctx_, outputs));
  v1::ExecuteRequest request;
  for (uint64_t number : form.buffers)
    request.add_arguments()->set_buffer(buffers_.at(number).handle);
  UOPD_TRY(Send(request, form.sink).status());
  for (uint64_t number : form.buffers) buffers_.at(number).on_daemon = true;
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
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (buffers_.Has(number) && !plan.Keeps(number)) buffers_.Remove(number);
  }
  for (const Pending& p : plan.pending) Settle(p, *response, returned);
  Compact();
  return absl::OkStatus();
}

absl::StatusOr<v1::ExecuteResponse> GraphState::Run(const Plan& plan,
                                                    std::vector<uint64_t>& returned) {
  UOPD_TRY(MakeZeros(plan.form.buffers));
  v1::ExecuteRequest request;
  auto response = Run(plan, request, returned);
  if (response.ok()) return response;
  // The tensors stay as they were.
  for (int i = 0; i < request.arguments_size(); ++i) {
    v1::Argument& a = *request.mutable_arguments(i);
    if (a.has_data())
      buffers_.at(plan.form.buffers[static_cast<size_t>(i)]).data = std::move(*a.mutable_data());
  }
  return response;
}

absl::StatusOr<v1::ExecuteResponse> GraphState::Run(const Plan& plan, v1::ExecuteRequest& request,
                                                    std::vector<uint64_t>& returned) {
  Room room{.sent = std::min(kInlineTotal, executor_->max_message_bytes() / kInlinePart),
            .returned = std::min(kReturnTotal, executor_->max_message_bytes() / kInlinePart)};
  for (uint64_t number : plan.form.buffers) {
    UOPD_TRY(AddArgument(plan, number, room, request, returned));
  }
  for (int64_t v : plan.form.variables) request.add_variables(v);
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (!buffers_.Has(number) || plan.Keeps(number)) continue;
    if (const ClientBuffer& b = buffers_.at(number); b.on_daemon)
      request.add_free_buffers(b.handle);
  }
  UOPD_ASSIGN(v1::ExecuteResponse response, Send(request, plan.form.sink));
  UOPD_TRY(CheckResults(response, returned));
  Count(response);
  for (int i = 0; i < request.arguments_size(); ++i) {
    const v1::Argument& a = request.arguments(i);
    stats_.inline_bytes += a.data().size();
    if (a.buffer() != 0) buffers_.at(plan.form.buffers[static_cast<size_t>(i)]).LeaveToDaemon();
  }
  return response;
}

absl::Status GraphState::AddArgument(const Plan& plan, uint64_t number, Room& room,
                                     v1::ExecuteRequest& request, std::vector<uint64_t>& returned) {
  ClientBuffer& b = buffers_.at(number);
  v1::Argument& a = *request.add_arguments();
  if (b.has_data && (b.bytes > kInlineBytes || b.bytes > room.sent)) {
    UOPD_TRY(WithFrame(executor_->Upload(b.handle, b.device, b.data), "uploading a tensor"));
    stats_.uploaded_bytes += b.bytes;
    b.LeaveToDaemon();
  } else if (b.has_data) {
    a.set_data(std::move(b.data));
    room.sent -= b.bytes;
  }
  if (plan.Keeps(number) || b.on_daemon) a.set_buffer(b.handle);
  const bool small = plan.written.Contains(number) && b.bytes <= kReturnBytes;
  const bool made =
      plan.made.Contains(number) && b.bytes <= std::min(kReturnNewBytes, room.returned);
  if (small || made) {
    a.set_return_data(true);
    returned.push_back(number);
    room.returned -= std::min(room.returned, b.bytes);
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
  for (uint64_t number : NumbersOf(p.target)) {
    const auto at = std::find(returned.begin(), returned.end(), number);
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
  std::vector<uint64_t> numbers = NumbersOf(t->uop);
  if (t->uop.Is(Op::MULTI) && t->uop.ints().empty()) numbers.resize(1);  // all pieces are equal
  std::vector<std::string> pieces;
  for (uint64_t number : numbers) {
    UOPD_ASSIGN(pieces.emplace_back(), ReadBuffer(number));
  }
  return JoinedBytes(*ctx_, t->uop, std::move(pieces));
}

absl::StatusOr<std::string> GraphState::ReadBuffer(uint64_t number) {
  const ClientBuffer& b = buffers_.at(number);
  if (b.has_data) return b.data;
  UOPD_TRY(MakeZeros(std::span(&number, 1)));
  ++stats_.downloads;
  UOPD_ASSIGN(std::string out, executor_->Download(b.handle, b.bytes));
  if (out.size() != b.bytes)
    return absl::InternalError(Cat("download gave ", out.size(), " bytes of ", b.bytes));
  return out;
}

}  // namespace uopd::client
