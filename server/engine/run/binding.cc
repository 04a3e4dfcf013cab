// SPDX-License-Identifier: MIT
#include "server/engine/run/binding.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"

namespace uopd::engine {
namespace {

absl::Status CheckVariables(const Program& program, std::span<const int64_t> values) {
  if (values.size() != program.variables.size()) {
    return Invalid(
        Cat("request has ", values.size(), " values for ", program.variables.size(), " variables"));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const schedule::Variable& variable = program.variables[i];
    if (values[i] < variable.min || values[i] > variable.max) {
      return Invalid(Cat("variable ", variable.name, " (", values[i], ") is outside ", variable.min,
                         " to ", variable.max));
    }
  }
  return absl::OkStatus();
}

// True if the program writes all of the slot. A slot that it writes in part counts as read.
bool IsOverwritten(const ProgramSlot& slot) { return slot.info.written && !slot.info.read; }

// True if data of the request fill the whole slot.
bool IsFilled(const ProgramSlot& slot, const Argument& argument) {
  return argument.data && static_cast<int64_t>(argument.data->size()) == slot.info.bytes;
}

}  // namespace

absl::StatusOr<Binding> Binding::Bind(const Program& program, BufferStore& buffers,
                                      Streams& streams, const RunCall& call,
                                      const RunLimits& limits) {
  if (call.arguments.size() > program.slots.size()) {
    return Invalid(Cat("request has ", call.arguments.size(), " arguments for ",
                       program.slots.size(), " slots"));
  }
  UOPD_TRY(CheckVariables(program, call.variables));
  Binding out(program, buffers, call);
  out.slots_.resize(program.slots.size());
  int64_t returned = 0;
  for (size_t i = 0; i < program.slots.size(); ++i) {
    UOPD_TRY(out.CheckArgument(i));
    if (!out.argument(i).return_data) continue;
    returned += program.slots[i].info.bytes;
    if (returned > limits.max_return_bytes) {
      return absl::ResourceExhaustedError(Cat("data to return (", returned, " bytes up to slot ", i,
                                              ") is more than ", limits.max_return_bytes,
                                              " bytes; download the buffers instead"));
    }
  }
  for (size_t i = 0; i < program.slots.size(); ++i) {
    if (program.slots[i].info.used) UOPD_TRY(out.BindSlot(i));
  }
  UOPD_TRY(out.Separate());
  UOPD_TRY(out.MakeArenas(streams));
  return out;
}

const Argument& Binding::argument(size_t i) const {
  static const Argument& none = *new Argument;
  return i < arguments_.size() ? arguments_[i] : none;
}

absl::Status Binding::CheckArgument(size_t i) const {
  const schedule::Slot& slot = program_.slots[i].info;
  const Argument& argument = this->argument(i);
  if (!slot.used) {
    if (!argument.return_data && !argument.data) return absl::OkStatus();
    return Invalid(Cat("slot ", i, " is not used by the program and has an argument with data"));
  }
  if (argument.data) {
    const auto size = static_cast<int64_t>(argument.data->size());
    // With variables, a tensor can be smaller than its slot, whose size is the largest possible.
    if (size == slot.bytes || (size < slot.bytes && !program_.variables.empty())) {
      return absl::OkStatus();
    }
    return Invalid(Cat("data of slot ", i, " has ", size, " bytes, the slot has ", slot.bytes));
  }
  if (argument.memory != nullptr) return absl::OkStatus();
  if (argument.buffer == 0 && slot.read && !slot.written) {
    return Invalid(Cat("slot ", i, " is read, and its argument has neither a buffer nor data"));
  }
  return absl::OkStatus();
}

absl::Status Binding::BindSlot(size_t i) {
  const ProgramSlot& slot = program_.slots[i];
  const Argument& argument = this->argument(i);
  Slot& bound = slots_[i];
  if (argument.memory != nullptr) {
    bound.buffer = argument.memory;
    if (static_cast<int64_t>(bound.buffer->size()) < slot.info.bytes)
      return absl::InternalError(Cat("memory of slot ", i, " is too small"));
    return absl::OkStatus();
  }
  if (argument.buffer != 0) {
    bound.buffer = buffers_.Find(argument.buffer);
    const bool exists = bound.buffer != nullptr;
    if (const auto named = new_handles_.find(argument.buffer); named != new_handles_.end()) {
      bound.buffer = slots_[named->second].buffer;
      slots_[named->second].shared = true;
    }
    if (!exists) UOPD_TRY(CheckUnknown(i));
    if (bound.buffer != nullptr) {
      if (static_cast<int64_t>(bound.buffer->size()) != slot.info.bytes) {
        return Invalid(Cat("buffer ", argument.buffer, " of slot ", i, " has ",
                           bound.buffer->size(), " bytes, the slot has ", slot.info.bytes));
      }
      if (&bound.buffer->device() != &slot.device->device()) {
        UOPD_TRY(bound.buffer->device().status());  // lost, and opened again
        return Invalid(Cat("buffer ", argument.buffer, " of slot ", i, " is on ",
                           bound.buffer->device().info().name, ", the slot on ",
                           slot.device->name()));
      }
      if (slot.info.written || argument.data) {
        absl::Status writable = buffers_.CheckWritable(argument.buffer);
        if (!writable.ok()) return WithFrame(std::move(writable), Cat("binding slot ", i));
      }
      return CheckContents(i);
    }
    bound.new_handle = argument.buffer;
    new_handles_.emplace(argument.buffer, i);
  }
  UOPD_ASSIGN(bound.made, Make(i));
  bound.buffer = made_[static_cast<size_t>(bound.made)].buffer;
  return absl::OkStatus();
}

// What a new buffer holds before the run is nothing that a slot may only read. This is so whatever
// other slots, before or after this one, write to the same buffer.
absl::Status Binding::CheckUnknown(size_t i) {
  const schedule::Slot& slot = program_.slots[i].info;
  const uint64_t handle = argument(i).buffer;
  if (absl::Status gone = buffers_.CheckGone(handle); !gone.ok()) {
    return WithFrame(std::move(gone), Cat("binding slot ", i));
  }
  if (!slot.read || slot.written || argument(i).data || HasData(handle)) return absl::OkStatus();
  return NotFound(kBuffer, Cat("buffer ", handle, " of slot ", i, ", which is read, is unknown"));
}

bool Binding::HasData(uint64_t handle) {
  if (!handles_with_data_) {
    handles_with_data_.emplace();
    for (const Argument& a : arguments_) {
      if (a.data) handles_with_data_->insert(a.buffer);
    }
  }
  return handles_with_data_->contains(handle);
}

absl::Status Binding::CheckContents(size_t i) const {
  const ProgramSlot& slot = program_.slots[i];
  const Argument& argument = this->argument(i);
  if (argument.data || IsOverwritten(slot)) return absl::OkStatus();
  absl::Status status = buffers_.CheckContents(argument.buffer);
  return status.ok() ? status : WithFrame(status, Cat("reading slot ", i));
}

absl::StatusOr<int> Binding::Make(size_t i) {
  const ProgramSlot& slot = program_.slots[i];
  auto made = Allocate(*slot.device, slot.info.bytes, buffers_.quota());
  if (!made.ok()) return WithFrame(made.status(), Cat("making the buffer of slot ", i));
  made_.push_back(*std::move(made));
  return static_cast<int>(made_.size()) - 1;
}

absl::Status Binding::Separate() {
  // Sorted by buffer; slots of the same buffer stay in their order.
  absl::InlinedVector<size_t, 8> order;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].buffer != nullptr) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(slots_[a].buffer.get(), a) < std::pair(slots_[b].buffer.get(), b);
  });
  absl::InlinedVector<std::span<const size_t>, 4> shared;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    end = begin + 1;
    while (end < order.size() && slots_[order[end]].buffer == slots_[order[begin]].buffer) ++end;
    if (end - begin > 1) shared.push_back(std::span(order).subspan(begin, end - begin));
  }
  // An error names the first slots that are wrong, wherever the buffers lie.
  std::ranges::sort(shared, {}, [](std::span<const size_t> slots) { return slots[0]; });
  for (std::span<const size_t> slots : shared) UOPD_TRY(SeparateSlots(slots));
  return absl::OkStatus();
}

absl::Status Binding::SeparateSlots(std::span<const size_t> slots) {
  constexpr size_t kNone = SIZE_MAX;
  size_t writer = kNone, filled = kNone;
  for (size_t i : slots) {
    const bool written = program_.slots[i].info.written;
    if (written && writer != kNone) {
      return Invalid(Cat("slots ", writer, " and ", i,
                         " are both written and have the same buffer (", argument(i).buffer, ")"));
    }
    if (argument(i).data && filled != kNone) {
      return Invalid(Cat("slots ", filled, " and ", i, " have data for the same buffer (",
                         argument(i).buffer, ")"));
    }
    if (written) writer = i;
    if (argument(i).data) filled = i;
  }
  if (writer == kNone) return absl::OkStatus();
  for (size_t i : slots) {
    if (i == writer) continue;
    UOPD_ASSIGN(slots_[i].copy, Make(i));
  }
  return absl::OkStatus();
}

absl::Status Binding::MakeArenas(Streams& streams) {
  for (const ProgramArena& arena : program_.arenas) {
    devices::Stream& stream = streams.Of(arena.device);
    auto made = Allocate(*arena.device, stream, arena.bytes, buffers_.quota());
    if (!made.ok()) return WithFrame(made.status(), "making the buffer of intermediate values");
    arenas_.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

absl::Status Binding::FreeTemporaries(Streams& streams) {
  for (Allocation& arena : arenas_) {
    UOPD_TRY(streams.Of(arena.device).Free(std::move(arena.buffer)));
  }
  return absl::OkStatus();
}

absl::Status Binding::Fill(Streams& streams) {
  absl::Status status = QueueFill(streams);
  if (status.ok()) return status;
  const Filled filled = FilledBuffers();
  std::vector<uint64_t> lost(filled.in_part.begin(), filled.in_part.end());
  lost.insert(lost.end(), filled.whole.begin(), filled.whole.end());
  return LoseBuffers(std::move(lost), std::move(status));
}

absl::Status Binding::QueueFill(Streams& streams) {
  const auto stream_of = [&](size_t i) -> devices::Stream& {
    return streams.Of(program_.slots[i].device);
  };
  const auto data_bytes = [&](size_t i) {
    const auto& data = argument(i).data;
    return data ? data->size() : 0;
  };
  // Fresh memory holds what its last owner left, so what the run may leave unwritten is cleared.
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.made < 0 || (IsOverwritten(program_.slots[i]) && !slot.shared)) continue;
    UOPD_TRY(FillZero(stream_of(i), *slot.buffer, slot.shared ? 0 : data_bytes(i)));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.buffer == nullptr || data_bytes(i) == 0) continue;
    const std::string_view data = *argument(i).data;
    UOPD_TRY(stream_of(i).CopyIn(std::as_bytes(std::span(data)), *slot.buffer, 0));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.copy < 0 || slot.buffer->size() == 0) continue;
    UOPD_TRY(stream_of(i).Copy(*slot.buffer, 0, *made_[static_cast<size_t>(slot.copy)].buffer, 0,
                               slot.buffer->size()));
  }
  return absl::OkStatus();
}

Binding::Filled Binding::FilledBuffers() const {
  Filled out;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Argument& argument = this->argument(i);
    if (!argument.data || slots_[i].buffer == nullptr || slots_[i].made >= 0) continue;
    (IsFilled(program_.slots[i], argument) ? out.whole : out.in_part).push_back(argument.buffer);
  }
  return out;
}

devices::BufferArg Binding::Resolve(const schedule::BufferRef& ref) const {
  const auto i = static_cast<size_t>(ref.index);
  if (ref.kind == schedule::BufferRef::kTemporary) {
    const ProgramTemporary& temporary = program_.temporaries[i];
    return {arenas_[static_cast<size_t>(temporary.arena)].buffer.get(),
            static_cast<size_t>(temporary.offset)};
  }
  const Slot& slot = slots_[i];
  if (slot.copy >= 0) return {made_[static_cast<size_t>(slot.copy)].buffer.get(), 0};
  return {slot.buffer.get(), 0};
}

absl::Status Binding::Commit() {
  absl::InlinedVector<uint64_t, 8> changed, whole;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const ProgramSlot& slot = program_.slots[i];
    if (slots_[i].buffer == nullptr || slots_[i].made >= 0) continue;
    const bool filled = IsFilled(slot, argument(i)) || IsOverwritten(slot);
    if (filled || slot.info.written || argument(i).data) {
      (filled ? whole : changed).push_back(argument(i).buffer);
    }
  }
  buffers_.Changed(changed, whole);
  for (const Slot& slot : slots_) {
    if (slot.new_handle == 0) continue;
    UOPD_TRY(buffers_.Insert(slot.new_handle, std::move(made_[static_cast<size_t>(slot.made)])));
  }
  return absl::OkStatus();
}

absl::Status Binding::Lose(size_t begun, bool data_arrived, absl::Status why) {
  std::vector<uint64_t> lost;
  const Filled filled = FilledBuffers();
  if (data_arrived) {
    buffers_.Changed(filled.in_part, filled.whole);
  } else {
    lost.assign(filled.in_part.begin(), filled.in_part.end());
    lost.insert(lost.end(), filled.whole.begin(), filled.whole.end());
  }
  const auto lose = [&](const schedule::BufferRef& ref) {
    if (ref.kind != schedule::BufferRef::kArgument) return;
    const auto i = static_cast<size_t>(ref.index);
    const uint64_t handle = argument(i).buffer;
    // A buffer that this run made is dropped with the run, so it is not lost.
    if (handle != 0 && slots_[i].made < 0 && program_.slots[i].info.written) {
      lost.push_back(handle);
    }
  };
  for (size_t i = 0; i < begun; ++i) {
    const Step& step = program_.steps[i];
    if (step.kernel == nullptr) {
      lose(step.buffers[0]);
      continue;
    }
    for (size_t j = 0; j < step.buffers.size(); ++j) {
      if (step.kernel->buffers[j].written) lose(step.buffers[j]);
    }
  }
  return LoseBuffers(std::move(lost), std::move(why));
}

absl::Status Binding::LoseBuffers(std::vector<uint64_t> lost, absl::Status why) {
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  if (lost.empty()) return why;
  buffers_.Lose(lost, StatusText(why));
  if (maybe_lost_ != nullptr) *maybe_lost_ = true;
  return absl::Status(
      why.code(),
      Cat(StatusText(why), "; what it had begun to write is lost: buffer ", NameHandles(lost)));
}

}  // namespace uopd::engine
