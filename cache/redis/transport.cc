// SPDX-License-Identifier: MIT
#include "cache/redis/transport.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "core/base/secret_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

absl::Status Unavailable(std::string_view what, int error) {
  return absl::UnavailableError(Cat(what, ": ", strerror(error)));
}

// A server that sends or takes something all the time never makes anybody wait, so each piece asks
// for the deadline.
absl::Status CheckDeadline(Deadline deadline) {
  if (std::chrono::steady_clock::now() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError("The server of the shared tier did not answer in time");
}

// Waits until `fd` is ready for `events`.
absl::Status WaitFor(int fd, short events, Deadline deadline) {
  while (true) {
    // One millisecond is added, so that the wait is not a loop that spins before the deadline.
    const auto left = duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd one{.fd = fd, .events = events, .revents = 0};
    const int ready =
        poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, 60'000)));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return Unavailable("poll", errno);
    UOPD_TRY(CheckDeadline(deadline));
  }
}

absl::StatusOr<UniqueFd> Open(const sockaddr* address, socklen_t size, Deadline deadline) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return Unavailable("socket", errno);
  if (connect(fd.get(), address, size) == 0) return fd;
  // EAGAIN: the queue of a unix socket is full, and nothing tells when it is not.
  if (errno != EINPROGRESS) return Unavailable("connect", errno);
  UOPD_TRY(WaitFor(fd.get(), POLLOUT, deadline));
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return Unavailable("connect", error);
  return fd;
}

std::string TlsError() {
  std::array<char, 256> text;
  const auto code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "the connection ended";
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

}  // namespace

absl::StatusOr<TlsContext> TlsContext::Make(const std::string& ca_file,
                                            const std::string& cert_file,
                                            const std::string& key_file) {
  if (cert_file.empty() != key_file.empty())
    return Invalid(
        "A client's certificate and its key for the cluster tier go together: one of them is "
        "missing");
  TlsContext out;
  out.context_ = {SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  SSL_CTX* context = out.get();
  if (context == nullptr) return absl::InternalError(Cat("OpenSSL: ", TlsError()));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const int trusted = ca_file.empty()
                          ? SSL_CTX_set_default_verify_paths(context)
                          : SSL_CTX_load_verify_locations(context, ca_file.c_str(), nullptr);
  if (trusted != 1)
    return Invalid(Cat("The certificates in the file ", ca_file, " cannot be read: ", TlsError()));
  if (cert_file.empty()) return out;
  UOPD_TRY(ReadSecretFile(key_file).status());
  if (SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) != 1)
    return Invalid(Cat("The certificate in the file ", cert_file, " cannot be read: ", TlsError()));
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return Invalid(
        Cat("The key in the file ", key_file, " cannot be read or is of another certificate"));
  return out;
}

absl::StatusOr<std::unique_ptr<Transport>> Transport::Connect(const RedisServer& server,
                                                              Resolver& resolver,
                                                              const TlsContext* maybe_tls,
                                                              Deadline deadline) {
  UOPD_ASSIGN(SocketAddresses addresses, resolver.Resolve(server.host, deadline));
  absl::Status last = absl::UnavailableError("no address");
  for (SocketAddress& one : addresses) {
    one.SetPort(server.port);
    absl::StatusOr<UniqueFd> fd =
        Open(reinterpret_cast<const sockaddr*>(&one.bytes), one.size, deadline);
    if (!fd.ok()) {
      last = fd.status();
      continue;
    }
    const int on = 1;
    setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::unique_ptr<Transport> transport(new Transport(*std::move(fd)));
    if (maybe_tls != nullptr) UOPD_TRY(transport->StartTls(*maybe_tls, server.host, deadline));
    return transport;
  }
  return WithFrame(std::move(last), Cat("connecting to ", Name(server)));
}

absl::StatusOr<std::unique_ptr<Transport>> Transport::ConnectUnix(const std::string& path,
                                                                  Deadline deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Invalid(Cat("The path of the socket ", path, " is too long"));
  std::copy(path.begin(), path.end(), address.sun_path);
  absl::StatusOr<UniqueFd> fd =
      Open(reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
  if (!fd.ok()) return WithFrame(fd.status(), Cat("connecting to ", path));
  return std::unique_ptr<Transport>(new Transport(*std::move(fd)));
}

Transport::~Transport() { SSL_free(tls_); }

absl::Status Transport::StartTls(const TlsContext& tls, const std::string& host,
                                 Deadline deadline) {
  tls_ = SSL_new(tls.get());
  if (tls_ == nullptr || SSL_set_fd(tls_, socket_.get()) != 1)
    return absl::InternalError(Cat("OpenSSL: ", TlsError()));
  in6_addr scratch;
  const bool is_address = inet_pton(AF_INET, host.c_str(), &scratch) == 1 ||
                          inet_pton(AF_INET6, host.c_str(), &scratch) == 1;
  if (is_address) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_), host.c_str());
  } else {
    SSL_set_tlsext_host_name(tls_, host.c_str());
    SSL_set1_host(tls_, host.c_str());
  }
  while (true) {
    UOPD_TRY(CheckDeadline(deadline));
    const int result = SSL_connect(tls_);
    if (result == 1) return absl::OkStatus();
    if (const absl::Status waited = WaitForTls(result, deadline); !waited.ok()) {
      const auto verdict = SSL_get_verify_result(tls_);
      return verdict == X509_V_OK
                 ? waited
                 : absl::UnavailableError(Cat("The certificate of ", host, " is not trusted: ",
                                              X509_verify_cert_error_string(verdict)));
    }
  }
}

absl::Status Transport::WaitForTls(int result, Deadline deadline) {
  const int error = SSL_get_error(tls_, result);
  if (error == SSL_ERROR_WANT_READ) return WaitFor(socket_.get(), POLLIN, deadline);
  if (error == SSL_ERROR_WANT_WRITE) return WaitFor(socket_.get(), POLLOUT, deadline);
  return absl::UnavailableError(Cat("TLS: ", TlsError()));
}

absl::Status Transport::Write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    UOPD_TRY(CheckDeadline(deadline));
    if (tls_ != nullptr) {
      size_t sent = 0;
      const int result = SSL_write_ex(tls_, bytes.data(), bytes.size(), &sent);
      if (result == 1) {
        bytes.remove_prefix(sent);
      } else {
        UOPD_TRY(WaitForTls(result, deadline));
      }
      continue;
    }
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      UOPD_TRY(WaitFor(socket_.get(), POLLOUT, deadline));
    } else if (errno != EINTR) {
      return Unavailable("send", errno);
    }
  }
  return absl::OkStatus();
}

absl::Status Transport::Read(std::string& out, Deadline deadline) {
  UOPD_TRY(CheckDeadline(deadline));
  constexpr size_t kPiece = size_t{64} << 10;
  const size_t before = out.size();
  out.resize(before + kPiece);
  size_t size = 0;
  absl::Status status;
  while (size == 0 && status.ok()) {
    if (tls_ != nullptr) {
      const int result = SSL_read_ex(tls_, out.data() + before, kPiece, &size);
      if (result != 1) status = WaitForTls(result, deadline);
      continue;
    }
    const ssize_t got = recv(socket_.get(), out.data() + before, kPiece, 0);
    if (got > 0) {
      size = static_cast<size_t>(got);
    } else if (got == 0) {
      status = absl::UnavailableError("The server of the shared tier closed the connection");
    } else if (errno == EAGAIN) {
      status = WaitFor(socket_.get(), POLLIN, deadline);
    } else if (errno != EINTR) {
      status = Unavailable("recv", errno);
    }
  }
  out.resize(before + size);
  return status;
}

}  // namespace uopd::cache
