// SPDX-License-Identifier: MIT
#include "client/cli/diagnose/archive.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/output_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

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

}  // namespace

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

}  // namespace uopd::cli
