// SPDX-License-Identifier: MIT
#include "server/run_daemon.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <latch>
#include <memory>
#include <thread>

#include "absl/strings/str_join.h"
#include "core/base/config/config_values.h"
#include "core/base/machine/process_limits.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/addresses.h"
#include "server/check_config.h"
#include "server/config_file.h"
#include "server/daemon.h"
#include "server/owner_watch.h"
#include "server/ready_file.h"
#include "server/replay.h"
#include "server/service_manager.h"
#include "server/worker/fork/fork_loop.h"
#include "server/worker/fork/fork_server.h"
#include "server/worker/fork/stray_signals.h"

namespace uopd {
namespace {

// Exit code: after server.drain_timeout_ms something still ran and could not be stopped. See
// docs/operations/running.md.
constexpr int kExitStuck = 3;
// Exit code: everything ended in order, but requests were cut off by server.drain_timeout_ms.
constexpr int kExitCut = 4;
// Added to server.drain_timeout_ms: a second for stopped runs to notice, plus time to exit.
constexpr std::chrono::milliseconds kExitTime{1500};
// Limit for writing the last log line.
constexpr std::chrono::seconds kLogTime{1};
// Freed memory that malloc keeps in each of its arenas, and the size from which it maps every piece
// of memory by itself. Messages of up to a few MiB come and go with every request. By default
// malloc gives their pages back to the system, and each request faults them in again.
constexpr int kKeptBytes = 16 << 20, kLeastKeptBytes = 1 << 20, kMappedBytes = 4 << 20;
// malloc's own number of arenas for each processor. It counts those of the machine, also below a
// quota.
constexpr int kArenas = 8;
// All arenas together keep at most one of so many parts of the memory.
constexpr int64_t kKeptPart = 8;
// A part of the shutdown that takes longer is logged.
constexpr std::chrono::milliseconds kSlowEnd{500};

// Reads all settings, and adds what is wrong to `problems`.
CommandLine ReadSettings(std::span<const char* const> args, Config& config,
                         Config::Problems& problems) {
  CommandLine line = *config.SetFromFlags(args, &problems);
  if (!line.config_file.empty()) ReadConfigFile(line.config_file, config, problems);
  config.SetFromEnvironment(environ, &problems).IgnoreError();  // they are in `problems`
  if (absl::Status status = config.ResolveDefaults(); !status.ok()) problems.push_back(status);
  return line;
}

// A daemon that does not start says why on stderr, and in its log file, where people look later.
class Start {
 public:
  explicit Start(const Config& config) : config_(config) {}

  absl::Status OpenLog() {
    unsigned mode = 0600;
    config::ParseFileMode(config_.log_file_mode(), &mode);  // CheckSettings says if it is none
    UOPD_TRY(OpenLogFile(config_.log_file(), mode));
    has_file_ = !config_.log_file().empty();
    return absl::OkStatus();
  }
  // Returns the exit status.
  int Fail(const Config::Problems& problems) const {
    int out = 1;
    for (const absl::Status& problem : problems) {
      if (absl::IsInvalidArgument(problem)) out = 2;
      std::fprintf(stderr, "uopd: %s\n", WithoutControls(StatusText(problem)).c_str());
      if (has_file_) UOPD_LOG(kError, "the daemon does not start", {"why", StatusText(problem)});
    }
    return out;
  }
  int Fail(const absl::Status& status) const { return Fail(Config::Problems{status}); }

 private:
  const Config& config_;
  bool has_file_ = false;
};

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

struct Signal {
  int number = 0;
  bool own = false;  // this process sent it: an operator's call, or the end of its owner
};

Signal WaitForSignal(const sigset_t& signals) {
  siginfo_t info{};
  while (sigwaitinfo(&signals, &info) < 0) {
  }
  return {info.si_signo, info.si_pid == getpid()};
}

// What a part of it cannot do does not keep the others from what they can.
void Reload(Daemon& daemon, std::span<const char* const> args) {
  if (const absl::Status status = ReopenLogFile(); !status.ok()) {
    // The log goes on in the old file, which may have been moved out of sight.
    std::fprintf(stderr, "uopd: %s; the log stays where it was\n", StatusText(status).c_str());
    UOPD_LOG(kError, "the log file is not opened again", {"status", status});
  }
  Config config;
  Config::Problems problems;
  ReadSettings(args, config, problems);
  for (const absl::Status& problem : problems) {
    UOPD_LOG(kError, "settings not reloaded", {"status", problem});
  }
  if (problems.empty()) {
    SetLogLevel(config.log_level()).IgnoreError();  // checked by the table
    daemon.Reload(config);
  }
  daemon.ReloadTenants();  // a token that was taken away has to go, whatever else is wrong
}

void LogIgnored(const Config& config) {
  if (config.ignored_variables().empty()) return;
  UOPD_LOG(kInfo, "variables that Kubernetes made for a service are ignored",
           {"variables", absl::StrJoin(config.ignored_variables(), ",")});
}

// A second signal ends the process at once. One that comes after `first`, which the process itself
// sent, is the first of a supervisor: Kubernetes, systemd and others send it after whatever began
// the end.
void ExitOnSecondSignal(sigset_t signals, const Signal& first, const std::string& ready_file) {
  sigdelset(&signals, SIGHUP);
  std::thread([signals, first, ready_file] {
    if (first.own) {
      UOPD_LOG(kInfo, "a signal during the drain, which goes on; another one ends it",
               {"signal", WaitForSignal(signals).number});
    }
    WaitForSignal(signals);
    if (!ready_file.empty()) ReadyFile::RemoveAt(ready_file);
    _exit(130);
  }).detach();
}

// The part that the process is shutting down now.
std::atomic<const char*> ending{"requests"};

// Ends the process if the shutdown takes too long. Possible causes: a kernel without polls, a
// driver that hangs, a helper process that was stopped. By then, what was promised to clients is on
// disk, or it was refused.
void ExitWhenStuck(std::chrono::milliseconds after, const std::string& ready_file) {
  std::thread([after, ready_file] {
    std::this_thread::sleep_for(after);
    if (!ready_file.empty()) ReadyFile::RemoveAt(ready_file);
    // The log itself may be stuck, for example on a disk that hangs.
    std::latch& logged = *new std::latch(1);
    std::thread([&logged] {
      UOPD_LOG(kError, "still running after the drain, giving up", {"ending", ending.load()},
               {"exit_status", kExitStuck});
      logged.count_down();
    }).detach();
    const auto limit = std::chrono::steady_clock::now() + kLogTime;
    while (!logged.try_wait() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    _exit(kExitStuck);
  }).detach();
}

// Runs the parts of the shutdown one after the other. The log names a part that takes long.
class Ending {
 public:
  ~Ending() { Done(); }
  void Begin(const char* part) {
    Done();
    ending = part;
    begun_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  void Done() const {
    const std::chrono::duration<double> took = Clock::now() - begun_;
    if (begun_ == Clock::time_point() || took < kSlowEnd) return;  // requests have their own time
    UOPD_LOG(kWarn, "ending takes long", {"part", ending.load()}, {"seconds", took.count()});
  }
  Clock::time_point begun_;
};

// Every connection needs a descriptor, and so does every session for the process of its client.
// Many systems allow a process only 1024 of them.
void AllowFiles(int64_t clients) {
  constexpr rlim_t kOthers = 1024;  // for files, workers and listeners
  const rlim_t wanted = static_cast<rlim_t>(clients) + kOthers;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return;
  files.rlim_cur = std::min(wanted, files.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur == wanted) return;
  UOPD_LOG(kWarn, "fewer open files are allowed than limits.connections and limits.sessions need",
           {"allowed", files.rlim_cur}, {"wanted", wanted});
}

void SetUpMalloc(const ProcessLimits& limits) {
  const int arenas = kArenas * limits.processors();
  const auto kept = static_cast<int>(
      std::clamp<int64_t>(limits.memory_bytes() / kKeptPart / arenas, kLeastKeptBytes, kKeptBytes));
  mallopt(M_ARENA_MAX, arenas);
  mallopt(M_TRIM_THRESHOLD, kept);
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);
}

// Returns the exit status: a text that nobody got is a failure.
int Print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1;
}

int Main(std::span<const char* const> args) {
  Config config;
  Config::Problems problems;
  const CommandLine line = ReadSettings(args, config, problems);
  if (line.help) return Print(ConfigHelp());
  if (line.version) return Print("uopd " UOPD_VERSION "\n");
  if (line.print_config_docs) return Print(ConfigDocs() + "\n" + MetricsDocs());
  if (line.check_config) return ReportConfig(config, std::move(problems));
  Start start(config);
  if (!problems.empty()) {
    start.OpenLog().IgnoreError();  // there may be worse
    return start.Fail(problems);
  }
  if (!line.replay_file.empty()) return Replay(line.replay_file, config);
  SetLogLevel(config.log_level()).IgnoreError();  // checked by the table
  if (absl::Status status = start.OpenLog(); !status.ok()) return start.Fail(status);
  LogIgnored(config);

  const std::unique_ptr<ServiceManager> manager =
      ServiceManager::FromEnvironment(config.server_owner_fd() >= 0);

  // Signals are blocked before any thread starts. All threads inherit this, so only the sigwait
  // below sees signals.
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (problems = CheckSettings(config); !problems.empty()) return start.Fail(problems);
  auto listeners = BindAddresses(config);
  if (!listeners.ok()) return start.Fail(listeners.status());
  // A daemon that was killed left it, and who waits for it would find it at once.
  if (!config.server_ready_file().empty()) ReadyFile::RemoveAt(config.server_ready_file());

  SetUpMalloc(ProcessLimits::AtStart());
  AllowFiles(config.limits_connections() + config.limits_sessions());
  std::unique_ptr<OwnerWatch> owner;
  if (config.server_owner_fd() >= 0) {
    auto watch = OwnerWatch::Start(static_cast<int>(config.server_owner_fd()));
    if (!watch.ok()) return start.Fail(watch.status());
    owner = *std::move(watch);
  }
  auto forks = worker::ForkServer::Start();
  if (!forks.ok()) return start.Fail(forks.status());
  auto daemon = Daemon::Start(config, *std::move(listeners), **forks);
  if (!daemon.ok()) return start.Fail(daemon.status());
  manager->Ready((*daemon)->Serving());
  manager->KeepAlive([&daemon] { (*daemon)->Touch(); });
  Signal signal;
  while ((signal = WaitForSignal(signals)).number == SIGHUP) {
    manager->Reloading();
    Reload(**daemon, args);
    manager->Ready((*daemon)->Serving());
  }
  owner = nullptr;  // its signal would be the second one
  ExitOnSecondSignal(signals, signal, config.server_ready_file());
  ExitWhenStuck((*daemon)->drain_limit() + kExitTime, config.server_ready_file());
  UOPD_LOG(kInfo, "draining", {"signal", signal.number});
  manager->Stopping("draining", (*daemon)->drain_limit() + kExitTime);
  Ending parts;
  const bool finished = (*daemon)->End([&](const char* part) { parts.Begin(part); });
  parts.Begin("helpers");
  forks->reset();
  return finished ? 0 : kExitCut;
}

}  // namespace

int RunDaemon(int argc, char** argv, const std::vector<worker::JobHandler>& jobs) {
  umask(0077);  // its files may contain what clients sent: only this user reads them
  worker::IgnoreStraySignals();
  worker::BecomeForkServer(argc, argv, jobs);
  const std::vector<const char*> args(argv + 1, argv + argc);
  return Main(args);
}

}  // namespace uopd
