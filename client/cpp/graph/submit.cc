// SPDX-License-Identifier: MIT
// GraphState: sends the request of a plan, and takes its answer.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "client/cpp/graph/graph_state.h"
#include "client/cpp/jit/recording.h"
#include "core/base/text.h"
#include "core/ir/build.h"

namespace uopd::client {
namespace {

// A call costs about as much as sending a megabyte. So inputs travel inside the request if they
// are at most this large and fit into a part of the largest message; others are uploaded before.
constexpr uint64_t kInlineBytes = 1 << 20, kInlineTotal = 4 << 20, kInlinePart = 4;
// Results that come with the answer: every tensor of at most kReturnBytes, and new tensors, which
// are often read at once, up to kReturnNewBytes and kReturnTotal in one answer.
constexpr uint64_t kReturnBytes = 256, kReturnNewBytes = 64 << 10, kReturnTotal = 1 << 20;

using ir::UOp;

}  // namespace

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
  Call call;
  UOPD_TRY(Complete(call, form.sink));
  Sent sent;
  sent.counted = sent.settled = true;
  for (uint64_t number : form.buffers) {
    const ClientBuffer& b = buffers_.at(number);
    call.arguments.push_back({.handle = b.handle, .made = true});
    sent.made.emplace_back(number, b.handle);
  }
  if (Recording* const r = RecorderOfCalls()) r->Add(call, form.buffers, *ctx_, form.sink);
  Launch(std::move(call), std::move(sent));
  return absl::OkStatus();
}

void GraphState::Launch(Call call, Sent sent) {
  sent.answer = executor_->Submit(std::move(call));
  for (const auto* list : {&sent.inputs, &sent.made}) {
    for (const auto& [number, handle] : *list) {
      buffers_.at(number).on_daemon = true;
      buffers_.at(number).maker = sent.answer.future;
    }
  }
  for (const auto& [number, handle] : sent.again) buffers_.at(number).maker = sent.answer.future;
  sent_.push_back(std::move(sent));
}

absl::Status GraphState::CheckMade(std::span<const uint64_t> numbers) const {
  for (uint64_t number : numbers) {
    const ClientBuffer& b = buffers_.at(number);
    if (b.maker && b.maker->Done()) UOPD_TRY(b.maker->Wait());
    if (b.on_daemon) UOPD_TRY(executor_->Held(b.handle));
  }
  return absl::OkStatus();
}

GraphState::Room GraphState::NewRoom() const {
  const uint64_t part = executor_->max_message_bytes() / kInlinePart;
  return {.sent = std::min(kInlineTotal, part), .returned = std::min(kReturnTotal, part)};
}

absl::Status GraphState::Bind(uint64_t number, bool kept, Room& room, Argument& a, Sent& sent) {
  ClientBuffer& b = buffers_.at(number);
  if (b.must_send() && (b.bytes > kInlineBytes || b.bytes > room.sent)) {
    UOPD_TRY(UploadBuffer(number));
  } else if (b.must_send()) {
    a.data = b.data;
    room.sent -= b.bytes;
    stats_.inline_bytes += b.bytes;
    if (kept) sent.inputs.emplace_back(number, b.handle);
  } else if (!b.on_daemon) {
    a.made = true;
    sent.made.emplace_back(number, b.handle);
  }
  if (kept || b.on_daemon) a.handle = b.handle;
  return absl::OkStatus();
}

absl::Status GraphState::UploadBuffer(uint64_t number) {
  ClientBuffer& b = buffers_.at(number);
  Sent upload;
  upload.answer.future = executor_->Upload(b.handle, b.device, b.data);
  upload.inputs.emplace_back(number, b.handle);
  if (upload.answer.future.Done())
    UOPD_TRY(WithFrame(upload.answer.future.Wait(), "uploading a tensor"));
  stats_.uploaded_bytes += b.bytes;
  b.on_daemon = true;
  b.maker = upload.answer.future;
  sent_.push_back(std::move(upload));
  return absl::OkStatus();
}

Future GraphState::Upload(const std::shared_ptr<TensorState>& t) {
  if (!t->error.ok()) return Future(t->error);
  Poll();
  if (!IsStored(t->uop)) return Future();
  for (uint64_t number : NumbersOf(t->uop)) {
    if (!buffers_.at(number).must_send() || buffers_.at(number).bytes == 0) continue;
    if (absl::Status status = UploadBuffer(number); !status.ok()) return Future(status);
    return *buffers_.at(number).maker;  // contents from this process are one buffer
  }
  return Future();
}

absl::Status GraphState::AddArgument(const Plan& plan, uint64_t number, Room& room, Call& call,
                                     Sent& sent, std::vector<uint64_t>& returned) {
  ClientBuffer& b = buffers_.at(number);
  Argument& a = call.arguments.emplace_back();
  // A recorded call will find its arguments on the daemon.
  UOPD_TRY(Bind(number, plan.Keeps(number) || !recordings_.empty(), room, a, sent));
  if (plan.written.Contains(number)) ++b.version;
  const bool small = plan.written.Contains(number) && b.bytes <= kReturnBytes;
  const bool made =
      plan.made.Contains(number) && b.bytes <= std::min(kReturnNewBytes, room.returned);
  if (small || made) {
    a.return_data = true;
    returned.push_back(number);
    room.returned -= std::min(room.returned, b.bytes);
  }
  return absl::OkStatus();
}

absl::Status GraphState::Send(const Plan& plan, std::vector<uint64_t>& returned) {
  UOPD_TRY(CheckMade(plan.form.buffers));
  UOPD_TRY(MakeZeros(plan.form.buffers));
  Call call;
  UOPD_TRY(Complete(call, plan.form.sink));
  Sent sent;
  sent.counted = true;
  Room room = NewRoom();
  for (uint64_t number : plan.form.buffers) {
    UOPD_TRY(AddArgument(plan, number, room, call, sent, returned));
  }
  call.variables.assign(plan.form.variables.begin(), plan.form.variables.end());
  for (uint64_t number = 0; recordings_.empty() && number < buffers_.end(); ++number) {
    if (!buffers_.Has(number) || plan.Keeps(number)) continue;
    if (const ClientBuffer& b = buffers_.at(number); b.on_daemon) sent.frees.push_back(b.handle);
  }
  sent.orphans.swap(orphans_);
  call.free_buffers = sent.frees;
  call.free_buffers.insert(call.free_buffers.end(), sent.orphans.begin(), sent.orphans.end());
  if (Recording* const r = RecorderOfCalls()) {
    r->Add(call, plan.form.buffers, *ctx_, plan.form.sink, plan.form.conditions);
    std::vector<UOp> values;
    for (const Pending& p : plan.pending) values.push_back(p.state->uop);
    r->NoteUsed(values);
  }
  Launch(std::move(call), std::move(sent));
  return absl::OkStatus();
}

std::vector<uint64_t> GraphState::RemoveUnneeded(Plan plan) {
  PlanHistories(plan);
  std::vector<uint64_t> frees;
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (!buffers_.Has(number) || plan.Keeps(number)) continue;
    if (const ClientBuffer& b = buffers_.at(number); b.on_daemon) frees.push_back(b.handle);
    Remove(number);
  }
  return frees;
}

absl::Status GraphState::Compute(std::span<const std::shared_ptr<TensorState>> tensors, bool wait) {
  Poll();
  UOPD_TRY(TakeError());
  UOPD_ASSIGN(Plan plan, MakePlan(tensors));
  if (plan.pending.empty()) return absl::OkStatus();
  std::vector<uint64_t> returned;
  absl::Status status = Send(plan, returned);
  Answer answer;
  if (status.ok()) {
    sent_.back().settled = !wait;
    sent_.back().told = wait;
    answer = sent_.back().answer;
    if (wait) {
      status = answer.future.Wait();
      Poll();
    }
  }
  if (!status.ok()) {
    Discard(plan.pending);
    return status;
  }
  for (uint64_t number = 0; recordings_.empty() && number < buffers_.end(); ++number) {
    if (buffers_.Has(number) && !plan.Keeps(number)) Remove(number);
  }
  if (recordings_.empty()) {  // nothing is kept that nobody needs
    contents_ = 0;
    most_contents_ = kLeastContents;
  }
  const Histories::Moment now = histories_.Now(executor_->NewHandle());
  // First what ends histories: those that UseStored changes and the new ones read the new contents.
  for (const Pending& p : plan.pending) {
    for (uint64_t number : NumbersOf(p.target))
      NoteWritten(number, static_cast<bool>(p.state->replaces));
  }
  UseStored(plan.pending);
  // A history may read what the same request stores, and comes after the history of that.
  std::ranges::sort(plan.pending, {}, [](const Pending& p) { return p.state->uop.id(); });
  for (Pending& p : plan.pending) Settle(p, now, answer, returned);
  Compact();
  return absl::OkStatus();
}

absl::Status GraphState::Submit(std::span<const std::shared_ptr<TensorState>> tensors) {
  return Compute(tensors, false);
}

absl::Status GraphState::Realize(std::span<const std::shared_ptr<TensorState>> tensors) {
  UOPD_TRY(Compute(tensors, true));
  // Tensors that were submitted before.
  for (const auto& t : tensors) {
    if (t == nullptr || !t->uop || !IsStored(t->uop)) continue;
    for (uint64_t number : NumbersOf(t->uop)) {
      if (const auto& maker = buffers_.at(number).maker) UOPD_TRY(maker->Wait());
    }
  }
  Poll();
  return absl::OkStatus();
}

void GraphState::UseStored(std::span<const Pending> pending) {
  absl::flat_hash_set<const TensorState*> computed;
  ir::Substitution stored;
  std::vector<std::pair<UOp, const Pending*>> constants;
  uint32_t oldest = UINT32_MAX;
  // What a recorded function makes itself is computed by replays, even if it is equal to a value
  // that is computed apart now.
  const Recording* const recorder = apart_ ? Recorder() : nullptr;
  absl::flat_hash_set<uint32_t> touched;  // ids of values that the function uses
  for (const Pending& p : pending) {
    computed.insert(p.state.get());
    const UOp value = p.state->uop;
    if (recorder != nullptr && recorder->Touches(*p.state)) touched.insert(value.id());
    if (!WillBeStored(value)) {
      // Other constants are computed again: tensors that were made apart must not come to share a
      // buffer.
      if (!StandsForItsValue(*p.state)) continue;
      constants.emplace_back(value, &p);
      histories_.Stored(*ctx_, value, p.target, p.state->since);
      continue;
    }
    stored.try_emplace(value.id(), p.target);
    oldest = std::min(oldest, value.id());
    histories_.Stored(*ctx_, value, p.target);
  }
  ir::Substitution used;
  for (const auto& [id, target] : stored) {
    if (touched.contains(id)) used.emplace(id, target);
  }
  for (TensorState* t = oldest_; t != nullptr && !stored.empty(); t = t->newer) {
    // A tensor of the same value gets a buffer of its own.
    if (!t->uop || computed.contains(t) || t->uop.id() <= oldest || stored.contains(t->uop.id()))
      continue;
    const bool recorded = recorder != nullptr && t->writer == recorder->id();
    t->uop = ReplaceValues(*ctx_, t->uop, recorded ? used : stored);
  }
  for (TensorState* t = oldest_; t != nullptr && !constants.empty(); t = t->newer) {
    if (!t->uop || IsStored(t->uop) || computed.contains(t)) continue;
    ir::Substitution older;
    for (const auto& [value, p] : constants) {
      const bool made_of_it = p->state->since < t->since && value.id() < t->uop.id();
      if (made_of_it || (t->uop == value && IsWhole(*t, *p->state)))
        older.emplace(value.id(), p->target);
    }
    if (!older.empty()) t->uop = ReplaceValues(*ctx_, t->uop, older);
  }
}

bool GraphState::StandsForItsValue(const TensorState& tensor) const {
  if (!ir::IsFloat(tensor.dtype) || !tensor.requires_grad.value_or(true) || IsStored(tensor.uop))
    return false;
  for (const TensorState* t = oldest_; t != nullptr; t = t->newer) {
    if (t != &tensor && t->uop == tensor.uop && !IsWhole(*t, tensor)) return false;
  }
  return true;
}

void GraphState::Settle(Pending& p, Histories::Moment now, const Answer& answer,
                        std::span<const uint64_t> returned) {
  TensorState& t = *p.state;
  now.since = t.since;  // its graph has no values that are younger
  if (p.history) histories_.Add(p.target, p.history, std::move(p.reads), now);
  if (p.ended) histories_.AddEnded(p.target, p.below, now);
  t.uop = p.target;
  t.replaces = UOp();
  TakeContents(t, answer, returned);
}

void GraphState::TakeContents(TensorState& t, const Answer& answer,
                              std::span<const uint64_t> returned) {
  t.answer = {};
  t.places.clear();
  std::vector<size_t> places;
  const std::vector<uint64_t> numbers = NumbersOf(t.uop);
  for (uint64_t number : numbers) {
    const auto at = std::find(returned.begin(), returned.end(), number);
    if (at == returned.end()) return;
    places.push_back(static_cast<size_t>(at - returned.begin()));
  }
  t.answer = answer;
  t.places = std::move(places);
  t.version = buffers_.at(numbers[0]).version;
}

void GraphState::Poll() {
  while (!sent_.empty() && sent_.front().answer.future.Done()) {
    Take(sent_.front());
    sent_.pop_front();
  }
}

void GraphState::Take(const Sent& sent) {
  auto find = [&](const std::pair<uint64_t, uint64_t>& buffer) -> ClientBuffer* {
    const auto [number, handle] = buffer;
    const bool same =
        number < buffers_.end() && buffers_.Has(number) && buffers_.at(number).handle == handle;
    return same ? &buffers_.at(number) : nullptr;
  };
  const absl::Status status = sent.answer.future.Wait();
  for (const auto& input : sent.inputs) {
    ClientBuffer* const b = find(input);
    if (b == nullptr) continue;
    b->maker.reset();
    if (status.ok()) {
      b->data.reset();
    } else {
      b->on_daemon = false;  // it is sent again
      b->version = 0;        // nothing was written over it
    }
  }
  for (const auto& made : sent.made) {
    ClientBuffer* const b = find(made);
    if (b == nullptr) continue;
    b->on_daemon = status.ok();
    if (status.ok() || b->zeros) b->maker.reset();
  }
  for (const auto& again : sent.again) {
    if (ClientBuffer* const b = find(again); b != nullptr && status.ok()) b->maker.reset();
  }
  if (!status.ok()) {
    orphans_.insert(orphans_.end(), sent.orphans.begin(), sent.orphans.end());
    if (sent.settled) orphans_.insert(orphans_.end(), sent.frees.begin(), sent.frees.end());
    const bool told = sent.told || (sent.told_later != nullptr && sent.told_later->load());
    if (!told) error_.Update(status);
    return;
  }
  if (!sent.counted) return;
  const CallReport& report = sent.answer.result->report;
  ++stats_.executes;
  stats_.graphs_sent += report.graph_sent;
  stats_.kernels_compiled += report.kernels_compiled;
  stats_.kernels_disk += report.kernels_disk;
  stats_.kernels_cluster += report.kernels_cluster;
  stats_.kernels_shared += report.kernels_shared;
  stats_.kernels_memory += report.kernels_memory;
  stats_.kernels_tuned = report.kernels_tuned;
  stats_.schedule_misses += report.schedule_miss;
  stats_.last_run_us = report.run_us;
  stats_.run_us += report.run_us;
}

absl::Status GraphState::TakeError() { return std::exchange(error_, absl::OkStatus()); }

absl::Status GraphState::Sync() {
  for (const Sent& sent : sent_) sent.answer.future.Wait().IgnoreError();
  Poll();
  return TakeError();
}

}  // namespace uopd::client
