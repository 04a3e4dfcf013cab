// SPDX-License-Identifier: MIT
// KeptRuns: what the programs of one session keep from run to run.
//
//   observe      the undivided program runs; slots whose contents stay the same are noted
//      │ the same slots were stable in kRunsBeforeKeeping runs
//   prepare      the divided program is made in the background (kept_program.h); as above
//      │ ready
//   make         in the background the prologue runs into memory of the session, and both programs
//                run
//      │         over the same random contents (kept_make.h); as above
//      │ their bits are the same
//   use          only the main program runs
//      │ a stable slot changed
//   observe      the undivided program runs, until the slots are stable again, for longer each time
//
// So a client gets the bits of the undivided program always. A program whose bits differ is left
// alone, and so is one whose main program is no quicker.
//
// The memory is charged to the session's quota. It is freed when the quota needs it for something
// else (Drop), and when its contents are out of date. Values that are being made or used are then
// given up, and whoever needs the memory waits for the end of that (preemptible.h). A run for which
// memory is short gives its kept values up and begins again as the undivided program.
//
// Values of a program whose stable slots are all constants (buffer_store.h) are made by one session
// and used by all (shared_values.h).
//
// Thread-safe. The calls of a session come one at a time; Drop may come from any thread.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <span>

#include "core/base/mutex.h"
#include "server/engine/base/preemptible.h"
#include "server/engine/kept/kept_make.h"
#include "server/engine/kept/kept_program.h"
#include "server/engine/kept/shared_values.h"
#include "server/engine/kept/stable_slots.h"
#include "server/engine/run/run_service.h"
#include "server/engine/session/reclaimer.h"

namespace uopd::engine {

// How a call runs with kept values. Belongs to one call.
struct KeptRun {
  std::shared_ptr<const Program> main;
  std::vector<Argument> arguments;  // of main; they hold the memory
  std::vector<int64_t> variables;   // of main
};

class KeptRuns : public Reclaimer, public std::enable_shared_from_this<KeptRuns> {
 public:
  // What a call decides: it runs with kept values, or as the undivided program; then perhaps values
  // are to be made behind its answer, and `made` is to be told how that ended.
  struct Decision {
    std::optional<KeptRun> run;
    std::optional<KeptMake> make;
    KeptMake::Done made;
  };
  static constexpr int kRunsBeforeKeeping = 3;
  // After so many runs in which a slot was not stable, the program is divided again without it.
  static constexpr int kRunsBeforeChanging = 10;
  // After so many runs with kept values it must be quicker than the undivided program, else it is
  // left alone.
  static constexpr int kRunsBeforeJudging = 100;
  // A program whose slots become unstable this often is left alone.
  static constexpr int kMostProgramsOfKey = 4;
  static constexpr size_t kMostKeys = 64;
  static constexpr int kMostDoublings = 5;

  // `max_bytes`: of all kept values of the session; 0: nothing is kept.
  KeptRuns(BufferStore& buffers, std::shared_ptr<Quota> quota, int64_t max_bytes,
           PreemptibleTable& preemptible, SharedValues& shared)
      : buffers_(buffers),
        quota_(std::move(quota)),
        max_bytes_(max_bytes),
        preemptible_(preemptible),
        shared_(shared) {}

  // Decides how a call of `program` runs.
  Decision Begin(const Caller& caller, const ProgramKey& key,
                 const std::shared_ptr<const Program>& program, const RunCall& call,
                 KeptPrograms& programs) UOPD_EXCLUDES(mu_);
  // Frees all kept values that no call uses, and divided programs of devices that are lost. Ends
  // the making of others, and lets no more runs use those in use; these hold their memory until
  // then (preemptible.h). True if there were values that no call uses.
  bool Drop() override UOPD_EXCLUDES(mu_);

 private:
  // A call frees its reference after it has answered. The client may have closed the session then.
  struct Values {
    // The making of the values, or the last run that uses values which were dropped. Ends after
    // `memory` is freed.
    std::shared_ptr<Preemptible> holding;
    std::shared_ptr<Quota> quota;  // outlives the charges of `memory`
    std::vector<Allocation> memory;
    std::vector<std::shared_ptr<const ContentUse>> uses;  // of memory that others use too
    std::optional<Digest> name;       // in SharedValues; nothing: the values are of this session
    std::vector<Contents> made_from;  // by slot; those of slots that are not stable do not count
    int64_t bytes = 0;
    bool made = false;  // and may be used
    bool differs =
        false;  // the main program gives other bits, unless made_from has changed meanwhile
  };
  struct State {
    ProgramKey key;
    StableSlots stable;
    std::shared_ptr<KeptProgram> program;  // null: none yet
    std::vector<bool> slots;               // that `program` takes for stable
    int programs = 0;                      // made so far
    int unsettled = 0;                     // the last runs in which some of `slots` were not stable
    std::shared_ptr<Values> values;        // null: none
    int makes = 0;                         // of `values`, begun so far
    int pause = 0;  // runs before the next make, after one that failed or values that were dropped
    int uses = 0;   // runs with kept values, up to kRunsBeforeJudging
    std::vector<Contents> checked;  // made_from of the last values that passed the probes
    bool refused = false;           // the program is left alone from now on
  };

  State& StateOf(const ProgramKey& key) UOPD_REQUIRES(mu_);
  // Counts a run with kept values. True: there have been enough of them, and they are no quicker.
  static bool PaysNothing(State& state, const Program& undivided);
  // The stable runs that values need before they are made. Contents that change again and again
  // must not cost a make for every few runs.
  static int RunsBeforeMaking(const State& state) {
    return kRunsBeforeKeeping << std::min(state.makes, kMostDoublings);
  }
  // Returns the making, if it has ended well. The caller frees its reference to the values before,
  // so whoever waits for the end finds values that can be dropped.
  std::shared_ptr<Preemptible> Made(const ProgramKey& key, const std::shared_ptr<Values>& values,
                                    KeptMake::Outcome outcome) UOPD_EXCLUDES(mu_);
  std::vector<Contents> ContentsOf(const Program& program, const RunCall& call) const;
  static std::vector<std::shared_ptr<devices::Buffer>> MemoryOf(
      const std::shared_ptr<Values>& values);
  // Values that another session has made from equal constants. Null: there are none.
  std::shared_ptr<Values> Adopt(const ProgramKey& key, const KeptProgram& divided,
                                const std::vector<bool>& slots, const std::vector<Contents>& now)
      UOPD_EXCLUDES(mu_);
  // Lets others use values that were made, if they have a name.
  void Share(Values& values);
  static void Use(std::vector<SharedValue> shared, Values& values);
  // The decision to make the values from these contents.
  Decision Making(const ProgramKey& key, std::shared_ptr<KeptProgram> divided,
                  const std::vector<bool>& slots, std::vector<Contents> now, KeptMake make)
      UOPD_EXCLUDES(mu_);
  // Frees values of the programs that were used longest ago until this many bytes are within the
  // limit. False: they cannot be.
  bool MakeRoom(int64_t bytes) UOPD_EXCLUDES(mu_);
  static bool SameContents(const State& state, std::span<const Contents> a,
                           std::span<const Contents> b);
  static absl::Status Allocate(const KeptProgram& program, Values& values);
  // Takes the values from the program. Nobody will use them, so their making ends.
  static std::shared_ptr<Values> Take(State& state);

  BufferStore& buffers_;
  const std::shared_ptr<Quota> quota_;
  const int64_t max_bytes_;
  PreemptibleTable& preemptible_;
  SharedValues& shared_;
  Mutex mu_;
  std::list<State> states_ UOPD_GUARDED_BY(mu_);  // the one that was used last comes first
};

}  // namespace uopd::engine
