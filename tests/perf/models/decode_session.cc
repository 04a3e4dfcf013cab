// SPDX-License-Identifier: MIT
#include "tests/perf/models/decode_session.h"

#include "uopd/connection.h"

namespace uopd::perf {

absl::StatusOr<std::unique_ptr<DecodeSession>> DecodeSession::Start(
    const Options& options, const std::vector<std::string>& flags) {
  auto out = std::make_unique<DecodeSession>();
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(out->daemon, test::Daemon::Start({options.daemon, "", flags}));
    address = out->daemon->address();
  }
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  client::ClientOptions switches;
  UOPD_ASSIGN(switches.execution, client::OptionsFromEnvironment());
  out->client.emplace(connection, switches);
  UOPD_ASSIGN(out->subject, MakeSubject("decode", *out->client));
  UOPD_TRY(out->subject->Fill());
  UOPD_ASSIGN(out->first, out->subject->Run());
  return out;
}

absl::Status DecodeSession::CheckToken(const std::string& token) const {
  if (token == first) return absl::OkStatus();
  return absl::InternalError("the same step gives another token");
}

}  // namespace uopd::perf
