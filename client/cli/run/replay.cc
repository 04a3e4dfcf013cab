// SPDX-License-Identifier: MIT
// uopctl replay FILE: compiles the graph of a reproducer once more, in a child process, and says
// whether that still fails. It needs no running daemon and does not affect one.
//
// Exit status, as `git bisect run` understands it:
//   0    it does not fail any more: it compiles, or is refused with an error that blames the graph
//   1    it still fails: INTERNAL, the child crashed, or it took longer than --limit
//   125  unknown: no such file, no uopd, no such device
#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

constexpr int kStillFails = 1, kCannotTell = 125;

struct ReplayFlags {
  std::string file, daemon;
  double limit_s = 120;
};

// The path of the daemon's program: that of the flag --uopd, else the one beside this program, else
// the one that PATH finds.
std::string DaemonProgram(const ReplayFlags& flags) {
  if (!flags.daemon.empty()) return flags.daemon;
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "uopd";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "uopd";
}

// Waits for the child and returns its wait status; nullopt if it took too long.
std::optional<int> AwaitChild(pid_t pid, double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

absl::Status Replay(Globals& globals, const ReplayFlags& flags) {
  globals.exit_code = kCannotTell;
  if (access(flags.file.c_str(), R_OK) != 0) {
    return absl::NotFoundError(Cat(flags.file, " cannot be read: ", std::strerror(errno)));
  }
  std::string program = DaemonProgram(flags), option = "--replay", file = flags.file;
  char* const arguments[] = {program.data(), option.data(), file.data(), nullptr};
  pid_t pid = -1;
  if (const int error = posix_spawnp(&pid, program.c_str(), nullptr, nullptr, arguments, environ)) {
    return absl::NotFoundError(Cat(program, " cannot be started: ", std::strerror(error)));
  }
  const std::optional<int> status = AwaitChild(pid, flags.limit_s);
  std::string how;
  int code = kStillFails;
  if (!status) {
    how = Cat("still fails: it takes longer than ", flags.limit_s, " s");
  } else if (WIFSIGNALED(*status)) {
    how = Cat("still fails: killed by ", strsignal(WTERMSIG(*status)));
  } else if (WEXITSTATUS(*status) == 0) {
    how = "does not fail";
    code = 0;
  } else if (WEXITSTATUS(*status) == kCannotTell || WEXITSTATUS(*status) == 127) {
    return absl::FailedPreconditionError(Cat(flags.file, " cannot be replayed here"));
  } else {
    how = "still fails";
  }
  globals.exit_code = code;
  if (code != 0) globals.bad = how;
  if (globals.json) {
    globals.data = {{"fails", code != 0}, {"how", how}};
  } else {
    std::printf("%s\n", how.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddReplay(CLI::App& app, Globals& globals) {
  CLI::App* replay = app.add_subcommand(
      "replay",
      "compile a reproducer once more; exit status 0: fine now, 1: still fails, 125: "
      "cannot be told");
  auto flags = std::make_shared<ReplayFlags>();
  replay->add_option("file", flags->file, "as an INTERNAL error names it")->required();
  replay->add_option("--uopd", flags->daemon, "the daemon's program; absent: beside this one");
  replay->add_option("--limit", flags->limit_s, "seconds after which it counts as failed")
      ->capture_default_str()
      ->check(NumberIn(0.001, kMostSeconds, false));
  replay->callback([&globals, flags] { globals.status = Replay(globals, *flags); });
}

}  // namespace uopd::cli
