// SPDX-License-Identifier: MIT
// The tuning operations of a daemon: started by clients, watched by anybody of the same tenant, and
// kept over restarts.
//
//   Start ──► PlanTuning ──► TuneOperation ──► TuningService ──► winners in store "tuning"
//                                 │ ▲
//                     store "tune"│ │ a daemon that starts goes on with it
//                                 ▼ │
//                               TuneRows
//
// The winners go where those of all requests go, under the same keys, leases and quarantine. So a
// kernel is tuned once in a cluster, whoever asked for it, and a request with this beam finds the
// winner.
//
// An operation belongs to the tenant that started it. Others do not see it, except operators. What
// is kept is bounded (Options): operations that run are refused above a limit, and of those that
// are over the oldest go.
//
// A daemon that starts goes on with the operations of its data folder that nobody runs. It counts
// its attempts, so that an operation that ends the daemon each time is given up (interrupted),
// until somebody resumes it.
//
// Thread-safe. One thread of its own writes what changed, and looks for operations to go on with.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "server/engine/base/request_context.h"
#include "server/engine/compile/compile_service.h"
#include "server/engine/operate/tune_operation.h"
#include "server/engine/operate/tune_rows.h"

namespace uopd::engine {

// What a client wants to have tuned. Borrowed until the call returns.
struct TuneWish {
  static constexpr size_t kMaxText = 256;  // of title and request_id
  static constexpr int64_t kMaxBudgetMs = 30 * 86'400'000LL;

  GraphRef graph;
  CompileOptions options;          // with a beam
  uint64_t budget_ms = 0;          // 0: no limit
  uint64_t budget_candidates = 0;  // 0: no limit
  // Not empty: a second call of the tenant with this id gets the operation of the first, if it is
  // the same call.
  std::string request_id;
  bool beam_is_default = false;  // the client left the beam to the daemon
  std::string title;
};

class TuneOperations {
 public:
  using OperationPtr = std::shared_ptr<TuneOperation>;

  struct Options {
    std::string owner;             // for leases (LeaseOwner)
    int64_t lease_us = 2'000'000;  // how long a daemon that died keeps an operation
    size_t active = 64;            // operations that are not over
    size_t active_of_tenant = 8;
    size_t kept = 512;  // in all
    size_t kept_of_tenant = 64;
    std::chrono::hours age{24 * 30};  // those that are over go after this time
    int attempts = 3;                 // of daemons, without anything found in between
    std::chrono::milliseconds write_every{2000};
    std::chrono::milliseconds look_every{
        200};  // at this daemon's operations; at those of others five times less often
  };

  // `compile` and `store` outlive this object.
  TuneOperations(Options options, CompileService& compile, cache::Store& store);
  ~TuneOperations();

  // Plans, and begins to tune. For a thread that may work for seconds (CompileService::Post).
  // Errors are those of CompileService::PlanTuning; INVALID_ARGUMENT also for budgets and texts out
  // of range, and for a request id that the tenant has used for another graph or other options;
  // RESOURCE_EXHAUSTED: too many operations are not over.
  absl::StatusOr<OperationPtr> Start(RequestContext& request, const TuneWish& wish)
      UOPD_EXCLUDES(mu_);
  // The newest first.
  std::vector<OperationPtr> List(const Caller& caller) UOPD_EXCLUDES(mu_);
  // By its id or the first digits of it. NOT_FOUND: there is none that the caller sees.
  // INVALID_ARGUMENT: several.
  absl::StatusOr<OperationPtr> Find(const Caller& caller, std::string_view id) UOPD_EXCLUDES(mu_);
  // FAILED_PRECONDITION: it is over, or another daemon runs it. Blocks on the disk.
  absl::StatusOr<OperationPtr> Cancel(const Caller& caller, std::string_view id) UOPD_EXCLUDES(mu_);
  // Goes on with an operation that is over (TuneOperation::Resumed), with more budget. Errors as
  // there and of Start; errors of the plan are told by the operation. Blocks on the disk.
  absl::StatusOr<OperationPtr> Resume(const Caller& caller, std::string_view id,
                                      uint64_t more_budget_ms, uint64_t more_candidates)
      UOPD_EXCLUDES(mu_);
  // Whether another object is the operation of its id now, or none is.
  bool IsReplaced(const OperationPtr& op) { return !Has(op, false); }
  // Pauses what runs, and keeps it for the next daemon. Nothing begins any more.
  void Stop() UOPD_EXCLUDES(mu_);

 private:
  struct Entry {
    OperationPtr op;
    std::unique_ptr<TuneRows::Lease> maybe_lease;
    bool here = false;     // this daemon runs it
    uint64_t written = 0;  // version
    std::chrono::steady_clock::time_point written_at;
  };

  // Reads rows that this daemon does not know yet.
  void Scan() UOPD_EXCLUDES(mu_, rows_mu_);
  absl::Status Room(const std::string& tenant) UOPD_REQUIRES(mu_);
  // Enters an operation that this daemon runs from now on.
  absl::Status Enter(const OperationPtr& op, std::unique_ptr<TuneRows::Lease> maybe_lease,
                     bool checked) UOPD_EXCLUDES(mu_);
  void Write(const OperationPtr& op) UOPD_EXCLUDES(write_mu_);
  // Begins with a planned operation.
  void Run(const OperationPtr& op, const std::shared_ptr<const TuningPlan>& plan);
  // Plans it on another thread, and runs it.
  void PlanLater(const OperationPtr& op) UOPD_EXCLUDES(mu_);
  // Whether this object is the operation of its id now; `here`: and this daemon runs it.
  bool Has(const OperationPtr& op, bool here) UOPD_EXCLUDES(mu_);
  void LookAtOwn() UOPD_EXCLUDES(mu_);
  void LookAtOthers() UOPD_EXCLUDES(mu_);
  void Adopt(const OperationPtr& seen) UOPD_EXCLUDES(mu_);
  void Trim() UOPD_EXCLUDES(mu_, rows_mu_);
  void Keep() UOPD_EXCLUDES(mu_);
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  const Options options_;
  CompileService& compile_;
  TuneRows rows_;
  std::atomic<bool> stopped_{false};
  Mutex start_mu_;  // held while a new operation is entered. The first of the locks
  Mutex rows_mu_;   // held while rows appear or go. The second
  Mutex write_mu_;  // taken before a state is copied, so that the newest state is written last
  Mutex mu_;
  std::condition_variable changed_;
  std::map<std::string, Entry, std::less<>> entries_ UOPD_GUARDED_BY(mu_);  // by id
  int planning_ UOPD_GUARDED_BY(mu_) = 0;  // tasks elsewhere that use this object
  std::thread thread_;
};

}  // namespace uopd::engine
