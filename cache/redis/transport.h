// SPDX-License-Identifier: MIT
// Transport: a byte stream to a server of a shared tier, plain or by TLS, all of whose calls end in
// time.
//
// TLS checks the server's certificate and its name; there is no switch that leaves the check out.
// REQUIRES: the process ignores SIGPIPE, which OpenSSL does not keep from it. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cache/base/wait/wait.h"
#include "cache/redis/redis_url.h"
#include "cache/redis/resolver.h"
#include "core/base/unique_fd.h"

struct ssl_st;
struct ssl_ctx_st;

namespace uopd::cache {

// How servers and this client prove who they are. A value; thread-safe.
class TlsContext {
 public:
  // `ca_file`: certificates that may sign those of servers; empty: the machine's. `cert_file` and
  // `key_file`: this client's own (PEM); both or none. Errors name the file: INVALID_ARGUMENT, and
  // those of ReadSecretFile for the key.
  static absl::StatusOr<TlsContext> Make(const std::string& ca_file, const std::string& cert_file,
                                         const std::string& key_file);
  ssl_ctx_st* get() const { return context_.get(); }

 private:
  std::shared_ptr<ssl_ctx_st> context_;
};

class Transport {
 public:
  // A connection by TCP; by TLS if `maybe_tls` is not null. UNAVAILABLE: there is none, or the name
  // is not known; DEADLINE_EXCEEDED: also if nobody has resolved the name in time.
  static absl::StatusOr<std::unique_ptr<Transport>> Connect(const RedisServer& server,
                                                            Resolver& resolver,
                                                            const TlsContext* maybe_tls,
                                                            Deadline deadline);
  static absl::StatusOr<std::unique_ptr<Transport>> ConnectUnix(const std::string& path,
                                                                Deadline deadline);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // After an error the transport must not be used again.
  absl::Status Write(std::string_view bytes, Deadline deadline);
  // Appends what has come, at least one byte. UNAVAILABLE: the server closed the connection.
  absl::Status Read(std::string& out, Deadline deadline);
  int fd() const { return socket_.get(); }

 private:
  explicit Transport(UniqueFd socket) : socket_(std::move(socket)) {}
  absl::Status StartTls(const TlsContext& tls, const std::string& host, Deadline deadline);
  // Waits until a TLS call that returned `result` can go on.
  absl::Status WaitForTls(int result, Deadline deadline);

  UniqueFd socket_;
  ssl_st* tls_ = nullptr;
};

}  // namespace uopd::cache
