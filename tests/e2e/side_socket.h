// SPDX-License-Identifier: MIT
// The client's end of the side socket for the tests, which need one that breaks the rules.
#pragma once
#include <span>
#include <string>

#include "core/base/unique_fd.h"
#include "tests/e2e/client.h"

namespace uopd::e2e {

inline constexpr uint64_t kMiB = 1 << 20;

// A connection to the side socket of a daemon that listens at unix:PATH.
UniqueFd ConnectSide(const DaemonProcess& daemon);
// Sends bytes, with descriptors.
bool SendSide(const UniqueFd& connection, std::string_view bytes, std::span<const int> fds = {});
// Waits until the daemon closes the connection. False: not within 20 s.
bool AwaitSideClosed(const UniqueFd& connection);

// What the daemon answers to a token. No descriptor: it refused.
struct SideAnswer {
  UniqueFd file;
  uint64_t number = 0, bytes = 0;
};
SideAnswer AskForArea(const DaemonProcess& daemon, const std::string& token);

// The answer of OpenSession, by which a client has a session and a token.
v1::OpenSessionResponse OpenSession(Client& client, const std::string& resume_token = "");

// One call in a pipeline of its own.
v1::PipelineResponse CallInPipeline(Client& client, v1::PipelineRequest request);
v1::PipelineRequest UploadFrom(const std::string& session, uint64_t handle, uint64_t bytes,
                               v1::AreaRange range, uint64_t offset = 0);
v1::PipelineRequest DownloadTo(const std::string& session, uint64_t handle, uint64_t bytes,
                               v1::AreaRange range);
v1::AreaRange Range(uint64_t area, uint64_t offset, uint64_t bytes);

// How many files and sockets a process has open. Pipes and events are not counted: workers and
// gRPC's threads get theirs whenever they start.
size_t DescriptorsOf(pid_t process);

}  // namespace uopd::e2e
