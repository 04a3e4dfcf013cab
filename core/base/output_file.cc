// SPDX-License-Identifier: MIT
#include "core/base/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd {
namespace {

constexpr std::string_view kNull = "/dev/null";

absl::Status FileError(std::string_view doing, const std::string& path) {
  const int error = errno;
  return absl::ErrnoToStatus(error, Cat(doing, " ", path));
}

// The descriptor of this process that the path names.
std::optional<int> DescriptorOf(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    int number = -1;
    if (path.starts_with(prefix) &&
        absl::SimpleAtoi(std::string(path.substr(prefix.size())), &number) && number >= 0)
      return number;
  }
  return std::nullopt;
}

absl::StatusOr<UniqueFd> OpenStream(const std::string& path) {
  const auto number = DescriptorOf(path);
  UniqueFd out(number ? fcntl(*number, F_DUPFD_CLOEXEC, 0)
                      : open(std::string(kNull).c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!out) return FileError("opening", path);
  return out;
}

// The folder and the name in it.
std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

const char* KindOf(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link: name the file that it stands for";
  if (S_ISDIR(mode)) return "a folder";
  return "no regular file";
}

// Looks at what has the name now. INVALID_ARGUMENT: it must not be replaced. The result is the mode
// that the new file takes from the old one; nullopt: there is none, or it is of somebody else, who
// may have put it there.
absl::StatusOr<std::optional<mode_t>> LookAt(int folder, const std::string& name,
                                             const std::string& path) {
  struct stat facts{};
  if (fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return FileError("looking at", path);
  }
  if (!S_ISREG(facts.st_mode)) return Invalid(Cat(path, " is ", KindOf(facts.st_mode)));
  if (faccessat(folder, name.c_str(), W_OK, AT_EACCESS) != 0) return FileError("writing", path);
  if (facts.st_uid != geteuid()) return std::nullopt;
  return facts.st_mode & 0777;
}

}  // namespace

bool NamesStream(std::string_view path) { return path == kNull || DescriptorOf(path); }

absl::StatusOr<std::string> FollowOwnLinks(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as the system has it
  std::string at = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    struct stat facts{};
    if (NamesStream(at) || lstat(at.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return at;
    if (facts.st_uid != 0 && facts.st_uid != geteuid())
      return Invalid(Cat(at, " is a symbolic link of another user"));
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(at, error);
    if (error) return absl::UnavailableError(Cat("reading the link ", at, ": ", error.message()));
    at =
        (std::filesystem::path(at).parent_path() / target).string();  // an absolute one replaces it
  }
  return Invalid(Cat(path, " leads through too many symbolic links"));
}

struct OutputFile::State {
  std::string path;  // for messages
  Options options;
  UniqueFd folder;   // none: a stream
  std::string name;  // in the folder
  std::string part;  // the name until Keep; empty: a stream, or kept
  UniqueFd fd;
  uint64_t bytes = 0;

  ~State() {
    if (!part.empty()) unlinkat(folder.get(), part.c_str(), 0);
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path, const Options& options) {
  constexpr int kTries = 100;
  auto state = std::make_unique<State>();
  state->path = path;
  state->options = options;
  std::string real = path;
  if (options.own_links) {
    UOPD_ASSIGN(real, FollowOwnLinks(path));
  }
  if (NamesStream(real)) {
    UOPD_ASSIGN(state->fd, OpenStream(real));
    return OutputFile(std::move(state));
  }
  auto [folder, name] = Split(real);
  if (name.empty() || name == "." || name == "..") return Invalid(Cat(path, " names no file"));
  state->folder.Reset(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!state->folder) return FileError("opening the folder of", path);
  UOPD_ASSIGN(const std::optional<mode_t> mode, LookAt(state->folder.get(), name, path));
  state->name = std::move(name);
  for (int i = 0; i < kTries && !state->fd; ++i) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
      return FileError("naming a file beside", path);
    std::string part = absl::StrFormat(".uopd-%016x.tmp", number);
    state->fd.Reset(openat(state->folder.get(), part.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, options.mode));
    if (state->fd) state->part = std::move(part);
    if (!state->fd && errno != EEXIST) break;
  }
  if (!state->fd) return FileError("creating a file beside", path);
  if (mode && options.keeps_mode && fchmod(state->fd.get(), *mode) != 0)
    return FileError("giving its mode to", path);
  return OutputFile(std::move(state));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(state_->fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError("writing", state_->path);
    bytes.remove_prefix(static_cast<size_t>(n));
    state_->bytes += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Keep() {
  if (is_stream()) return absl::OkStatus();
  const int folder = state_->folder.get();
  const std::string &path = state_->path, &name = state_->name;
  if (state_->options.durable && fsync(state_->fd.get()) != 0) return FileError("writing", path);
  UOPD_TRY(LookAt(folder, name, path).status());  // somebody may have put something there
  if (renameat(folder, state_->part.c_str(), folder, name.c_str()) != 0)
    return FileError("replacing", path);
  state_->part.clear();
  if (!state_->options.durable) return absl::OkStatus();
  // The new name is in the folder, which has to reach the disk too. One that may not be read is
  // left to the system.
  const UniqueFd readable(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable ? fsync(readable.get()) != 0 : errno != EACCES)
    return FileError("writing the folder of", path);
  return absl::OkStatus();
}

bool OutputFile::is_stream() const { return !state_->folder; }
uint64_t OutputFile::bytes() const { return state_->bytes; }
UniqueFd OutputFile::Release() { return std::move(state_->fd); }

absl::Status WriteFile(const std::string& path, std::string_view contents,
                       const OutputFile::Options& options) {
  UOPD_ASSIGN(OutputFile file, OutputFile::Create(path, options));
  UOPD_TRY(file.Write(contents));
  return file.Keep();
}

}  // namespace uopd
