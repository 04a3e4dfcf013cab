// SPDX-License-Identifier: MIT
#include "client/cpp/net/poll_sets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr absl::Duration kMostWait = absl::Seconds(1);

// The program or library that an address belongs to. Null: none.
const void* ModuleOf(const void* address, std::string_view* name = nullptr) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return nullptr;
  if (name != nullptr && info.dli_fname != nullptr) *name = info.dli_fname;
  return info.dli_fbase;
}

// True if the variable is one of gRPC's, which may be linked in or a library.
bool IsOfGrpc(unsigned long long address) {
  std::string_view name;
  const void* const module = ModuleOf(reinterpret_cast<const void*>(address), &name);
  if (module == nullptr) return false;
  return module == ModuleOf(reinterpret_cast<const void*>(&grpc_init)) ||
         name.find("/libgrpc.so") != name.npos;
}

bool IsEpollSet(const std::filesystem::path& link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).native() == "anon_inode:[eventpoll]";
}

// Puts a new file descriptor in the place of an old one.
absl::Status Put(int made, int place) {
  if (made < 0) return absl::ErrnoToStatus(errno, "making a poll set after fork()");
  const bool ok = dup3(made, place, O_CLOEXEC) == place;
  const int error = errno;
  close(made);
  return ok ? absl::OkStatus() : absl::ErrnoToStatus(error, "replacing a poll set after fork()");
}

}  // namespace

void PollSets::Find() {
  const absl::Time until = absl::Now() + kMostWait;
  for (shut_down_ = false; !shut_down_ && absl::Now() < until;) {
    shut_down_ = grpc_is_initialized() == 0;
    if (!shut_down_) absl::SleepFor(absl::Microseconds(50));
  }
  wakeups_.clear();
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end;
       at.increment(error)) {
    if (!IsEpollSet(at->path())) continue;
    const std::string number = at->path().filename();
    int set = -1;
    std::from_chars(number.data(), number.data() + number.size(), set);
    std::ifstream info(Cat("/proc/self/fdinfo/", number));
    for (std::string line; std::getline(info, line);) {
      Wakeup w{.set = set, .event = -1, .events = 0, .data = 0};
      if (std::sscanf(line.c_str(), "tfd: %d events: %x data: %llx", &w.event, &w.events,
                      &w.data) == 3 &&
          IsOfGrpc(w.data))
        wakeups_.push_back(w);
    }
  }
}

absl::Status PollSets::Replace() {
  if (!shut_down_) {
    return absl::FailedPreconditionError(
        "the parent process used gRPC for something else while it forked, so its child cannot use "
        "it");
  }
  for (const Wakeup& w : wakeups_) {
    UOPD_TRY(Put(epoll_create1(EPOLL_CLOEXEC), w.set));
    UOPD_TRY(Put(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), w.event));
    epoll_event event{};
    event.events = w.events;
    event.data.u64 = w.data;
    if (epoll_ctl(w.set, EPOLL_CTL_ADD, w.event, &event) != 0)
      return absl::ErrnoToStatus(errno, "watching a poll set after fork()");
  }
  return absl::OkStatus();
}

}  // namespace uopd::client
