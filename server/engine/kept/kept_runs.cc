// SPDX-License-Identifier: MIT
#include "server/engine/kept/kept_runs.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

bool IsReadOnly(const ProgramSlot& slot) {
  return slot.info.used && slot.info.read && !slot.info.written;
}

bool Includes(const std::vector<bool>& all, const std::vector<bool>& some) {
  for (size_t i = 0; i < some.size(); ++i) {
    if (some[i] && (i >= all.size() || !all[i])) return false;
  }
  return true;
}

// The values of the variables in the order of the main program, which may differ from that of the
// undivided one.
std::optional<std::vector<int64_t>> VariablesFor(const Program& main, const Program& program,
                                                 std::span<const int64_t> values) {
  if (values.size() != program.variables.size()) return std::nullopt;
  std::vector<int64_t> out;
  for (const schedule::Variable& variable : main.variables) {
    const auto at = std::ranges::find(program.variables, variable.name, &schedule::Variable::name);
    if (at == program.variables.end()) return std::nullopt;
    out.push_back(values[static_cast<size_t>(at - program.variables.begin())]);
  }
  return out;
}

}  // namespace

KeptRuns::State& KeptRuns::StateOf(const ProgramKey& key) {
  auto at = std::ranges::find(states_, key, &State::key);
  if (at == states_.end()) {
    if (states_.size() >= kMostKeys) states_.pop_back();
    states_.emplace_front().key = key;
  } else {
    states_.splice(states_.begin(), states_, at);
  }
  return states_.front();
}

std::vector<Contents> KeptRuns::ContentsOf(const Program& program, const RunCall& call) const {
  std::vector<uint64_t> handles(program.slots.size(), 0);
  // A buffer that the call brings data for changes before the program reads it.
  std::vector<uint64_t> filled;
  for (const Argument& argument : call.arguments) {
    if (argument.data) filled.push_back(argument.buffer);
  }
  for (size_t i = 0; i < std::min(handles.size(), call.arguments.size()); ++i) {
    const uint64_t handle = call.arguments[i].buffer;
    if (IsReadOnly(program.slots[i]) && std::ranges::find(filled, handle) == filled.end())
      handles[i] = handle;
  }
  const std::vector<uint64_t> versions = buffers_.Versions(handles);
  std::vector<Contents> out(handles.size());
  for (size_t i = 0; i < handles.size(); ++i) {
    if (versions[i] != 0) out[i] = {handles[i], versions[i]};
  }
  return out;
}

bool KeptRuns::UpToDate(const State& state, std::span<const Contents> now) {
  if (state.values == nullptr) return false;
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (state.slots[i] && (now[i].version == 0 || now[i] != state.values->made_from[i]))
      return false;
  }
  return true;
}

bool KeptRuns::MakeRoom(int64_t bytes) {
  std::vector<std::shared_ptr<Values>> dropped;  // freed after the lock is released
  MutexLock lock(mu_);
  int64_t held = 0;
  for (const State& state : states_) held += state.values == nullptr ? 0 : state.values->bytes;
  for (auto state = states_.rbegin(); state != states_.rend() && held + bytes > max_bytes_;
       ++state) {
    if (state->values == nullptr || state->values.use_count() > 1) continue;
    held -= state->values->bytes;
    dropped.push_back(std::exchange(state->values, nullptr));
  }
  return held + bytes <= max_bytes_;
}

absl::StatusOr<std::shared_ptr<KeptRuns::Values>> KeptRuns::Allocate(
    const KeptProgram& program, std::vector<Contents> now) const {
  auto out = std::make_shared<Values>();
  out->quota = quota_;
  for (const int64_t bytes : program.slot_bytes) {
    UOPD_ASSIGN(out->memory.emplace_back(),
                engine::Allocate(*program.device, bytes, *quota_, ByteClass::kKept));
  }
  out->made_from = std::move(now);
  out->bytes = program.bytes;
  return out;
}

std::optional<KeptRun> KeptRuns::Begin(const Caller& caller, const ProgramKey& key,
                                       const Program& program, const RunCall& call,
                                       KeptPrograms& programs) {
  // A program of microseconds has nothing to gain.
  if (max_bytes_ == 0 || program.quick) return std::nullopt;
  if (call.arguments.size() > program.slots.size()) return std::nullopt;  // an error of the call
  std::vector<Contents> now = ContentsOf(program, call);
  std::shared_ptr<KeptProgram> divided, lost;  // `lost` is freed after the lock is released
  std::shared_ptr<Values> values, stale;       // so is `stale`
  std::vector<bool> slots;
  {
    MutexLock lock(mu_);
    State& state = StateOf(key);
    state.stable.Note(now);
    if (state.values != nullptr && !UpToDate(state, now))
      stale = std::exchange(state.values, nullptr);
    if (state.program != nullptr && state.program->IsLost()) {
      lost = std::exchange(state.program, nullptr);
      if (state.values != nullptr) stale = std::exchange(state.values, nullptr);
      --state.programs;  // that it is made again is not the fault of its slots
    }
    const std::vector<bool> stable = state.stable.For(kRunsBeforeKeeping);
    const bool settled = Includes(stable, state.slots);
    state.unsettled = settled ? 0 : state.unsettled + 1;
    if (state.program == nullptr || state.unsettled >= kRunsBeforeChanging) {
      if (std::ranges::find(stable, true) == stable.end()) return std::nullopt;
      if (state.programs == kMostProgramsOfKey) return std::nullopt;
      ++state.programs;
      state.unsettled = 0;
      state.slots = stable;
      state.program = programs.Get(caller, key, stable, max_bytes_);
      return std::nullopt;
    }
    divided = state.program;
    if (divided == nullptr || divided->state.load() != KeptProgram::kReady) return std::nullopt;
    values = state.values;
    if (values != nullptr && !values->made) values = nullptr;  // its prologue failed
    if (values == nullptr && !settled) return std::nullopt;
    slots = state.slots;
  }
  stale = nullptr;
  KeptRun out;
  out.main = divided->main->Get();
  auto variables = VariablesFor(*out.main, program, call.variables);
  if (!variables) return std::nullopt;
  out.variables = *std::move(variables);
  if (values == nullptr) {
    if (!MakeRoom(divided->bytes)) return std::nullopt;
    // Without the lock: taking from the quota may call Drop.
    auto made = Allocate(*divided, std::move(now));
    if (!made.ok()) return std::nullopt;
    values = *std::move(made);
    out.prologue = divided->prologue->Get();
    MutexLock lock(mu_);
    StateOf(key).values = values;
  }
  metrics::KeptRuns({out.prologue == nullptr ? "used" : "made"}).Increment();
  out.arguments.assign(call.arguments.begin(), call.arguments.end());
  out.arguments.resize(divided->first_slot);
  for (size_t i = 0; i < out.arguments.size() && out.prologue != nullptr; ++i) {
    Argument& argument = out.prologue_arguments.emplace_back();
    if (i < slots.size() && slots[i]) argument.buffer = out.arguments[i].buffer;
  }
  for (const Allocation& kept : values->memory) {
    Argument argument;
    // The argument keeps the values alive: Drop must not give their memory back to the quota.
    argument.memory = std::shared_ptr<devices::Buffer>(values, kept.buffer.get());
    out.arguments.push_back(argument);
    if (out.prologue != nullptr) out.prologue_arguments.push_back(argument);
  }
  return out;
}

void KeptRuns::Made(const ProgramKey& key) {
  MutexLock lock(mu_);
  State& state = StateOf(key);
  if (state.values != nullptr) state.values->made = true;
}

void KeptRuns::Refuse(const ProgramKey& key) {
  std::shared_ptr<Values> stale;  // freed after the lock is released
  {
    MutexLock lock(mu_);
    State& state = StateOf(key);
    stale = std::exchange(state.values, nullptr);
    state.program = nullptr;
    state.programs = kMostProgramsOfKey;
  }
}

bool KeptRuns::Drop() {
  std::vector<std::shared_ptr<Values>> dropped;
  std::vector<std::shared_ptr<KeptProgram>> lost;
  {
    MutexLock lock(mu_);
    for (State& state : states_) {
      if (state.program != nullptr && state.program->IsLost()) {
        lost.push_back(std::exchange(state.program, nullptr));
        --state.programs;
      }
      if (state.values == nullptr || state.values.use_count() > 1) continue;
      dropped.push_back(std::exchange(state.values, nullptr));
    }
  }
  if (!dropped.empty()) metrics::KeptDropped().Increment(dropped.size());
  return !dropped.empty();
}

}  // namespace uopd::engine
