// SPDX-License-Identifier: MIT
#include "client/cpp/net/shared_area.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/unique_fd.h"

namespace uopd::client {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kGreeting = "uopd-side-1\n";
constexpr uint64_t kMostBytes = 1 << 30;  // more than any daemon offers

// The name of the socket beside that of `address`. 0: there can be none.
socklen_t FillName(std::string_view address, std::string_view suffix, sockaddr_un* out) {
  constexpr std::string_view kPath = "unix:", kAbstract = "unix-abstract:";
  *out = {};
  out->sun_family = AF_UNIX;
  size_t begin = 0;
  if (address.starts_with(kAbstract)) {
    address.remove_prefix(kAbstract.size());
    begin = 1;  // after a zero byte
  } else if (address.starts_with(kPath)) {
    address.remove_prefix(kPath.size());
    if (address.starts_with("//")) address.remove_prefix(2);
  } else {
    return 0;
  }
  const size_t size = address.size() + suffix.size();
  if (address.empty() || size >= sizeof out->sun_path) return 0;
  std::copy(suffix.begin(), suffix.end(),
            std::copy(address.begin(), address.end(), out->sun_path + begin));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size + 1);
}

bool Await(int fd, short events, Clock::time_point until) {
  pollfd wanted{fd, events, 0};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    const int n = poll(&wanted, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

// Receives number and size of the area, with its descriptor.
UniqueFd ReceiveArea(int fd, uint64_t (&answer)[2]) {
  iovec data{answer, sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = n < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return {};
  }
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  UniqueFd out(received);
  if (n != sizeof answer) return {};
  for (uint64_t& value : answer) value = le64toh(value);
  return out;
}

bool SizeIsSealed(int file) {
  const int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

std::shared_ptr<SharedArea> SharedArea::Open(const std::string& address, const std::string& suffix,
                                             const std::string& token,
                                             std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  sockaddr_un name;
  const socklen_t name_size = FillName(address, suffix, &name);
  if (name_size == 0) return nullptr;
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A daemon whose queue of connections is full makes this fail, as it does not wait.
  if (!fd || connect(fd.get(), reinterpret_cast<sockaddr*>(&name), name_size) != 0) return nullptr;
  const std::string hello = std::string(kGreeting) + token;
  if (send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(hello.size()) ||
      !Await(fd.get(), POLLIN, until)) {
    return nullptr;
  }
  uint64_t answer[2] = {};
  const UniqueFd file = ReceiveArea(fd.get(), answer);
  const auto [number, bytes] = answer;
  struct stat status{};
  // A file that could shrink would end this process when it is read.
  if (!file || !SizeIsSealed(file.get()) || bytes < kSlotBytes || bytes > kMostBytes ||
      fstat(file.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < bytes) {
    return nullptr;
  }
  const auto size = static_cast<size_t>(bytes);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, size, MADV_DONTFORK);  // a child must not write into the transfers of its parent
  return std::shared_ptr<SharedArea>(new SharedArea(number, static_cast<char*>(memory), size));
}

SharedArea::SharedArea(uint64_t number, char* memory, size_t bytes)
    : number_(number), memory_(memory), bytes_(bytes) {
  MutexLock lock(mutex_);
  for (size_t at = bytes / kSlotBytes; at-- > 0;) free_.push_back(at * kSlotBytes);
}

SharedArea::~SharedArea() { munmap(memory_, bytes_); }

SharedSlot SharedSlot::Take(const std::shared_ptr<SharedArea>& maybe_area) {
  SharedSlot out;
  if (maybe_area == nullptr) return out;
  MutexLock lock(maybe_area->mutex_);
  if (maybe_area->free_.empty()) return out;
  out.area_ = maybe_area;
  // The one that was given back last is still in the caches.
  out.offset_ = maybe_area->free_.back();
  maybe_area->free_.pop_back();
  return out;
}

SharedSlot& SharedSlot::operator=(SharedSlot&& other) noexcept {
  Release();
  area_ = std::move(other.area_);
  offset_ = other.offset_;
  return *this;
}

void SharedSlot::Release() {
  if (area_ == nullptr) return;
  {
    MutexLock lock(area_->mutex_);
    area_->free_.push_back(offset_);
  }
  area_ = nullptr;
}

}  // namespace uopd::client
