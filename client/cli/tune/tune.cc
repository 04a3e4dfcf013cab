// SPDX-License-Identifier: MIT
// uopctl tune GRAPH, and tune ls, attach, cancel, resume, svg: tuning as an operation of the
// daemon, which goes on without this process.
//
// An attached client shows one line that it rewrites, or plain lines if standard error is no
// terminal. Ctrl-C detaches it. If the daemon goes away, the client attaches again when it is back.
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/time/time.h"
#include "client/cli/cache/cache_flags.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/run/graph_run.h"
#include "client/cli/tune/tune_view.h"
#include "client/cpp/net/wire_call.h"
#include "core/base/mutex.h"
#include "core/base/output_file.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

struct TuneFlags {
  std::string graph, device, budget, svg, id;
  uint64_t candidates = 0;
  bool detach = false;
};

// SIGINT on a thread of its own. Made before threads of gRPC, which inherit that the signal is
// blocked.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    thread_ = std::thread([this] { Wait(); });
  }
  ~Interrupts() {
    end_.store(true);
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Ctrl-C cancels this call; null: it ends the process.
  void Cancels(grpc::ClientContext* maybe_call) {
    MutexLock lock(mu_);
    call_ = maybe_call;
    if (call_ != nullptr && came_) call_->TryCancel();
  }
  void Takes(bool takes) {
    MutexLock lock(mu_);
    takes_ = takes;
  }
  bool came() {
    MutexLock lock(mu_);
    return came_;
  }

 private:
  void Wait() {
    constexpr timespec kStep{.tv_sec = 0, .tv_nsec = 50'000'000};
    while (!end_.load()) {
      if (sigtimedwait(&set_, nullptr, &kStep) != SIGINT) continue;
      MutexLock lock(mu_);
      if (!takes_) _exit(130);
      came_ = true;
      if (call_ != nullptr) call_->TryCancel();
    }
  }

  sigset_t set_{}, before_{};
  std::atomic<bool> end_{false};
  Mutex mu_;
  grpc::ClientContext* call_ UOPD_GUARDED_BY(mu_) = nullptr;
  bool takes_ UOPD_GUARDED_BY(mu_) = false;  // otherwise Ctrl-C ends the process
  bool came_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// "90s", "5m", "1h30m", "500ms"; a number alone is of seconds. 0: none was given.
absl::StatusOr<uint64_t> BudgetMs(const std::string& text) {
  if (text.empty()) return uint64_t{0};
  absl::Duration out;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size()) {
    out = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &out)) {
    return absl::InvalidArgumentError(
        Cat("--budget takes a time such as 90s, 5m or 1h30m, not `", text, "`"));
  }
  if (out < absl::Milliseconds(1) || out > absl::Hours(24 * 30)) {
    return absl::InvalidArgumentError(Cat("--budget ", text, " is not between 1ms and 30 days"));
  }
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(out));
}

json ToJson(const v1::Tune& tune) {
  return {{"id", tune.id()},
          {"title", tune.title()},
          {"tenant", tune.tenant()},
          {"state", tune.state()},
          {"error", tune.error()},
          {"waits_for", tune.waits_for()},
          {"host", tune.host()},
          {"beam", tune.beam()},
          {"budget_seconds", 1e-3 * static_cast<double>(tune.budget_ms())},
          {"budget_candidates", tune.budget_candidates()},
          {"spent_seconds", 1e-3 * static_cast<double>(tune.spent_ms())},
          {"candidates", tune.candidates()},
          {"pruned", tune.pruned()},
          {"duplicates", tune.duplicates()},
          {"created_unix_seconds", 1e-6 * static_cast<double>(tune.created_unix_us())},
          {"ended_unix_seconds", 1e-6 * static_cast<double>(tune.ended_unix_us())},
          {"attempts", tune.attempts()},
          {"kernels", tune.kernels()},
          {"kernels_searching", tune.kernels_searching()},
          {"kernels_tuned", tune.kernels_tuned()},
          {"kernels_found", tune.kernels_found()},
          {"kernels_failed", tune.kernels_failed()},
          {"kernels_skipped", tune.kernels_skipped()}};
}

json ToJson(const v1::TunedKernel& kernel) {
  const auto time = [](double seconds) {
    return std::isfinite(seconds) && seconds > 0 ? json(seconds) : json(nullptr);
  };
  return {{"number", kernel.number()},
          {"name", kernel.name()},
          {"device", kernel.device()},
          {"launches", kernel.launches()},
          {"state", kernel.state()},
          {"detail", kernel.detail()},
          {"opts", kernel.opts()},
          {"best_seconds", time(kernel.best_seconds())},
          {"heuristic_seconds", time(kernel.heuristic_seconds())},
          {"measured", kernel.measured()},
          {"failed", kernel.failed()},
          {"pruned", kernel.pruned()},
          {"duplicates", kernel.duplicates()},
          {"search_seconds", 1e-3 * static_cast<double>(kernel.search_ms())},
          {"limited", kernel.limited()}};
}

// What there is to say besides numbers.
std::string RemarkOf(const v1::Tune& tune) {
  if (!tune.error().empty()) return ": " + tune.error();
  return tune.waits_for().empty() ? "" : ": waiting for " + tune.waits_for();
}

void PrintTune(Globals& globals, const v1::Tune& tune) {
  if (globals.json) {
    globals.data = ToJson(tune);
    return;
  }
  std::printf("%s %s, %u kernels: %u tuned, %u found, %u failed, %u skipped%s\n", tune.id().c_str(),
              tune.state().c_str(), tune.kernels(), tune.kernels_tuned(), tune.kernels_found(),
              tune.kernels_failed(), tune.kernels_skipped(), RemarkOf(tune).c_str());
}

absl::Status WriteSvg(const std::string& path, const TuneView& view) {
  return path.empty() ? absl::OkStatus() : WriteFile(path, TuneSvg(view));
}

// Shows how an operation goes on, on standard error.
class Display {
 public:
  void Show(const TuneView& view, const std::vector<size_t>& news) {
    if (terminal_) {
      std::string line = view.Progress();
      constexpr size_t kColumns = 110;
      if (line.size() > kColumns) line.resize(kColumns);
      std::fprintf(stderr, "\r\033[K%s", line.c_str());
      std::fflush(stderr);
      return;
    }
    if (view.tune().state() != state_) {
      state_ = view.tune().state();
      std::fprintf(stderr, "%s %s: %u kernels\n", view.tune().id().c_str(), state_.c_str(),
                   view.tune().kernels());
    }
    for (const size_t i : news) {
      if (view.kernels()[i].state() == "pending") continue;
      std::fprintf(stderr, "%s\n", view.Line(i).c_str());
    }
  }
  void Say(const std::string& text) {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
    std::fprintf(stderr, "%s\n", text.c_str());
  }
  void End() {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string state_;
};

// Watches until the operation is over (true), or Ctrl-C (false). `once`: only until everything
// known so far has come.
absl::StatusOr<bool> Watch(client::Session& session, Interrupts& interrupts, const std::string& id,
                           bool once, TuneView& view) {
  constexpr std::chrono::seconds kPatience{120}, kPause{1};  // with a daemon that does not answer
  Display display;
  auto answered = std::chrono::steady_clock::now();
  bool lost = false;
  for (;;) {
    grpc::ClientContext call;
    interrupts.Cancels(&call);
    v1::WatchTuneRequest request;
    request.set_id(id);
    bool first = true, complete = false;
    absl::Status status =
        session.WatchTune(call, request, [&](const v1::WatchTuneResponse& message) -> absl::Status {
          answered = std::chrono::steady_clock::now();
          if (std::exchange(first, false)) view.Clear();
          if (std::exchange(lost, false)) display.Say("attached again");
          const std::vector<size_t> news = view.Add(message);
          if (!once) display.Show(view, news);
          complete = once && !message.more();
          return complete ? absl::CancelledError("enough") : absl::OkStatus();
        });
    interrupts.Cancels(nullptr);
    if (complete || status.ok()) {
      if (!once) display.End();
      return true;
    }
    if (interrupts.came()) {
      if (!once) display.End();
      return false;
    }
    if (!absl::IsUnavailable(status) || std::chrono::steady_clock::now() - answered > kPatience) {
      if (!once) display.End();
      return status;
    }
    if (!std::exchange(lost, true))
      display.Say(Cat("the daemon does not answer (", StatusText(status), "): trying again"));
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status AttachTuning(Globals& globals, client::Session& session, Interrupts& interrupts,
                          const std::string& id, const std::string& svg) {
  TuneView view;
  interrupts.Takes(true);
  UOPD_ASSIGN(const bool over, Watch(session, interrupts, id, false, view));
  const std::string& whole = view.tune().id().empty() ? id : view.tune().id();
  if (!over) {
    std::fprintf(stderr,
                 "detached; the tuning goes on\n  uopctl tune attach %s\n  uopctl tune cancel %s\n",
                 whole.c_str(), whole.c_str());
    if (globals.json) globals.data = {{"id", whole}, {"state", "detached"}};
    return WriteSvg(svg, view);
  }
  if (globals.json) {
    json out = ToJson(view.tune());
    out["list"] = json::array();
    for (const v1::TunedKernel& kernel : view.kernels()) out["list"].push_back(ToJson(kernel));
    globals.data = out;
  } else {
    std::printf("%s", view.Table().c_str());
  }
  if (view.tune().state() != "done") {
    globals.bad = Cat("the operation is ", view.tune().state(), ", not done");
  } else if (view.tune().kernels_failed() > 0) {
    globals.bad = Cat(view.tune().kernels_failed(), " kernels failed");
  }
  return WriteSvg(svg, view);
}

std::string NewRequestId() {
  std::string out;
  std::ifstream("/proc/sys/kernel/random/uuid") >> out;
  return out;
}

absl::Status StartTuning(Globals& globals, const TuneFlags& flags) {
  Interrupts interrupts;
  v1::StartTuneRequest request;
  UOPD_ASSIGN(const uint64_t budget_ms, BudgetMs(flags.budget));
  UOPD_ASSIGN(*request.mutable_graph()->mutable_graph(), LoadGraph(flags.graph, flags.device));
  *request.mutable_options() = client::ToWire(globals.execution);
  request.set_budget_ms(budget_ms);
  request.set_budget_candidates(flags.candidates);
  request.set_request_id(NewRequestId());
  request.set_title(std::filesystem::path(flags.graph).filename().string().substr(0, 256));
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  UOPD_ASSIGN(const v1::StartTuneResponse started, session->StartTune(request));
  const v1::Tune& tune = started.tune();
  if (flags.detach) {
    PrintTune(globals, tune);
    return absl::OkStatus();
  }
  return AttachTuning(globals, *session, interrupts, tune.id(), flags.svg);
}

absl::Status AttachToTuning(Globals& globals, const TuneFlags& flags) {
  Interrupts interrupts;
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  return AttachTuning(globals, *session, interrupts, flags.id, flags.svg);
}

absl::Status ListTunings(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  UOPD_ASSIGN(const v1::ListTunesResponse found, session->ListTunes());
  json out = json::array();
  if (!globals.json) {
    std::printf("%-12s %-11s %8s %9s %10s %9s %5s  %s\n", "id", "state", "kernels", "done",
                "candidates", "searched", "age", "title");
  }
  for (const v1::Tune& tune : found.tunes()) {
    if (globals.json) {
      out.push_back(ToJson(tune));
      continue;
    }
    const uint32_t done = tune.kernels_tuned() + tune.kernels_found() + tune.kernels_failed() +
                          tune.kernels_skipped();
    std::printf("%.12s %-11s %8u %9u %10llu %8.1fs %5s  %s%s%s%s\n", tune.id().c_str(),
                tune.state().c_str(), tune.kernels(), done,
                static_cast<unsigned long long>(tune.candidates()),
                1e-3 * static_cast<double>(tune.spent_ms()),
                AgeText(tune.created_unix_us()).c_str(), tune.title().c_str(),
                tune.tenant().empty() ? "" : " of ", tune.tenant().c_str(), RemarkOf(tune).c_str());
  }
  if (globals.json) globals.data = {{"tunes", out}};
  return absl::OkStatus();
}

absl::Status CancelTuning(Globals& globals, const TuneFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  v1::CancelTuneRequest request;
  request.set_id(flags.id);
  UOPD_ASSIGN(const v1::CancelTuneResponse answer, session->CancelTune(request));
  PrintTune(globals, answer.tune());
  return absl::OkStatus();
}

absl::Status ResumeTuning(Globals& globals, const TuneFlags& flags) {
  Interrupts interrupts;
  v1::ResumeTuneRequest request;
  request.set_id(flags.id);
  UOPD_ASSIGN(const uint64_t more_ms, BudgetMs(flags.budget));
  request.set_more_budget_ms(more_ms);
  request.set_more_candidates(flags.candidates);
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  UOPD_ASSIGN(const v1::ResumeTuneResponse answer, session->ResumeTune(request));
  if (flags.detach) {
    PrintTune(globals, answer.tune());
    return absl::OkStatus();
  }
  return AttachTuning(globals, *session, interrupts, answer.tune().id(), flags.svg);
}

absl::Status TuningSvg(Globals& globals, const TuneFlags& flags) {
  Interrupts interrupts;
  UOPD_ASSIGN(const auto session, globals.OpenSession());
  TuneView view;
  UOPD_TRY(Watch(*session, interrupts, flags.id, true, view).status());
  if (!flags.svg.empty()) return WriteSvg(flags.svg, view);
  const std::string picture = TuneSvg(view);
  if (globals.json) {
    globals.data = {{"svg", picture}};
    return absl::OkStatus();
  }
  std::fwrite(picture.data(), 1, picture.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddTune(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* tune = app.add_subcommand(
      "tune", "tune the kernels of a graph, as an operation that goes on without this command");
  tune->require_subcommand(0, 1);
  tune->add_option("graph", flags->graph, "file of the textual form (docs/ir.md)");
  tune->add_option("--device", flags->device,
                   "the device for what the graph leaves to the daemon's default device");
  tune->add_flag("--detach", flags->detach, "do not wait: print the id of the operation");
  AddExecution(*tune, globals);
  const auto budget = [&](CLI::App& command, const char* time, const char* candidates) {
    command.add_option("--budget", flags->budget, time);
    command.add_option("--candidates", flags->candidates, candidates)->check(NumberIn(1, 1e9));
  };
  const auto svg = [&](CLI::App& command) {
    command.add_option("--svg", flags->svg, "write a picture of the searches to this file");
  };
  const auto id = [&](CLI::App& command) {
    command.add_option("id", flags->id, "id of an operation, or its first digits")
        ->required()
        ->check(HexDigits());
  };
  budget(*tune, "time for all searches together, such as 60s or 2h; absent: no limit",
         "most candidates of all kernels together; absent: no limit");
  svg(*tune);
  const auto add = [&](const char* name, const char* help,
                       absl::Status (*run)(Globals&, const TuneFlags&)) {
    CLI::App* command = tune->add_subcommand(name, help);
    command->callback([&globals, flags, run] { globals.status = run(globals, *flags); });
    return command;
  };
  add("ls", "the operations of this daemon, the newest first",
      [](Globals& g, const TuneFlags&) { return ListTunings(g); });
  CLI::App* attach = add("attach", "show an operation until it is over", AttachToTuning);
  id(*attach);
  svg(*attach);
  id(*add("cancel", "end an operation; what it has found stays",
          [](Globals& g, const TuneFlags& f) { return CancelTuning(g, f); }));
  CLI::App* resume = add("resume", "go on with an operation that is over", ResumeTuning);
  id(*resume);
  svg(*resume);
  budget(*resume, "more time for its searches", "more candidates");
  resume->add_flag("--detach", flags->detach, "do not wait");
  CLI::App* picture = add("svg", "a picture of the searches, to standard output or --svg FILE",
                          [](Globals& g, const TuneFlags& f) { return TuningSvg(g, f); });
  id(*picture);
  svg(*picture);
  tune->callback([&globals, flags, tune] {
    if (!tune->get_subcommands().empty()) return;
    if (flags->graph.empty()) {
      globals.status = absl::InvalidArgumentError(
          "a graph file is missing (or: ls, attach, cancel, resume, svg)");
      return;
    }
    globals.status = StartTuning(globals, *flags);
  });
}

}  // namespace uopd::cli
