// SPDX-License-Identifier: MIT
#include "cache/redis/redis_connection.h"

#include <utility>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {

bool IsError(const RespValue& reply, std::string_view word) {
  return reply.kind == RespKind::kError && reply.text.starts_with(word);
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Login(
    std::unique_ptr<Transport> transport, const RedisLogin& login, Deadline deadline) {
  std::unique_ptr<RedisConnection> out(new RedisConnection(std::move(transport)));
  Command hello = {"HELLO", "3"};
  if (!login.password.empty()) {
    const std::string_view user = login.user.empty() ? "default" : std::string_view(login.user);
    hello.insert(hello.end(), {"AUTH", user, login.password});
  }
  hello.insert(hello.end(), {"SETNAME", "uopd"});
  UOPD_ASSIGN(const RespValue greeting, out->Run(hello, deadline));
  if (IsError(greeting, "WRONGPASS") || IsError(greeting, "NOAUTH") || IsError(greeting, "NOPERM"))
    return absl::UnauthenticatedError("The shared tier refuses the user or the password");
  if (IsError(greeting, "ERR unknown command") || IsError(greeting, "NOPROTO"))
    return absl::FailedPreconditionError("The server of the shared tier is older than Redis 6");
  // Such as LOADING. An error of the server may repeat what was sent, so the message keeps its
  // first word alone.
  if (greeting.kind == RespKind::kError) {
    return absl::UnavailableError(Cat("The shared tier does not serve now: ",
                                      greeting.text.substr(0, greeting.text.find(' '))));
  }
  if (login.database != 0) {
    UOPD_ASSIGN(const RespValue chosen, out->Run({"SELECT", Cat(login.database)}, deadline));
    if (chosen.kind == RespKind::kError)
      return Invalid(Cat("The shared tier has no database ", login.database));
  }
  return out;
}

absl::StatusOr<RespValue> RedisConnection::Run(const Command& command, Deadline deadline) {
  UOPD_ASSIGN(std::vector<RespValue> replies, RunAll({&command, 1}, deadline));
  return std::move(replies.front());
}

absl::StatusOr<std::vector<RespValue>> RedisConnection::RunAll(std::span<const Command> commands,
                                                               Deadline deadline) {
  if (!usable_)
    return absl::UnavailableError("The connection to the shared tier has failed before");
  usable_ = false;
  std::string bytes;
  for (const Command& command : commands) bytes += WriteCommand(command);
  UOPD_TRY(transport_->Write(bytes, deadline));
  std::vector<RespValue> replies;
  for (size_t i = 0; i < commands.size(); ++i) {
    UOPD_ASSIGN(RespValue reply, ReadReply(deadline));
    replies.push_back(std::move(reply));
  }
  usable_ = true;
  return replies;
}

absl::StatusOr<RespValue> RedisConnection::ReadReply(Deadline deadline) {
  while (true) {
    RespValue reply;
    UOPD_ASSIGN(const bool whole, reader_.Next(reply));
    if (whole && reply.kind != RespKind::kPush) return reply;
    if (whole) continue;  // a push is no reply: nobody asked for it
    scratch_.clear();
    UOPD_TRY(transport_->Read(scratch_, deadline));
    reader_.Feed(scratch_);
  }
}

}  // namespace uopd::cache
