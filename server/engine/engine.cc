// SPDX-License-Identifier: MIT
#include "server/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "absl/strings/str_join.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "server/engine/base/not_found.h"
#include "server/engine/report/kernel_texts.h"
#include "server/engine/run/streams.h"

namespace uopd::engine {
namespace {

int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int RunThreads() { return std::max(4, 2 * Cores()); }

// The limits leave a thread for other clients even if the runs of one client never end.
TaskPool::Running RunningLimits() {
  return {.of_peer = static_cast<size_t>(RunThreads() - 1),
          .of_flow = static_cast<size_t>(RunThreads() / 2)};
}

// A run that was told to end and still runs after this time is stuck in its device. Kernels read
// the stop word several times in a tenth of a second.
constexpr std::chrono::seconds kStuckLimit{2};

// A client notices if its request waits longer than this for a thread.
constexpr std::chrono::seconds kBusyLimit{1};

absl::Status CancelledById(uint64_t request_id) {
  return absl::CancelledError(Cat("request id (", request_id, ") was cancelled by its client"));
}

// The buffers from which the returned data can be read again.
std::vector<ResultSource> SourcesOf(Session& session, std::span<const Argument> arguments,
                                    const ExecuteResult& result) {
  std::vector<ResultSource> out;
  for (const Argument& argument : arguments) {
    if (!argument.return_data) continue;
    const uint64_t handle = argument.buffer;
    const uint64_t version = handle == 0 ? 0 : session.buffers().Version(handle);
    out.push_back({handle, version, result.data[out.size()].size()});
  }
  return out;
}

// The memory of a call without a session.
struct CallMemory {
  CallMemory(int64_t bytes, Quota& total) : quota("limits.session_bytes", bytes, &total) {}
  Quota quota;
  BufferStore buffers{quota};
};

// The part of a message that is reserved for what surrounds the returned data.
constexpr int64_t kMessageReserve = 16 << 10;

SessionOptions SessionOptionsOf(const Config& config) {
  SessionOptions out;
  out.ttl = config.session_ttl_ms();
  out.grace = config.session_grace_ms();
  out.max_sessions = static_cast<size_t>(config.limits_sessions());
  out.max_peer_sessions = static_cast<size_t>(config.limits_peer_sessions());
  out.session_bytes = config.limits_session_bytes();
  if (config.limits_peer_bytes() > 0) out.peer_bytes = config.limits_peer_bytes();
  out.session_buffers = static_cast<size_t>(config.limits_session_buffers());
  return out;
}

ir::WireLimits WireLimitsOf(const Config& config) {
  ir::WireLimits out;
  out.max_nodes = static_cast<size_t>(config.limits_max_graph_nodes());
  return out;
}

int CompileThreads(const Config& config) {
  // The thread that asks for kernels also compiles.
  const int64_t wanted = config.compile_threads();
  return wanted > 0 ? static_cast<int>(wanted) : Cores();
}

CompileService::Options CompileOptionsOf(const Config& config, const DeviceSet& devices,
                                         Workers* workers, KernelTuner* tuner,
                                         KeyExplainer& explainer) {
  CompileService::Options out;
  if (workers != nullptr) {
    out.compilers = &workers->compile();
    out.upgraders = &workers->upgrade();
  }
  out.fast_tier = config.compile_fast_tier();
  out.upgrade_threads = CompileThreads(config);
  out.compile_limit = config.compile_timeout_ms();
  out.tuner = tuner;
  out.explainer = &explainer;
  out.lease = {.owner = Cat("pid ", getpid()),
               .ttl_us = std::chrono::microseconds(config.compile_lease_ms()).count()};
  out.repro_folder = Cat(config.server_data_dir(), "/repro");
  out.device_list = absl::StrJoin(devices.names(), ",");
  out.limits = WireLimitsOf(config);
  out.threads = std::max(8, 4 * Cores());
  return out;
}

std::unique_ptr<Workers> MakeWorkers(const Config& config, const DeviceSet& devices,
                                     worker::ForkServer* forks, cache::Store& store) {
  if (forks == nullptr) return nullptr;
  return std::make_unique<Workers>(*forks, config, devices.names(), CompileThreads(config), store);
}

std::unique_ptr<WorkerTuner> MakeTuner(const Config& config, Workers* workers) {
  if (workers == nullptr) return nullptr;
  WorkerTuner::Limits limits;
  limits.timeout = config.tune_timeout_ms();
  limits.max_candidates = static_cast<int>(config.tune_candidates());
  return std::make_unique<WorkerTuner>(
      [workers](const devices::Device& device) { return workers->tuning(device.info().name); },
      limits);
}

}  // namespace

void Work::Release() {
  if (engine_ != nullptr) std::exchange(engine_, nullptr)->EndWork();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
    std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
    worker::ForkServer* forks) {
  std::unique_ptr<Engine> engine(
      new Engine(config, std::move(graph_compiler), std::move(store), std::move(registry), forks));
  absl::Status opened = engine->devices_.Get("").status();
  if (absl::IsInvalidArgument(opened)) return opened;
  if (!opened.ok()) UOPD_LOG(kError, "the default device is not ready", {"why", opened});
  if (const std::string& path = config.server_token_file(); !path.empty()) {
    auto tenants = Tenants::Read(path);
    if (!tenants.ok()) return WithFrame(tenants.status(), "reading setting server.token_file");
    engine->tenants_ = *std::move(tenants);
  }
  if (config.compile_warm_up()) engine->compile_.WarmUp();
  return engine;
}

Engine::Engine(const Config& config, std::unique_ptr<GraphCompiler> graph_compiler,
               std::unique_ptr<cache::Store> store, std::unique_ptr<devices::Registry> registry,
               worker::ForkServer* forks)
    : max_return_bytes_(config.limits_max_message_bytes() - kMessageReserve),
      cache_level_(static_cast<int>(config.cache_level())),
      cache_writes_(cache_level_ > 0 && !config.cache_read_only()),
      session_bytes_(config.limits_session_bytes()),
      kept_bytes_(config.limits_session_kept_bytes()),
      run_ms_(config.limits_run_ms().count()),
      debug_(static_cast<int>(config.debug_level())),
      beam_(static_cast<int>(config.tune_beam())),
      stream_idle_ms_(config.limits_stream_idle_ms().count()),
      peer_rates_(config.limits_peer_requests_per_s()),
      total_("limits.total_bytes", config.limits_total_bytes()),
      graph_compiler_(std::move(graph_compiler)),
      store_(std::move(store)),
      devices_(std::move(registry)),
      forks_(forks),
      workers_(MakeWorkers(config, devices_, forks, *store_)),
      tuner_(MakeTuner(config, workers_.get())),
      compilers_(CompileThreads(config), SIZE_MAX),
      explainer_(*graph_compiler_, *store_, devices_, WireLimitsOf(config)),
      compile_(CompileOptionsOf(config, devices_, workers_.get(), tuner_.get(), explainer_),
               *graph_compiler_, *store_, devices_, compilers_),
      kept_programs_(compile_, devices_),
      roofs_(*graph_compiler_, compile_),
      sessions_(SessionOptionsOf(config), total_, task_pool_),
      task_pool_(RunThreads(),
                 {.all = static_cast<size_t>(config.limits_waiting()),
                  .of_peer = static_cast<size_t>(config.limits_peer_waiting()),
                  .of_flow = static_cast<size_t>(config.limits_flow_waiting())},
                 RunningLimits()),
      long_runs_(RunThreads(), {}, RunningLimits(), true) {
  total_.set_reclaim([this] { return sessions_.Reclaim(); });
}

Engine::~Engine() { Drain(std::chrono::steady_clock::time_point::max()); }

void Engine::Reload(const Config& config) {
  session_bytes_ = config.limits_session_bytes();
  kept_bytes_ = config.limits_session_kept_bytes();
  run_ms_ = config.limits_run_ms().count();
  debug_ = static_cast<int>(config.debug_level());
  beam_ = static_cast<int>(config.tune_beam());
  store_->SetMaxBytes(config.cache_max_bytes());
  stream_idle_ms_ = config.limits_stream_idle_ms().count();
  peer_rates_.set_per_second(config.limits_peer_requests_per_s());
  total_.set_limit(config.limits_total_bytes());
  sessions_.set_options(SessionOptionsOf(config));
}

absl::StatusOr<Work> Engine::Begin() {
  // Count first, then look at draining_: so either Drain sees this request, or this request sees
  // Drain.
  working_.fetch_add(1);
  Work work(this);
  if (draining_.load()) return absl::UnavailableError("daemon is shutting down");
  return work;
}

void Engine::EndWork() {
  if (working_.fetch_sub(1) != 1 || !draining_.load()) return;
  MutexLock lock(drain_mu_);
  drained_.notify_all();
}

bool Engine::Drain(std::chrono::steady_clock::time_point deadline) {
  draining_.store(true);
  compile_.StopTuning();
  compile_.StopUpgrades();
  const bool done = AwaitWork(deadline);
  compile_.StopCompiling();
  if (!done) {
    watch_.StopAll();
    AwaitWork(std::chrono::steady_clock::now() + kStopTime);
  }
  return done;
}

bool Engine::AwaitWork(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(drain_mu_);
  // Limit the deadline: a distant one overflows when the library converts it to the system's clock.
  deadline = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::hours(24));
  return lock.WaitUntil(drained_, deadline, [this] { return working_.load() == 0; });
}

std::string Engine::Unready() {
  if (draining()) return "draining";
  std::string out;
  const auto add = [&](std::string_view reason) {
    if (!reason.empty()) Append(out, out.empty() ? "" : "; ", reason);
  };
  NoteLosses();
  const auto device = devices_.Get("");
  add(StatusText(device.ok() ? (*device)->device().status() : device.status()));
  if (forks_ != nullptr) add(forks_->Unready());
  const cache::Health cache = store_->health();
  const bool writes = cache.state == cache::State::kOk || cache.state == cache::State::kRecovered;
  if (!writes && cache_writes_) add(Cat("the cache cannot be written: ", cache.reason));
  if (task_pool_.AllBusyFor() > kBusyLimit) {
    add(Cat("all ", task_pool_.threads(),
            " threads for requests have been busy for over a second"));
  }
  if (compile_.AllBusyFor() > kBusyLimit) {
    add("all threads for graphs that are not prepared yet have been busy for over a second");
  }
  if (const auto late = watch_.LongestOverdue(); late > kStuckLimit) {
    add(Cat("a device is stuck: a run that was told to end ",
            std::chrono::duration_cast<std::chrono::seconds>(late).count(), " s ago goes on"));
  }
  return out;
}

std::string Engine::DevicesNotReady() {
  NoteLosses();
  std::string out;
  for (const devices::DeviceEntry& entry : devices_.NotReady()) {
    Append(out, "device ", entry.name, " is not ready: ", StatusText(entry.status), "\n");
  }
  return out;
}

std::vector<std::pair<std::string, bool>> Engine::ReadyDevices(bool reopen) {
  NoteLosses();
  std::vector<devices::DeviceEntry> missing = devices_.NotReady();
  if (reopen) {
    std::erase_if(missing, [&](const devices::DeviceEntry& entry) {
      const auto device = devices_.Get(entry.name);
      return device.ok() && (*device)->device().status().ok();
    });
  }
  std::vector<std::pair<std::string, bool>> out;
  for (const std::string& name : devices_.names()) {
    const bool ready = std::ranges::none_of(
        missing, [&](const devices::DeviceEntry& entry) { return entry.name == name; });
    out.emplace_back(name, ready);
  }
  return out;
}

void Engine::NoteLosses() {
  const std::vector<DeviceState*> lost = devices_.TakeLosses();
  if (lost.empty()) return;
  for (const DeviceState* device : lost) compile_.DropProgramsOf(*device);
  sessions_.NoteLosses();
}

absl::Status Engine::TakeLoss(Session& session) {
  absl::Status loss = session.buffers().TakeLoss();
  if (loss.ok()) return loss;
  NoteLosses();
  session.Reclaim();  // what is kept was computed from buffers of the same device
  return loss;
}

absl::Status Engine::Explained(Session& session, absl::Status error) {
  NoteLosses();
  const absl::Status loss = TakeLoss(session);
  if (loss.ok()) return error;
  return absl::Status(loss.code(),
                      Cat(StatusText(loss), " (the call that was told: ", StatusText(error), ")"));
}

absl::Status Engine::WithBuffers(Session& session, absl::FunctionRef<absl::Status()> work) {
  UOPD_TRY(TakeLoss(session));
  absl::Status status = work();
  return status.ok() ? status : Explained(session, std::move(status));
}

absl::Status Engine::CreateBuffer(Session& session, uint64_t handle, uint64_t bytes,
                                  std::string_view device_name) {
  return WithBuffers(session, [&]() -> absl::Status {
    UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
    return session.buffers().Create(handle, *device, bytes);
  });
}

absl::StatusOr<bool> Engine::OpenUpload(Session& session, uint64_t handle, uint64_t bytes,
                                        std::string_view device_name) {
  bool made = false;
  UOPD_TRY(WithBuffers(session, [&]() -> absl::Status {
    const auto buffer = session.buffers().Peek(handle);
    if (buffer == nullptr) {
      UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
      UOPD_TRY(session.buffers().CreateForUpload(handle, *device, bytes));
      made = true;
      return absl::OkStatus();
    }
    if (bytes != 0 && bytes != buffer->size()) {
      return absl::InvalidArgumentError(Cat("buffer ", handle, " has ", buffer->size(),
                                            " bytes and is uploaded as one of ", bytes));
    }
    if (device_name.empty()) return absl::OkStatus();
    UOPD_ASSIGN(DeviceState * device, devices_.Get(device_name));
    if (&device->device() == &buffer->device()) return absl::OkStatus();
    return absl::InvalidArgumentError(Cat("buffer ", handle, " is on ",
                                          buffer->device().info().name,
                                          " and is uploaded as one on ", device->name()));
  }));
  return made;
}

absl::Status Engine::Write(Session& session, uint64_t handle, uint64_t offset,
                           std::string_view data) {
  return WithBuffers(session,
                     [&] { return session.buffers().Write(devices_, handle, offset, data); });
}

absl::Status Engine::Read(Session& session, uint64_t handle, uint64_t offset, std::span<char> out) {
  return WithBuffers(session,
                     [&] { return session.buffers().Read(devices_, handle, offset, out); });
}

absl::Status Engine::WriteFromArea(Session& session, uint64_t handle, uint64_t offset,
                                   const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return WithBuffers(session, [&] {
    return session.buffers().WriteBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<std::byte> into) { return area->Read(range.offset, into); });
  });
}

absl::Status Engine::ReadToArea(Session& session, uint64_t handle, uint64_t offset,
                                const AreaRange& range) {
  UOPD_ASSIGN(const auto area, session.Area(range.area));
  UOPD_TRY(area->CheckRange(range.offset, range.bytes));
  return WithBuffers(session, [&] {
    return session.buffers().ReadBy(
        devices_, handle, offset, range.bytes,
        [&](std::span<const std::byte> from) { return area->Write(range.offset, from); });
  });
}

CompileOptions Engine::Resolved(CompileOptions options) const {
  const bool tunes = compile_.tunes() && !options.noopt;
  if (options.beam == 0 && tunes) options.beam = beam_.load(std::memory_order_relaxed);
  if (options.beam == 0) options.ignore_beam_cache = false;
  options.cache_level = std::min(options.cache_level, cache_level_);
  return options;
}

// Refuses an option that would be ignored. Otherwise the caller would measure something else than
// it asked for.
absl::Status Engine::Check(const CompileOptions& wanted, const CompileOptions& options) const {
  if (wanted.cache_level < 0 || wanted.cache_level > CompileOptions::kMaxCacheLevel) {
    return absl::InvalidArgumentError(Cat("cache_level (", wanted.cache_level, ") is outside 0 to ",
                                          CompileOptions::kMaxCacheLevel));
  }
  if (options.beam == 0) return absl::OkStatus();
  if (options.beam < 0 || options.beam > CompileOptions::kMaxBeam) {
    return absl::InvalidArgumentError(
        Cat("beam (", options.beam, ") is outside 0 to ", CompileOptions::kMaxBeam));
  }
  if (options.noopt) return absl::InvalidArgumentError("noopt leaves nothing to tune with a beam");
  if (!compile_.tunes()) {
    return absl::UnavailableError("this daemon has no worker processes, and only these can tune");
  }
  return absl::OkStatus();
}

std::shared_ptr<const Program> Engine::ProgramOf(RequestContext& request) const {
  auto program = request.prepared->Get();
  request.cache.kernels_tuned = program->tuned_kernels;
  request.cache.kernels_draft = program->draft_kernels;
  return program;
}

void Engine::Prepare(RequestContext& request, const GraphRef& graph, const CompileOptions& wanted,
                     Prepared done) {
  Begin(request, graph, wanted, std::move(done));
}

std::shared_ptr<Preparation> Engine::Begin(RequestContext& request, const GraphRef& graph,
                                           const CompileOptions& wanted, Prepared done) {
  const CompileOptions options = Resolved(wanted);
  absl::Status status = request.Check();
  if (status.ok()) status = Check(wanted, options);
  if (!status.ok()) return done(std::move(status)), nullptr;
  return compile_.Begin(request, graph, options,
                        [this, &request, done = std::move(done)](
                            absl::StatusOr<std::shared_ptr<ProgramHandle>> made) mutable {
                          if (!made.ok()) return done(made.status());
                          request.prepared = *std::move(made);
                          done(ProgramOf(request));
                        });
}

void Engine::PrepareUnlessCancelled(RequestContext& request, Session& session,
                                    const ExecuteCall& call, Prepared run) {
  const uint64_t id = call.request_id;
  const auto cancellation = std::make_shared<Cancellation>();
  session.cancelled().Watch(id, cancellation);
  // The session, and what the call refers to, are valid until `run` is called.
  const auto preparation =
      Begin(request, call.graph, call.options,
            [&session, id,
             run = std::move(run)](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
              session.cancelled().Unwatch(id);
              run(std::move(program));
            });
  cancellation->Watch([id, weak = std::weak_ptr(preparation)] {
    if (const auto waiting = weak.lock()) waiting->Leave(CancelledById(id));
  });
}

void Engine::WithProgram(RequestContext& request, Session* maybe_session, const ExecuteCall& call,
                         Prepared run) {
  const CompileOptions options = Resolved(call.options);
  absl::Status status = request.Check();
  if (status.ok()) status = Check(call.options, options);
  if (!status.ok()) return run(std::move(status));
  run = [this, &request,
         run = std::move(run)](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
    if (!program.ok()) return run(std::move(program));
    LogCode(request, *program);
    if (request.maybe_report == nullptr) return run(std::move(program));
    BeginReport(request, *std::move(program), std::move(run));
  };
  if (call.debug > 0 || call.profile) {
    request.maybe_report = std::make_shared<RunReport>();
    request.maybe_report->debug = call.debug;
    request.maybe_report->profile = call.profile;
  }
  const bool there = compile_.FindFor(request, call.graph, options);
  if (there && call.where == ExecuteCall::Where::kHere && &RunnerOf(request) == &task_pool_) {
    return run(ProgramOf(request));
  }
  auto post = [this, &request, run = std::move(run)](
                  absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
    if (!program.ok()) return run(std::move(program));
    RunnerOf(request).Post(request, [&request, run = std::move(run), program = *std::move(program),
                                     since = NowNs()]() mutable {
      request.timings.Add(Phase::kQueue, NowNs() - since);
      absl::Status wanted_still = request.Check();
      if (!wanted_still.ok()) return run(std::move(wanted_still));
      run(std::move(program));
    });
  };
  if (there) return post(ProgramOf(request));
  if (maybe_session != nullptr && call.request_id != 0)
    return PrepareUnlessCancelled(request, *maybe_session, call, std::move(post));
  Prepare(request, call.graph, call.options, std::move(post));
}

void Engine::BeginReport(RequestContext& request, std::shared_ptr<const Program> program,
                         Prepared run) {
  const int debug = request.maybe_report->debug;
  if (debug < 2 && !request.maybe_report->profile) return run(std::move(program));
  compile_.Post(request.caller, [this, &request, debug, program = std::move(program),
                                 run = std::move(run)]() mutable {
    RunReport& report = *request.maybe_report;
    for (DeviceState* device : program->devices) {
      std::vector<DtypeNumber> dtypes;
      for (const Step& step : program->steps) {
        if (step.kernel != nullptr && step.device == device) dtypes.push_back(step.kernel->dtype);
      }
      if (!dtypes.empty()) report.roofs[device->name()] = roofs_.Get(request, *device, dtypes);
    }
    if (debug >= 3) {
      Interrupt interrupt(request.deadline, request.cancelled);
      ExplainKernels(
          *graph_compiler_, *program, debug, RunReport::kMaxTextBytes, interrupt,
          [&](std::string_view, const std::string& text) { return report.AddText(text); });
    }
    RunnerOf(request).Post(
        request, [&request, program = std::move(program), run = std::move(run)]() mutable {
          absl::Status wanted_still = request.Check();
          if (!wanted_still.ok()) return run(std::move(wanted_still));
          run(std::move(program));
        });
  });
}

void Engine::LogCode(const RequestContext& request, std::shared_ptr<const Program> program) {
  constexpr size_t kMaxBytes = 64 << 10;  // of one form of one kernel
  const int debug = debug_.load(std::memory_order_relaxed);
  if (debug < 3 || !program->logged.First()) return;
  compile_.Post(request.caller, [this, debug, program = std::move(program)] {
    Interrupt never(Interrupt::Clock::time_point::max(), [this] { return draining(); });
    ExplainKernels(*graph_compiler_, *program, debug, kMaxBytes, never,
                   [](std::string_view kernel, const std::string& text) {
                     UOPD_LOG(kInfo, "kernel code", {"name", kernel}, {"text", text});
                     return true;
                   });
  });
}

TaskPool& Engine::RunnerOf(const RequestContext& request) {
  const bool is_long = request.prepared != nullptr && request.prepared->Get()->IsLong();
  return is_long ? long_runs_ : task_pool_;
}

bool Engine::IsQuick(const GraphRef& graph, const CompileOptions& options) {
  // Hashing a large graph takes too long for this thread.
  if (graph.bytes.size() > 16 << 10) return false;
  const auto handle = compile_.Find(graph, Resolved(options));
  if (handle == nullptr) return false;
  const auto program = handle->Get();
  return program->quick && RunsInline(*program);
}

void Engine::Execute(RequestContext& request, Session& session, const ExecuteCall& call,
                     RunDone done) {
  const auto closed = [] {
    return NotFound(kSession, "session was closed while the request waited");
  };
  if (session.closed()) return done(closed());
  WithProgram(request, &session, call,
              [this, &request, &session, call, done = std::move(done),
               closed](absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
                if (session.closed()) return done(closed());
                if (!program.ok()) return done(Explained(session, program.status()));
                RunIn(request, session, call, *std::move(program), std::move(done));
              });
}

void Engine::RunIn(RequestContext& request, Session& session, const ExecuteCall& call,
                   std::shared_ptr<const Program> program, RunDone done) {
  const uint64_t id = call.request_id;
  const Digest digest = program->digest;
  RunLimits limits = Limits();
  limits.terms = TermsOf(&session, id);
  RunInput input{request, std::move(program), session.buffers(), call.run, std::move(limits),
                 watch_,  task_pool_};
  const ProgramKey key{digest, Resolved(call.options)};
  done = [this, &session, done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
    if (!result.ok()) result = Explained(session, result.status());
    done(std::move(result));
  };
  if (id == 0) return RunWithKept(std::move(input), session, key, std::move(done));
  auto found = session.results().Find(id, digest);
  if (!found.ok()) return done(found.status());
  if (*found != nullptr) return done(Repeat(session, id, **found));
  if (session.cancelled().Has(id)) return done(CancelledById(id));
  auto lost = std::make_unique<bool>(false);
  input.call.maybe_lost = lost.get();
  auto remember = [&session, id, digest, arguments = call.run.arguments, lost = std::move(lost),
                   done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
    if (*lost) {
      session.results().RememberLoss(
          id, digest,
          absl::DataLossError(
              Cat("request id (", id, ") was ended while it ran: ", StatusText(result.status()))));
    }
    if (result.ok()) {
      session.results().Remember(id, digest, *result, SourcesOf(session, arguments, *result));
    }
    done(std::move(result));
  };
  RunWithKept(std::move(input), session, key, std::move(remember));
}

std::shared_ptr<KeptRuns> Engine::KeptOf(Session& session) const {
  // Only Engine puts a Reclaimer there. Calls of a session come one at a time.
  if (auto found = session.kept()) return std::static_pointer_cast<KeptRuns>(found);
  auto made = std::make_shared<KeptRuns>(session.buffers(), session.shared_quota(),
                                         kept_bytes_.load(std::memory_order_relaxed));
  session.set_kept(made);
  return made;
}

void Engine::RunWithKept(RunInput input, Session& session, const ProgramKey& key, RunDone done) {
  if (absl::Status loss = TakeLoss(session); !loss.ok()) return done(std::move(loss));
  const std::shared_ptr<KeptRuns> runs = KeptOf(session);
  auto begun = runs->Begin(input.request.caller, key, *input.program, input.call, kept_programs_);
  if (!begun) return StartRun(std::move(input), std::move(done));
  auto kept = std::make_shared<KeptRun>(*std::move(begun));  // lives until the run is done
  auto run_main = [kept](RunInput run, RunDone done) {
    run.program = kept->main;
    run.call.arguments = kept->arguments;
    run.call.variables = kept->variables;
    StartRun(std::move(run),
             [kept, done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
               kept = nullptr;
               done(std::move(result));
             });
  };
  if (kept->prologue == nullptr) return run_main(std::move(input), std::move(done));
  RunInput prologue = input;
  prologue.program = kept->prologue;
  prologue.call = {.arguments = kept->prologue_arguments, .variables = {}, .free_buffers = {}};
  StartRun(std::move(prologue),
           [kept, runs, key, run_main, input = std::move(input),
            done = std::move(done)](const absl::StatusOr<ExecuteResult>& result) mutable {
             if (result.ok()) {
               runs->Made(key);
               return run_main(std::move(input), std::move(done));
             }
             // The undivided program says what is wrong, in the terms of the call.
             runs->Refuse(key);
             StartRun(std::move(input), std::move(done));
           });
}

absl::StatusOr<ExecuteResult> Engine::Repeat(Session& session, uint64_t request_id,
                                             const ResultMemory::Known& known) {
  UOPD_TRY(known.lost);
  if (known.maybe_result != nullptr) return *known.maybe_result;
  ExecuteResult out;
  const auto gone = [&](std::string_view why) {
    return absl::DataLossError(Cat("request id (", request_id, ") is done and its result (",
                                   known.bytes, " bytes) is no longer kept; ", why));
  };
  if (known.sources.empty()) return gone("it is not known from where to read it again");
  for (const ResultSource& source : known.sources) {
    if (source.handle == 0) {
      return gone("some of it was in no buffer: give such slots handles, and download them");
    }
    if (session.buffers().Version(source.handle) != source.version) {
      return gone(Cat("buffer ", source.handle,
                      " that it was in has changed since: download what "
                      "is needed before the next request writes there"));
    }
    std::string& data = out.data.emplace_back(source.bytes, '\0');
    UOPD_TRY(Read(session, source.handle, 0, std::span(data)));
  }
  return out;
}

void Engine::RunOnce(RequestContext& request, const ExecuteCall& call, Digest* digest,
                     RunDone done) {
  WithProgram(request, nullptr, call,
              [this, &request, call, digest, done = std::move(done)](
                  absl::StatusOr<std::shared_ptr<const Program>> program) mutable {
                if (!program.ok()) return done(program.status());
                *digest = (*program)->digest;
                RunLimits limits = Limits();
                limits.terms = TermsOf(nullptr, 0);
                auto memory = std::make_unique<CallMemory>(session_bytes(), total_);
                BufferStore& buffers = memory->buffers;
                StartRun({request, *std::move(program), buffers, call.run, std::move(limits),
                          watch_, task_pool_},
                         [this, memory = std::move(memory),
                          done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable {
                           memory = nullptr;
                           if (!result.ok()) NoteLosses();
                           done(std::move(result));
                         });
              });
}

RunTerms Engine::TermsOf(Session* maybe_session, uint64_t request_id) {
  RunTerms out;
  out.limit = std::chrono::milliseconds(run_ms_.load(std::memory_order_relaxed));
  out.has_id = request_id != 0;
  if (maybe_session == nullptr) return out;
  out.wanted = [this, maybe_session,
                request_id](std::optional<RunTerms::TimePoint> left) -> absl::Status {
    Session& session = *maybe_session;
    if (session.closed()) return NotFound(kSession, "session was closed while its request ran");
    if (request_id != 0 && session.cancelled().Has(request_id)) return CancelledById(request_id);
    if (!left || session.waited_for()) return absl::OkStatus();
    const auto grace = sessions_.grace();
    if (Session::Clock::now() < std::max(*left, session.last_use()) + grace) {
      return absl::OkStatus();
    }
    return absl::CancelledError(
        Cat("client left and did not come back within session.grace_ms (", grace.count(), " ms)"));
  };
  return out;
}

RunLimits Engine::Limits() const {
  return {max_return_bytes_, debug_.load(std::memory_order_relaxed)};
}

}  // namespace uopd::engine
