// SPDX-License-Identifier: MIT
// KeptRuns: what the programs of one session keep from run to run.
//
//   observe      the undivided program runs; slots whose contents stay the same are noted
//      │ the same slots were stable in kRunsBeforeKeeping runs
//   prepare      the divided program is made in the background (kept_program.h); as above
//      │ ready
//   make         the prologue runs into memory of the session, then the main program
//   use          only the main program runs
//      │ a stable slot changed
//   observe      the undivided program runs, until the slots are stable again
//
// The memory is charged to the session's quota. It is freed when the quota needs it for something
// else (Drop), and when its contents are out of date.
//
// Thread-safe. The calls of a session come one at a time; Drop may come from any thread.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <span>

#include "core/base/mutex.h"
#include "server/engine/kept/kept_program.h"
#include "server/engine/kept/stable_slots.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/reclaimer.h"

namespace uopd::engine {

// How a call runs with kept values. Belongs to one call.
struct KeptRun {
  std::shared_ptr<const Program> prologue;  // null: the values are there already
  std::shared_ptr<const Program> main;
  std::vector<Argument> prologue_arguments, arguments;  // of main; they hold the memory
  std::vector<int64_t> variables;                       // of main
};

class KeptRuns : public Reclaimer {
 public:
  static constexpr int kRunsBeforeKeeping = 3;
  // After so many runs in which a slot was not stable, the program is divided again without it.
  static constexpr int kRunsBeforeChanging = 10;
  // A program whose slots become unstable this often is left alone.
  static constexpr int kMostProgramsOfKey = 4;
  static constexpr size_t kMostKeys = 64;

  // `max_bytes`: of all kept values of the session; 0: nothing is kept.
  KeptRuns(BufferStore& buffers, std::shared_ptr<Quota> quota, int64_t max_bytes)
      : buffers_(buffers), quota_(std::move(quota)), max_bytes_(max_bytes) {}

  // Decides how a call runs. Nullopt: as the undivided program.
  std::optional<KeptRun> Begin(const Caller& caller, const ProgramKey& key, const Program& program,
                               const RunCall& call, KeptPrograms& programs) UOPD_EXCLUDES(mu_);
  // The prologue of the last Begin of this key has run: its values may be used from now on.
  void Made(const ProgramKey& key) UOPD_EXCLUDES(mu_);
  // It failed: this program keeps nothing from now on.
  void Refuse(const ProgramKey& key) UOPD_EXCLUDES(mu_);
  // Frees all kept values that no call uses, and divided programs of devices that are lost. True if
  // there were values.
  bool Drop() override UOPD_EXCLUDES(mu_);

 private:
  // A call frees its reference after it has answered. The client may have closed the session then.
  struct Values {
    std::shared_ptr<Quota> quota;  // outlives the charges of `memory`
    std::vector<Allocation> memory;
    std::vector<Contents> made_from;  // by slot; those of slots that are not stable do not count
    int64_t bytes = 0;
    bool made = false;
  };
  struct State {
    ProgramKey key;
    StableSlots stable;
    std::shared_ptr<KeptProgram> program;  // null: none yet
    std::vector<bool> slots;               // that `program` takes for stable
    int programs = 0;                      // made so far
    int unsettled = 0;                     // the last runs in which some of `slots` were not stable
    std::shared_ptr<Values> values;        // null: none
  };

  State& StateOf(const ProgramKey& key) UOPD_REQUIRES(mu_);
  std::vector<Contents> ContentsOf(const Program& program, const RunCall& call) const;
  // Frees values of the programs that were used longest ago until this many bytes are within the
  // limit. False: they cannot be.
  bool MakeRoom(int64_t bytes) UOPD_EXCLUDES(mu_);
  static bool UpToDate(const State& state, std::span<const Contents> now);
  absl::StatusOr<std::shared_ptr<Values>> Allocate(const KeptProgram& program,
                                                   std::vector<Contents> now) const;

  BufferStore& buffers_;
  const std::shared_ptr<Quota> quota_;
  const int64_t max_bytes_;
  Mutex mu_;
  std::list<State> states_ UOPD_GUARDED_BY(mu_);  // the one that was used last comes first
};

}  // namespace uopd::engine
