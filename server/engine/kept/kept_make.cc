// SPDX-License-Identifier: MIT
#include "server/engine/kept/kept_make.h"

#include <algorithm>
#include <utility>

#include "core/base/telemetry/log.h"

namespace uopd::engine {
namespace {

class Maker : public std::enable_shared_from_this<Maker> {
 public:
  Maker(KeptMake make, RunWatch& watch, TaskPool& task_pool, KeptMake::Done done)
      : in_(std::move(make)), watch_(watch), task_pool_(task_pool), done_(std::move(done)) {
    request_.caller = in_.caller;
    request_.cancelled = in_.cancelled;
    request_.background = true;
    of_runs_.set_all_reclaimable();
  }

  void Start() {
    auto values = in_.take_values();
    if (!values.ok()) return End(KeptMake::Outcome::kFailed);
    values_ = *std::move(values);
    std::vector<Argument> arguments(in_.first_slot);
    for (size_t i = 0; i < arguments.size() && i < in_.stable.size(); ++i)
      arguments[i].memory = in_.stable[i];
    AddValues(arguments);
    Run(in_.prologue, std::move(arguments), {},
        [](Maker& self, const ExecuteResult&) { self.Probe(0); });
  }

 private:
  using Next = void (*)(Maker&, const ExecuteResult&);

  void AddValues(std::vector<Argument>& arguments) const {
    arguments.resize(in_.first_slot);
    for (const auto& memory : values_) arguments.emplace_back().memory = memory;
  }

  void Run(std::shared_ptr<const Program> program, std::vector<Argument> arguments,
           std::span<const int64_t> variables, Next next) {
    arguments_ = std::move(arguments);
    RunLimits limits = in_.limits;
    limits.max_return_bytes = INT64_MAX;  // to this object, which has charged for them
    StartRun({request_,
              std::move(program),
              buffers_,
              {arguments_, variables, {}},
              limits,
              watch_,
              task_pool_},
             [self = shared_from_this(), next](absl::StatusOr<ExecuteResult> result) {
               if (result.ok()) return next(*self, *result);
               UOPD_LOG(kInfo, "kept values are not made", {"why", result.status()});
               self->End(KeptMake::Outcome::kFailed);
             });
  }

  // The contents of the slots for one program. `program` is the undivided one or the main one.
  std::vector<Argument> Arguments(const Program& program) const {
    std::vector<Argument> out(std::min(in_.undivided->slots.size(), in_.first_slot));
    for (size_t i = 0; i < out.size(); ++i) {
      const bool used = i < program.slots.size() && program.slots[i].info.used;
      if (!used) continue;
      if (i < in_.stable.size() && in_.stable[i] != nullptr) {
        out[i].memory = in_.stable[i];
        continue;
      }
      out[i].data = data_[i];
      out[i].return_data = in_.undivided->slots[i].info.written;
    }
    return out;
  }

  void Probe(size_t number) {
    probe_ = number;
    if (number == in_.probes.size()) return End(KeptMake::Outcome::kSame);
    if (number == 0 && !TakeMemory()) return End(KeptMake::Outcome::kFailed);
    const Program& program = *in_.undivided;
    data_.resize(program.slots.size());
    for (size_t i = 0; i < data_.size(); ++i) {
      const schedule::Slot& slot = program.slots[i].info;
      if (!IsGiven(i)) continue;
      data_[i] = ProbeData(slot.dtype, slot.bytes, in_.probes[number], i);
    }
    Run(in_.undivided, Arguments(program), in_.variables,
        [](Maker& self, const ExecuteResult& result) {
          self.want_ = result.data;
          std::vector<Argument> arguments = self.Arguments(*self.in_.main);
          self.AddValues(arguments);
          self.Run(self.in_.main, std::move(arguments), self.in_.main_variables,
                   [](Maker& self, const ExecuteResult& result) { self.Compare(result.data); });
        });
  }

  void Compare(const std::vector<std::string>& got) {
    bool same = got.size() == want_.size();
    size_t at = 0;
    for (size_t i = 0; same && i < in_.undivided->slots.size(); ++i) {
      const schedule::Slot& slot = in_.undivided->slots[i].info;
      if (!IsGiven(i) || !slot.written) continue;
      same = SameElements(slot.dtype, got[at], want_[at]);
      ++at;
    }
    if (!same) {
      UOPD_LOG(kInfo, "kept values would give other bits", {"probe", probe_}, {"result", at});
      return End(KeptMake::Outcome::kDiffers);
    }
    Probe(probe_ + 1);
  }

  // A slot that a probe has contents for.
  bool IsGiven(size_t i) const {
    return in_.undivided->slots[i].info.used && i < in_.first_slot &&
           !(i < in_.stable.size() && in_.stable[i] != nullptr);
  }

  // Charges for the contents, and for the results of two runs. The buffers are charged by the runs.
  bool TakeMemory() {
    int64_t bytes = 0;
    for (size_t i = 0; i < in_.undivided->slots.size(); ++i) {
      const schedule::Slot& slot = in_.undivided->slots[i].info;
      if (IsGiven(i)) bytes += slot.bytes * (slot.written ? 3 : 1);
    }
    auto charge = Charge::Take(*in_.quota, bytes, ByteClass::kKept);
    if (!charge.ok()) return false;
    charge_ = *std::move(charge);
    return true;
  }

  // What belongs to the session and to the daemon goes first: both may end once `done` was called.
  void End(KeptMake::Outcome outcome) {
    arguments_.clear();
    values_.clear();
    charge_ = {};
    KeptMake::Done done = std::exchange(done_, nullptr);
    in_ = {};
    done(outcome);
  }

  KeptMake in_;
  const std::shared_ptr<Quota> quota_ = in_.quota;  // outlives the members below
  Quota of_runs_{"limits.session_bytes", INT64_MAX, quota_.get()};
  RunWatch& watch_;
  TaskPool& task_pool_;
  KeptMake::Done done_;
  RequestContext request_;
  BufferStore buffers_{of_runs_};  // for the buffers that the runs make; it stays empty
  Charge charge_;
  std::vector<std::shared_ptr<devices::Buffer>> values_;
  size_t probe_ = 0;
  std::vector<std::string> data_;  // by slot
  std::vector<Argument> arguments_;
  std::vector<std::string> want_;
};

}  // namespace

void StartKeptMake(KeptMake make, RunWatch& watch, TaskPool& task_pool, KeptMake::Done done) {
  std::make_shared<Maker>(std::move(make), watch, task_pool, std::move(done))->Start();
}

}  // namespace uopd::engine
