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

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/config_file.h"
#include "server/daemon.h"
#include "server/owner_watch.h"
#include "server/ready_file.h"
#include "server/replay.h"
#include "server/worker/fork/fork_loop.h"
#include "server/worker/fork/fork_server.h"

namespace uopd {
namespace {

// Exit code: after server.drain_timeout_ms something still ran and could not be stopped. See
// docs/operations.md.
constexpr int kExitStuck = 3;
// Added to server.drain_timeout_ms: a second for stopped runs to notice, plus time to exit.
constexpr std::chrono::milliseconds kExitTime{1500};
// Limit for writing the last log line.
constexpr std::chrono::seconds kLogTime{1};
// Freed memory that malloc keeps in each of its arenas, and the size from which it maps every piece
// of memory by itself. Messages of up to a few MiB come and go with every request. By default malloc
// gives their pages back to the system, and each request faults them in again.
constexpr int kKeptBytes = 16 << 20, kMappedBytes = 4 << 20;
// A part of the shutdown that takes longer is logged.
constexpr std::chrono::milliseconds kSlowEnd{500};

// Reads everything but the defaults that depend on the machine.
absl::Status ReadSettings(std::span<const char* const> args, Config& config, CommandLine& line) {
  UOPD_ASSIGN(line, config.SetFromFlags(args));
  if (!line.config_file.empty()) UOPD_TRY(ReadConfigFile(line.config_file, config));
  UOPD_TRY(config.SetFromEnvironment(environ));
  return config.ResolveDefaults();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "uopd: %s\n", StatusText(status).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

int WaitForSignal(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

void Reload(Daemon& daemon, std::span<const char* const> args) {
  Config config;
  CommandLine line;
  absl::Status status = ReadSettings(args, config, line);
  if (status.ok()) status = ReopenLogFile();
  if (!status.ok()) {
    UOPD_LOG(kError, "settings not reloaded", {"status", status});
    return;
  }
  SetLogLevel(config.log_level()).IgnoreError();  // checked by the table
  daemon.Reload(config);
  UOPD_LOG(kInfo, "settings reloaded");
}

// A second request to stop ends the process at once.
void ExitOnSecondSignal(sigset_t signals) {
  sigdelset(&signals, SIGHUP);
  std::thread([signals] {
    WaitForSignal(signals);
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

// Every connection needs a descriptor, and so does every session for the process of its client. Many systems allow a
// process only 1024 of them.
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

int Main(std::span<const char* const> args) {
  Config config;
  CommandLine line;
  const absl::Status settings = ReadSettings(args, config, line);
  if (line.help) {
    std::fputs(ConfigHelp().c_str(), stdout);
    return 0;
  }
  if (line.version) {
    std::puts("uopd " UOPD_VERSION);
    return 0;
  }
  if (line.print_config_docs) {
    std::fputs((ConfigDocs() + "\n" + MetricsDocs()).c_str(), stdout);
    return 0;
  }
  if (!settings.ok()) return Fail(settings);
  if (!line.replay_file.empty()) return Replay(line.replay_file, config);
  SetLogLevel(config.log_level()).IgnoreError();  // checked by the table
  if (absl::Status status = OpenLogFile(config.log_file()); !status.ok()) return Fail(status);

  // Signals are blocked before any thread starts. All threads inherit this, so only the sigwait
  // below sees signals.
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  AllowFiles(config.limits_connections() + config.limits_sessions());
  std::unique_ptr<OwnerWatch> owner;
  if (config.server_owner_fd() >= 0) {
    auto watch = OwnerWatch::Start(static_cast<int>(config.server_owner_fd()));
    if (!watch.ok()) return Fail(watch.status());
    owner = *std::move(watch);
  }
  auto forks = worker::ForkServer::Start();
  if (!forks.ok()) return Fail(forks.status());
  auto daemon = Daemon::Start(config, **forks);
  if (!daemon.ok()) return Fail(daemon.status());
  int signal;
  while ((signal = WaitForSignal(signals)) == SIGHUP) Reload(**daemon, args);
  owner = nullptr;  // its signal would be the second one
  ExitOnSecondSignal(signals);
  ExitWhenStuck((*daemon)->drain_timeout() + kExitTime, config.server_ready_file());
  UOPD_LOG(kInfo, "draining", {"signal", signal});
  Ending parts;
  (*daemon)->End([&](const char* part) { parts.Begin(part); });
  parts.Begin("helpers");
  forks->reset();
  return 0;
}

}  // namespace

int RunDaemon(int argc, char** argv, const std::vector<worker::JobHandler>& jobs) {
  umask(0077);  // its files may contain what clients sent: only this user reads them
  worker::BecomeForkServer(argc, argv, jobs);
  const std::vector<const char*> args(argv + 1, argv + argc);
  return Main(args);
}

}  // namespace uopd
