// SPDX-License-Identifier: MIT
#include "server/rpc/side_socket.h"

#include <endian.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/rpc/call/calls.h"

namespace uopd::rpc {
namespace {

constexpr std::string_view kGreeting = "uopd-side-1\n";
constexpr size_t kTokenBytes = 32;

void Refuse(const char* reason) { metrics::SideRefused({reason}).Increment(); }

// Sends the area without waiting: the connection is new, so its buffer is empty.
bool Send(int connection, const engine::SharedArea& area) {
  uint64_t answer[] = {htole64(area.number()), htole64(engine::SharedArea::kBytes)};
  iovec data{answer, sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = area.descriptor();
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof answer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SideSocket>> SideSocket::Start(engine::Engine& engine,
                                                              const net::Address& address,
                                                              const Config& config) {
  UOPD_ASSIGN(const net::Address beside, net::ParseAddress(ToText(address) + kSideSuffix));
  std::unique_ptr<SideSocket> out(new SideSocket(engine));
  UOPD_ASSIGN(out->listener_, net::Listener::Listen(beside, {config.server_socket_mode(),
                                                             config.server_socket_group()}));
  net::AcceptorOptions options;
  options.greeting = kGreeting;
  options.max_connections = static_cast<size_t>(config.limits_connections());
  options.max_per_peer = static_cast<size_t>(config.limits_peer_connections());
  options.on_refused = Refuse;
  out->acceptor_ = std::make_unique<net::Acceptor>(
      *out->listener_, std::move(options),
      [side = out.get()](int, int fd) { side->Serve(UniqueFd(fd)); });
  return out;
}

SideSocket::~SideSocket() { acceptor_ = nullptr; }

void SideSocket::Serve(UniqueFd connection) {
  std::array<char, kGreeting.size() + kTokenBytes> said;
  // No room for descriptors, so the kernel closes those that a client sends.
  const ssize_t n = recv(connection.get(), said.data(), said.size(), MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(said.size())) return Refuse("greeting");
  const std::string token(said.data() + kGreeting.size(), kTokenBytes);
  auto session = engine_.sessions().TakeSideToken(token);
  if (!session.ok()) return Refuse("token");
  auto area = (*session)->NewArea();
  if (!area.ok()) {
    UOPD_LOG(kDebug, "no shared area", {"reason", StatusText(area.status())});
    return Refuse(absl::IsResourceExhausted(area.status()) ? "quota" : "memory");
  }
  if (!Send(connection.get(), **area)) Refuse("hung up");
}

}  // namespace uopd::rpc
