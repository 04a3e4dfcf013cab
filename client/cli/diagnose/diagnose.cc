// SPDX-License-Identifier: MIT
// uopctl diagnose: collects what a maintainer asks for into one file, and names likely causes.
//
// Of what clients sent, only names of kernels are in it. Each part is collected by itself: what
// cannot be had is named, and the rest is there.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "client/cli/diagnose/causes.h"
#include "client/cli/envelope.h"
#include "client/cli/http_get.h"
#include "client/cli/operate/views.h"
#include "core/base/output_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

// A folder that is removed at the end. Only this user can look into it.
class WorkFolder {
 public:
  static absl::StatusOr<WorkFolder> Make() {
    std::error_code error;
    const auto base = std::filesystem::temp_directory_path(error);
    std::string path = (error ? "/tmp" : base.string()) + "/uopctl-XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      return absl::FailedPreconditionError(
          Cat("no folder can be made at ", path, ": ", std::strerror(errno)));
    return WorkFolder(std::move(path));
  }
  ~WorkFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  WorkFolder(WorkFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

absl::Status RunProgram(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& one : arguments) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, pointers[0], nullptr, nullptr, pointers.data(), environ);
  if (error != 0)
    return absl::FailedPreconditionError(
        Cat(arguments[0], " cannot be started: ", std::strerror(error)));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat(arguments[0], " failed"));
}

// Writes `files` (contents by name) as files of `folder` into a .tar.gz that only this user can
// read. The system's tar makes it. Errors: of WriteFile; FAILED_PRECONDITION: there is no tar, or
// it failed.
absl::Status WriteArchive(const std::string& path, const std::string& folder,
                          const std::map<std::string, std::string>& files) {
  UOPD_ASSIGN(const WorkFolder work, WorkFolder::Make());
  std::error_code error;
  std::filesystem::create_directory(Cat(work.path(), "/", folder), error);
  for (const auto& [name, contents] : files)
    UOPD_TRY(WriteFile(Cat(work.path(), "/", folder, "/", name), contents));
  const std::string archive = Cat(work.path(), "/archive");
  UOPD_TRY(RunProgram({"tar", "-C", work.path(), "-czf", archive, "--", folder}));
  std::stringstream bytes;
  bytes << std::ifstream(archive, std::ios::binary).rdbuf();
  if (bytes.str().empty()) return absl::FailedPreconditionError("tar made an empty archive");
  return WriteFile(path, bytes.str(), {.mode = 0600, .keeps_mode = false});
}

struct DiagnoseFlags {
  std::string output, http = kHttpAddress;
};

struct Collected {
  json parts = {{"missing", json::object()}};
  std::string metrics, log;
  std::vector<const CauseRule*> causes;
  absl::Status daemon;  // why what only the daemon can tell is missing
};

// "20260131T120000Z".
std::string TimeForName(std::time_t now) {
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

// The reasons of failures that are remembered for a while quote graphs, which clients sent.
json WithoutTexts(json quarantine) {
  for (json& job : quarantine["jobs"]) {
    const bool of_worker = job["pool"] != "unsupported" && job["pool"] != "compiler" &&
                           (job["pool"] != "tuning" || !job["passing"].get<bool>());
    if (!of_worker) job["reason"] = "";
  }
  return quarantine;
}

json CacheJson(const v1::GetCacheStatsResponse& stats) {
  json out = json::array();
  for (const v1::StoreStats& store : stats.stores()) {
    out.push_back({{"store", store.store()},
                   {"rows", store.rows()},
                   {"size_bytes", store.bytes()},
                   {"hits", store.hits()},
                   {"misses", store.misses()},
                   {"corrupt", store.corrupt()},
                   {"puts", store.puts()},
                   {"evictions", store.evictions()}});
  }
  return out;
}

json DevicesJson(const v1::HelloResponse& hello) {
  json out = json::array();
  for (const v1::Device& device : hello.devices()) {
    out.push_back({{"name", device.name()},
                   {"kind", device.kind()},
                   {"arch", device.arch()},
                   {"threads", device.threads()},
                   {"memory_bytes", device.memory_bytes()},
                   {"memory_used_bytes", device.memory_used_bytes()},
                   {"unavailable_reason", device.unavailable_reason()}});
  }
  return out;
}

// Puts the part of this name, or why it is not there. `take` makes it of the daemon's answer.
template <class Answer, class Take>
void Collect(const char* name, const absl::StatusOr<Answer>& answer, json& parts, Take take) {
  if (answer.ok()) {
    parts[name] = take(*answer);
  } else {
    parts["missing"][name] = answer.status().ToString();
  }
}

void CollectFromDaemon(client::Session& session, Collected& out) {
  json& parts = out.parts;
  const v1::HelloResponse& hello = session.hello();
  parts["daemon"] = {{"server", hello.server()}, {"instance", hello.instance()}};
  parts["devices"] = DevicesJson(hello);
  const auto to_json = [](const auto& answer) { return ToJson(answer); };
  const absl::StatusOr<v1::GetStatusResponse> status = session.GetStatus();
  out.daemon = status.status();
  Collect("status", status, parts, to_json);
  Collect("sessions", session.ListSessions(), parts, to_json);
  Collect("settings", session.ListSettings(), parts,
          [](const auto& answer) { return ToJson(answer, false); });
  Collect("quarantine", session.ListQuarantine(), parts,
          [](const auto& answer) { return WithoutTexts(ToJson(answer)); });
  Collect("cache", session.GetCacheStats(), parts, CacheJson);
  Collect("log", session.GetLogTail(), parts, [&](const v1::GetLogTailResponse& tail) {
    for (const std::string& line : tail.lines()) Append(out.log, line, "\n");
    return json(tail.lines_size());
  });
}

Collected CollectAll(const Globals& globals, const DiagnoseFlags& flags, std::time_t now) {
  Collected out;
  out.parts["uopctl"] = UOPD_VERSION;
  out.parts["address"] = globals.address;
  out.parts["collected_unix_seconds"] = now;
  if (const auto session = globals.Connect(); session.ok()) {
    CollectFromDaemon(**session, out);
  } else {
    out.daemon = session.status();
    out.parts["missing"]["hello"] = session.status().ToString();
  }
  if (auto metrics = GetMetrics(flags.http, globals.timeout_s); metrics.ok()) {
    out.metrics = *std::move(metrics);
  } else {
    out.parts["missing"]["metrics"] = metrics.status().ToString();
  }
  out.causes = LikelyCauses(FactsOf(out.parts, ReadSamples(out.metrics)));
  return out;
}

json CausesJson(const std::vector<const CauseRule*>& causes) {
  json out = json::array();
  for (const CauseRule* rule : causes)
    out.push_back({{"id", rule->id}, {"cause", rule->cause}, {"remedy", rule->remedy}});
  return out;
}

std::string CausesText(const Collected& collected) {
  std::string out = collected.causes.empty() ? "nothing stands out\n" : "likely causes:\n";
  for (const CauseRule* rule : collected.causes)
    Append(out, "- ", rule->cause, " [", rule->id, "]\n    ", rule->remedy, "\n");
  for (const auto& [part, why] : collected.parts["missing"].items())
    Append(out, "missing: ", part, ": ", why.get<std::string>(), "\n");
  return out;
}

absl::Status Diagnose(Globals& globals, const DiagnoseFlags& flags) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string name = Cat("uopd-diagnose-", TimeForName(now));
  const std::string path = flags.output.empty() ? Cat(name, ".tar.gz") : flags.output;
  Collected collected = CollectAll(globals, flags, now);
  collected.parts["likely_causes"] = CausesJson(collected.causes);
  std::string summary = CausesText(collected);
  if (collected.parts.contains("status"))
    summary = Cat(StatusPage(collected.parts["status"]), "\n", summary);
  std::map<std::string, std::string> files = {{"diagnose.json", Cat(LineOf(collected.parts), "\n")},
                                              {"summary.txt", summary}};
  if (!collected.metrics.empty()) files["metrics.txt"] = collected.metrics;
  if (!collected.log.empty()) files["log.txt"] = collected.log;
  UOPD_TRY(WriteArchive(path, name, files));
  globals.data = {{"file", path},
                  {"likely_causes", collected.parts["likely_causes"]},
                  {"missing", collected.parts["missing"]}};
  if (!globals.json) std::printf("%s%s\n", CausesText(collected).c_str(), path.c_str());
  // The file is there, and says so; a script should know, too.
  return collected.daemon;
}

}  // namespace

void AddDiagnose(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<DiagnoseFlags>();
  CLI::App* command = app.add_subcommand(
      "diagnose",
      "collect versions, settings, status, metrics, log and quarantine into one file for "
      "maintainers, and name likely causes");
  command->add_option("--output", flags->output,
                      "the file; absent: uopd-diagnose-TIME.tar.gz in this folder");
  AddHttpOption(*command, flags->http);
  command->callback([&globals, flags] { globals.status = Diagnose(globals, *flags); });
}

}  // namespace uopd::cli
