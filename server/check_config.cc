// SPDX-License-Identifier: MIT
#include "server/check_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/base/config/config_values.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "devices/registry.h"
#include "server/addresses.h"
#include "server/engine/session/tenants.h"
#include "server/open_cluster.h"

namespace uopd {
namespace {

namespace fs = std::filesystem;

class Checker {
 public:
  explicit Checker(const Config& config) : config_(config) {}

  // `status` says by itself which setting it is about.
  void Add(absl::Status status) {
    if (!status.ok()) problems_.push_back(std::move(status));
  }
  void Add(std::string_view key, const absl::Status& status) { Add(config_.About(key, status)); }
  void CheckFileMode(std::string_view key, const std::string& text) {
    unsigned mode = 0;
    if (!config::ParseFileMode(text, &mode))
      Add(key, absl::InvalidArgumentError("is no octal mode from 0 to 0777"));
  }
  // A folder that is there and can be written, or could be made.
  void CheckFolder(std::string_view key, fs::path path) {
    std::error_code error;
    path = fs::absolute(path, error);
    const fs::path wanted = path;
    // A link that leads nowhere is there, and no folder can be made in its place.
    while (!fs::exists(fs::symlink_status(path, error)) && path.has_relative_path())
      path = path.parent_path();
    if (!fs::is_directory(path, error)) {
      Add(key, absl::FailedPreconditionError(Cat(path.string(), " is no folder")));
    } else if (faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
      const char* const why = std::strerror(errno);  // NOLINT: one thread
      Add(key, absl::FailedPreconditionError(
                   path == wanted ? Cat(path.string(), " cannot be written: ", why)
                                  : Cat(wanted.string(), " cannot be made: ", path.string(),
                                        " cannot be written: ", why)));
    }
  }
  // A file that can be written, or made in a folder that is there. `fits`: whether what is there
  // already, itself and not what a link stands for, is of the kind that is wanted.
  void CheckFile(std::string_view key, const std::string& path, const char* kind,
                 bool (*fits)(mode_t)) {
    if (path.empty()) return;
    struct stat info{};
    const bool exists = lstat(path.c_str(), &info) == 0;
    const fs::path folder = fs::path(path).parent_path();
    const std::string place = exists ? path : folder.empty() ? "." : folder.string();
    if (exists && !fits(info.st_mode)) {
      Add(key, absl::FailedPreconditionError(Cat(path, " is there and is no ", kind)));
    } else if (faccessat(AT_FDCWD, place.c_str(), exists ? W_OK : W_OK | X_OK, AT_EACCESS) != 0) {
      Add(key, absl::FailedPreconditionError(Cat(
                   place, " cannot be written: ", std::strerror(errno))));  // NOLINT: one thread
    }
  }
  Config::Problems Take() { return std::move(problems_); }

 private:
  const Config& config_;
  Config::Problems problems_;
};

void CheckTenants(const Config& config, Checker& out) {
  engine::Tenants tenants;
  if (!config.server_token_file().empty()) {
    auto read = engine::Tenants::Read(config.server_token_file());
    if (!read.ok()) return out.Add("server.token_file", read.status());
    tenants = *std::move(read);
  }
  out.Add("server.operators", tenants.SetOperators(config.server_operators()));
}

void CheckDevices(const Config& config, Checker& out) {
  devices::RegistryOptions options;
  options.devices = config.device_list();
  const absl::Status listed = devices::Registry::Create(options).status();
  if (!listed.ok()) return out.Add("device.list", listed);
  options.cpu_features = config.device_cpu_features();
  const absl::Status baseline = devices::Registry::Create(options).status();
  if (!baseline.ok()) return out.Add("device.cpu_features", baseline);
  options.compile_only = config.device_compile_only();
  out.Add("device.compile_only", devices::Registry::Create(options).status());
}

}  // namespace

Config::Problems CheckSettings(const Config& config) {
  Checker out(config);
  out.Add(ListenAddress(config).status());
  out.Add(HttpAddress(config).status());
  if (!config.server_socket_mode().empty())
    out.CheckFileMode("server.socket_mode", config.server_socket_mode());
  out.Add("server.socket_group", net::Check({.mode = "", .group = config.server_socket_group()}));
  CheckTenants(config, out);
  if (const int64_t fd = config.server_owner_fd();
      fd >= 0 && fcntl(static_cast<int>(fd), F_GETFD) < 0)
    out.Add("server.owner_fd",
            absl::InvalidArgumentError(std::strerror(errno)));  // NOLINT: one thread
  CheckDevices(config, out);
  for (absl::Status& status : CheckCluster(config)) out.Add(std::move(status));
  out.CheckFileMode("log.file_mode", config.log_file_mode());
  return out.Take();
}

Config::Problems CheckPlaces(const Config& config) {
  Checker out(config);
  if (config.cache_level() > 0 && !config.cache_read_only())
    out.CheckFolder("server.data_dir", config.server_data_dir());
  if (const auto address = ListenAddress(config);
      address.ok() && address->kind == net::Address::kUnix)
    out.CheckFile("server.listen", address->path, "socket",
                  [](mode_t mode) { return S_ISSOCK(mode); });
  const std::string& ready = config.server_ready_file();
  if (!NamesStream(ready))
    out.CheckFile("server.ready_file", ready, "regular file",
                  [](mode_t mode) { return S_ISREG(mode); });
  if (!ready.empty() && !NamesStream(ready) && ready == config.log_file())
    out.Add("server.ready_file", Invalid("is log.file, too: it goes away when the daemon ends"));
  const auto log = FollowOwnLinks(config.log_file());
  out.Add("log.file", log.status());
  if (log.ok() && !NamesStream(*log))
    out.CheckFile("log.file", *log, "file",
                  [](mode_t mode) { return S_ISREG(mode) || S_ISCHR(mode) || S_ISFIFO(mode); });
  return out.Take();
}

int ReportConfig(const Config& config, Config::Problems problems) {
  for (Config::Problems more : {CheckSettings(config), CheckPlaces(config)}) {
    std::move(more.begin(), more.end(), std::back_inserter(problems));
  }
  for (const absl::Status& problem : problems)
    std::puts(WithoutControls(StatusText(problem)).c_str());
  if (problems.empty()) std::puts("the settings are right");
  return problems.empty() ? 0 : 2;
}

}  // namespace uopd
