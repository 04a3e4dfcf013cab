// SPDX-License-Identifier: MIT
#include "server/engine/kept/kept_runs.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::engine {
namespace {

// A quarter of each limit of memory stays free while values are made, so few calls have to end a
// making.
constexpr int64_t kPartThatRunsNeed = 4;

bool IsReadOnly(const ProgramSlot& slot) {
  return slot.info.used && slot.info.read && !slot.info.written;
}

bool Includes(const std::vector<bool>& all, const std::vector<bool>& some) {
  for (size_t i = 0; i < some.size(); ++i) {
    if (some[i] && (i >= all.size() || !all[i])) return false;
  }
  return true;
}

// Whether the main program can take all arguments of the call. It does not use a slot whose values
// are all kept, so it cannot return the contents of such a slot.
bool TakesArguments(const Program& main, std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool used = i < main.slots.size() && main.slots[i].info.used;
    if (!used && (arguments[i].return_data || arguments[i].data)) return false;
  }
  return true;
}

// What making takes: the values; for the probes contents, two results and a buffer of each slot
// that is not stable, and the temporaries of a run.
int64_t BytesToMake(const Program& undivided, const KeptProgram& divided,
                    const std::vector<bool>& stable) {
  int64_t out = divided.bytes + undivided.temporary_bytes;
  for (size_t i = 0; i < undivided.slots.size(); ++i) {
    const schedule::Slot& slot = undivided.slots[i].info;
    if (slot.used && !(i < stable.size() && stable[i])) out += 4 * slot.bytes;
  }
  return out;
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

// Whether the stable slots have the same contents.
bool KeptRuns::SameContents(const State& state, std::span<const Contents> a,
                            std::span<const Contents> b) {
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (!state.slots[i]) continue;
    if (i >= a.size() || i >= b.size() || a[i].version == 0 || a[i] != b[i]) return false;
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

absl::Status KeptRuns::Allocate(const KeptProgram& program, Values& values) {
  for (const int64_t bytes : program.slot_bytes) {
    UOPD_ASSIGN(values.memory.emplace_back(),
                engine::Allocate(*program.device, bytes, *values.quota, ByteClass::kKept));
  }
  return absl::OkStatus();
}

std::shared_ptr<KeptRuns::Values> KeptRuns::Take(State& state) {
  if (state.values != nullptr && state.values->holding != nullptr) state.values->holding->Preempt();
  return std::exchange(state.values, nullptr);
}

bool KeptRuns::PaysNothing(State& state, const Program& undivided) {
  if (state.uses == kRunsBeforeJudging) return false;
  if (++state.uses < kRunsBeforeJudging) return false;
  const int64_t whole = undivided.run_time.Quickest(),
                main = state.program->main->Get()->run_time.Quickest();
  if (whole == INT64_MAX || main < whole) return false;
  UOPD_LOG(kInfo, "kept values make runs no quicker", {"program", state.key.digest.Hex()},
           {"us", static_cast<double>(main) * 1e-3},
           {"undivided_us", static_cast<double>(whole) * 1e-3});
  return true;
}

KeptRuns::Decision KeptRuns::Begin(const Caller& caller, const ProgramKey& key,
                                   const std::shared_ptr<const Program>& program,
                                   const RunCall& call, KeptPrograms& programs) {
  // A program of microseconds has nothing to gain.
  if (max_bytes_ == 0 || program->quick) return {};
  if (call.arguments.size() > program->slots.size()) return {};  // an error of the call
  std::vector<Contents> now = ContentsOf(*program, call);
  std::shared_ptr<KeptProgram> divided, lost;  // `lost` is freed after the lock is released
  std::shared_ptr<Values> values, stale;       // so is `stale`
  std::vector<bool> slots;
  bool checked = false;
  {
    MutexLock lock(mu_);
    State& state = StateOf(key);
    state.stable.Note(now);
    if (state.refused) return {};
    if (state.values != nullptr && !SameContents(state, now, state.values->made_from))
      stale = Take(state);
    if (state.program != nullptr && state.program->IsLost()) {
      lost = std::exchange(state.program, nullptr);
      if (state.values != nullptr) stale = Take(state);
      --state.programs;  // that it is made again is not the fault of its slots
    }
    const bool used = state.values != nullptr && state.values->made;
    if (state.values != nullptr &&
        (state.values->differs || (used && PaysNothing(state, *program)))) {
      if (used) metrics::KeptRuns({"slower"}).Increment();
      state.refused = true;
      stale = Take(state);
      lost = std::exchange(state.program, nullptr);
      return {};
    }
    const std::vector<bool> stable = state.stable.For(kRunsBeforeKeeping);
    const bool settled = Includes(stable, state.slots);
    state.unsettled = settled ? 0 : state.unsettled + 1;
    if (state.program == nullptr || state.unsettled >= kRunsBeforeChanging) {
      if (std::ranges::find(stable, true) == stable.end()) return {};
      if (state.programs == kMostProgramsOfKey) return {};
      ++state.programs;
      state.unsettled = 0;
      state.slots = stable;
      state.checked.clear();
      state.program = programs.Get(caller, key, program, stable, max_bytes_);
      return {};
    }
    divided = state.program;
    if (divided == nullptr || divided->state.load() != KeptProgram::kReady) return {};
    values = state.values;
    if (values == nullptr && !Includes(state.stable.For(RunsBeforeMaking(state)), state.slots))
      return {};
    if (values != nullptr && !values->made) return {};  // they are being made
    if (values == nullptr && state.pause > 0) return --state.pause, Decision();
    slots = state.slots;
    checked = SameContents(state, now, state.checked);
  }
  stale = nullptr;
  const std::shared_ptr<const Program> main = divided->main->Get();
  if (!TakesArguments(*main, call.arguments)) return {};
  auto variables = VariablesFor(*main, *program, call.variables);
  if (!variables) return {};
  if (values == nullptr) values = Adopt(key, *divided, slots, now);
  if (values == nullptr) {
    KeptMake make;
    make.caller = caller;
    make.undivided = program;
    make.prologue = divided->prologue->Get();
    make.main = main;
    make.first_slot = divided->first_slot;
    make.variables.assign(call.variables.begin(), call.variables.end());
    make.main_variables = *std::move(variables);
    if (!checked) make.probes = ProbesFor(program->run_time.Quickest());
    return Making(key, std::move(divided), slots, std::move(now), std::move(make));
  }
  metrics::KeptRuns({"used"}).Increment();
  Decision out;
  KeptRun& run = out.run.emplace();
  run.main = main;
  run.variables = *std::move(variables);
  run.arguments.assign(call.arguments.begin(), call.arguments.end());
  run.arguments.resize(divided->first_slot);
  for (auto& memory : MemoryOf(values)) run.arguments.emplace_back().memory = std::move(memory);
  return out;
}

std::vector<std::shared_ptr<devices::Buffer>> KeptRuns::MemoryOf(
    const std::shared_ptr<Values>& values) {
  std::vector<std::shared_ptr<devices::Buffer>> out;
  // The pointers keep the values alive: Drop must not give their memory back to the quota.
  for (const Allocation& kept : values->memory) out.emplace_back(values, kept.buffer.get());
  return out;
}

void KeptRuns::Use(std::vector<SharedValue> shared, Values& values) {
  values.memory.clear();
  for (SharedValue& value : shared) {
    values.memory.push_back(std::move(value.allocation));
    values.uses.push_back(std::move(value.use));
  }
}

std::shared_ptr<KeptRuns::Values> KeptRuns::Adopt(const ProgramKey& key, const KeptProgram& divided,
                                                  const std::vector<bool>& slots,
                                                  const std::vector<Contents>& now) {
  const auto name = SharedValues::NameOf(key, slots, now, buffers_);
  if (!name || !MakeRoom(divided.bytes)) return nullptr;
  std::vector<SharedValue> found =
      shared_.Find(*name, *divided.device, divided.slot_bytes, *quota_);
  if (found.empty()) return nullptr;
  auto values = std::make_shared<Values>();
  values->quota = quota_;
  Use(std::move(found), *values);
  values->name = name;
  values->made_from = now;
  values->bytes = divided.bytes;
  values->made = true;
  MutexLock lock(mu_);
  State& state = StateOf(key);
  state.values = values;
  state.checked = now;
  metrics::KeptRuns({"shared"}).Increment();
  return values;
}

void KeptRuns::Share(Values& values) {
  if (!values.name) return;
  std::vector<SharedValue> shared = shared_.Share(*values.name, values.memory, *quota_);
  if (!shared.empty()) Use(std::move(shared), values);
}

KeptRuns::Decision KeptRuns::Making(const ProgramKey& key, std::shared_ptr<KeptProgram> divided,
                                    const std::vector<bool>& slots, std::vector<Contents> now,
                                    KeptMake make) {
  if (BytesToMake(*make.undivided, *divided, slots) > quota_->FreeBeside(kPartThatRunsNeed))
    return {};
  if (!MakeRoom(divided->bytes)) return {};
  make.stable.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i]) continue;
    make.stable[i] = buffers_.Find(now[i].handle);
    if (make.stable[i] == nullptr) return {};
  }
  auto values = std::make_shared<Values>();
  values->holding = preemptible_.New(divided->bytes);
  values->quota = quota_;
  values->name = SharedValues::NameOf(key, slots, now, buffers_);
  values->made_from = std::move(now);
  values->bytes = divided->bytes;
  {
    MutexLock lock(mu_);
    State& state = StateOf(key);
    state.values = values;
    ++state.makes;
  }
  make.quota = quota_;
  make.cancelled = [runs = weak_from_this(), preempted = values->holding->preempted()] {
    return runs.expired() || preempted->load(std::memory_order_relaxed);
  };
  // Not before the answer: the call that is under way needs memory too.
  make.take_values = [values, divided = std::move(divided)]()
      -> absl::StatusOr<std::vector<std::shared_ptr<devices::Buffer>>> {
    if (!values->holding->Begin()) return absl::CancelledError("memory is needed for calls");
    UOPD_TRY(Allocate(*divided, *values));
    return MemoryOf(values);
  };
  Decision out;
  out.make = std::move(make);
  out.made = [runs = weak_from_this(), key, values](KeptMake::Outcome outcome) mutable {
    std::shared_ptr<Preemptible> ended;
    if (const auto held = runs.lock()) ended = held->Made(key, values, outcome);
    values = nullptr;
  };
  return out;
}

std::shared_ptr<Preemptible> KeptRuns::Made(const ProgramKey& key,
                                            const std::shared_ptr<Values>& values,
                                            KeptMake::Outcome outcome) {
  // Nobody else looks at the memory before the values are made.
  if (outcome == KeptMake::Outcome::kSame) Share(*values);
  std::shared_ptr<Values> failed;  // freed after the lock is released
  MutexLock lock(mu_);
  const auto state = std::ranges::find(states_, key, &State::key);
  if (state == states_.end() || state->values != values) return nullptr;  // they are out of date
  switch (outcome) {
    case KeptMake::Outcome::kSame:
      values->made = true;
      state->checked = values->made_from;
      metrics::KeptRuns({"made"}).Increment();
      break;
    case KeptMake::Outcome::kDiffers:
      values->differs = true;
      metrics::KeptRuns({"refused"}).Increment();
      break;
    case KeptMake::Outcome::kFailed:
      failed = std::exchange(state->values, nullptr);
      state->pause = RunsBeforeMaking(*state);
      return nullptr;
  }
  return std::exchange(values->holding, nullptr);
}

bool KeptRuns::Drop() {
  std::vector<std::shared_ptr<Values>> dropped, used;
  std::vector<std::shared_ptr<KeptProgram>> lost;
  {
    MutexLock lock(mu_);
    for (State& state : states_) {
      if (state.program != nullptr && state.program->IsLost()) {
        lost.push_back(std::exchange(state.program, nullptr));
        --state.programs;
      }
      if (state.values == nullptr) continue;
      // Else memory that stays short costs a making for every few runs.
      state.pause = RunsBeforeMaking(state);
      if (state.values->made && state.values.use_count() > 1) {
        state.values->holding = preemptible_.New(state.values->bytes);
        state.values->holding->Begin();
        state.values->holding->Preempt();
        used.push_back(std::exchange(state.values, nullptr));
        continue;
      }
      if (state.values->holding != nullptr) state.values->holding->Preempt();
      if (state.values.use_count() > 1) continue;
      dropped.push_back(std::exchange(state.values, nullptr));
    }
  }
  if (const size_t n = dropped.size() + used.size(); n > 0) metrics::KeptDropped().Increment(n);
  return !dropped.empty();
}

}  // namespace uopd::engine
