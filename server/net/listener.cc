// SPDX-License-Identifier: MIT
#include "server/net/listener.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

#include "core/base/config/config_values.h"
#include "core/base/text.h"

namespace uopd::net {
namespace {

constexpr int kBacklog = 4096;  // usually also the system's own limit
constexpr int kTries = 10;

absl::Status Cannot(std::string_view what, const Address& address, int error) {
  return absl::UnavailableError(Cat("address (", ToText(address), ") cannot be ", what, ": ",
                                    std::strerror(error)));  // NOLINT: at the start, one thread
}

std::string LockPath(const Address& address) { return address.path + ".lock"; }

absl::StatusOr<mode_t> ModeOf(const SocketFile& file) {
  if (file.mode.empty()) return file.group.empty() ? 0600 : 0660;
  unsigned mode = 0;
  if (!config::ParseFileMode(file.mode, &mode)) {
    return absl::InvalidArgumentError(
        Cat("setting server.socket_mode (", file.mode, ") is no octal mode from 0 to 0777"));
  }
  return static_cast<mode_t>(mode);
}

// -1: keep the group of the process.
absl::StatusOr<gid_t> GroupOf(const SocketFile& file) {
  if (file.group.empty()) return static_cast<gid_t>(-1);
  gid_t number = 0;
  const char* const end = file.group.data() + file.group.size();
  const auto [stop, error] = std::from_chars(file.group.data(), end, number);
  if (error == std::errc() && stop == end) return number;
  const group* const found = getgrnam(file.group.c_str());  // NOLINT: at the start, one thread
  if (found != nullptr) return found->gr_gid;
  return absl::InvalidArgumentError(
      Cat("setting server.socket_group (", file.group, ") is no group of this machine"));
}

// Fills in the socket's name. Returns its length in the form that bind and connect need.
socklen_t FillUnix(const Address& address, sockaddr_un* out) {
  *out = {};
  out->sun_family = AF_UNIX;
  const bool abstract = address.kind == Address::kAbstract;  // its name begins with a zero byte
  std::memcpy(out->sun_path + (abstract ? 1 : 0), address.path.data(), address.path.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.path.size() + 1);
}

UniqueFd NewSocket(int family, int protocol) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

// Connections that are closed keep the port of a process that ended for a minute, unless they had
// this.
bool AllowReuse(int fd) {
  const int on = 1;
  return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0;
}

// A socket that is bound to `found` with this port. If there is none, errno has the reason.
UniqueFd BindAt(const addrinfo& found, int port) {
  sockaddr_storage to{};
  std::memcpy(&to, found.ai_addr, found.ai_addrlen);
  const auto wire_port = htons(static_cast<uint16_t>(port));
  if (found.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(to).sin6_port = wire_port;
  } else {
    reinterpret_cast<sockaddr_in&>(to).sin_port = wire_port;
  }
  UniqueFd fd = NewSocket(found.ai_family, found.ai_protocol);
  if (!fd) return fd;
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto try_bind = [&] {
    return bind(fd.get(), reinterpret_cast<sockaddr*>(&to), found.ai_addrlen) == 0;
  };
  // A port that is bound and not open yet is refused to others, unless both have SO_REUSEADDR. So
  // only what a dead process left is taken with it; a port at which another process listens stays
  // in use anyway.
  if (!try_bind() && !(errno == EADDRINUSE && AllowReuse(fd.get()) && try_bind())) {
    const int error = errno;
    fd.Reset();
    errno = error;
  }
  return fd;
}

}  // namespace

absl::Status Check(const SocketFile& file) {
  UOPD_TRY(ModeOf(file).status());
  return GroupOf(file).status();
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Listen(const Address& address,
                                                           const SocketFile& file) {
  UOPD_ASSIGN(std::unique_ptr<Listener> out, Bind(address, file));
  UOPD_TRY(out->Open());
  return out;
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Bind(const Address& address,
                                                         const SocketFile& file) {
  std::unique_ptr<Listener> out(new Listener(address));
  UOPD_TRY(address.kind == Address::kTcp ? out->BindTcp() : out->BindUnix(file));
  return out;
}

absl::Status Listener::Open() {
  for (const UniqueFd& socket : sockets_) {
    if (address_.kind == Address::kTcp) AllowReuse(socket.get());
    if (listen(socket.get(), kBacklog) != 0) return Cannot("bound", address_, errno);
  }
  return absl::OkStatus();
}

absl::Status Listener::BindTcp() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address_.host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(
        Cat("address (", ToText(address_), ") cannot be resolved: ", gai_strerror(error)));
  }
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    UniqueFd fd = BindAt(*one, address_.port);
    if (!fd) {
      error = errno;
      // A host name may have addresses of a family that this machine lacks. Then listen at the
      // others.
      if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) continue;
      break;
    }
    if (address_.port == 0) address_.port = PortOf(fd.get());
    error = 0;
    sockets_.push_back(std::move(fd));
  }
  freeaddrinfo(found);
  if (!sockets_.empty() && (error == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL)) {
    return absl::OkStatus();
  }
  return Cannot("bound", address_, error);
}

absl::Status Listener::BindUnix(const SocketFile& file) {
  const bool has_file = address_.kind == Address::kUnix;
  UOPD_ASSIGN(const mode_t mode, ModeOf(file));
  UOPD_ASSIGN(const gid_t group, GroupOf(file));
  if (has_file) {
    UOPD_TRY(TakeLock());
    UOPD_TRY(RemoveStale());
  }
  UniqueFd fd = NewSocket(AF_UNIX, 0);
  sockaddr_un name;
  const socklen_t size = FillUnix(address_, &name);
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&name), size) != 0) {
    return Cannot("bound", address_, errno);
  }
  if (has_file) {
    struct stat made{};
    if (stat(address_.path.c_str(), &made) == 0) {
      device_ = made.st_dev;
      inode_ = made.st_ino;
    }
    // Nobody can connect before Open, so nobody can connect before the mode is right.
    if (group != static_cast<gid_t>(-1) &&
        chown(address_.path.c_str(), static_cast<uid_t>(-1), group) != 0) {
      return Cannot(Cat("given to group ", file.group), address_, errno);
    }
    if (chmod(address_.path.c_str(), mode) != 0) return Cannot("given its mode", address_, errno);
  }
  sockets_.push_back(std::move(fd));
  return absl::OkStatus();
}

absl::Status Listener::TakeLock() {
  const std::string path = LockPath(address_);
  // The previous owner removes the lock file. So the locked file may no longer be the file of this
  // name.
  for (int i = 0; i < kTries; ++i) {
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return Cannot(Cat("locked by ", path), address_, errno);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      char pid[16] = "";
      const ssize_t n = pread(fd.get(), pid, sizeof pid - 1, 0);
      const std::string owner = n > 0 ? Cat("process ", pid) : "another process";
      return absl::UnavailableError(
          Cat("address (", ToText(address_), ") is served by ", owner, ", which holds ", path));
    }
    struct stat locked{}, named{};
    if (fstat(fd.get(), &locked) == 0 && stat(path.c_str(), &named) == 0 &&
        locked.st_dev == named.st_dev && locked.st_ino == named.st_ino) {
      const std::string pid = Cat(getpid());
      if (ftruncate(fd.get(), 0) != 0 || pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
        return Cannot(Cat("locked by ", path), address_, errno);
      }
      lock_ = std::move(fd);
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      Cat("address (", ToText(address_), ") is taken by one process after the other"));
}

// The socket file of a process that died, or that did not know the lock.
absl::Status Listener::RemoveStale() const {
  struct stat there{};
  if (lstat(address_.path.c_str(), &there) != 0) return absl::OkStatus();
  if (!S_ISSOCK(there.st_mode)) {
    return absl::UnavailableError(
        Cat("address (", ToText(address_), ") is a file that is no socket"));
  }
  const UniqueFd probe = NewSocket(AF_UNIX, 0);
  sockaddr_un name;
  const socklen_t size = FillUnix(address_, &name);
  if (probe && connect(probe.get(), reinterpret_cast<sockaddr*>(&name), size) == 0) errno = EISCONN;
  if (errno == ECONNREFUSED || errno == ENOENT) {
    unlink(address_.path.c_str());
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      Cat("address (", ToText(address_), ") is served by another process"));
}

Listener::~Listener() {
  struct stat there{};
  if (inode_ != 0 && lstat(address_.path.c_str(), &there) == 0 && there.st_dev == device_ &&
      there.st_ino == inode_) {
    unlink(address_.path.c_str());
  }
  if (lock_) unlink(LockPath(address_).c_str());  // removed before it is unlocked
}

}  // namespace uopd::net
