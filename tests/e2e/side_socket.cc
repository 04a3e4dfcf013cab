// SPDX-License-Identifier: MIT
#include "tests/e2e/side_socket.h"

#include <endian.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace uopd::e2e {

UniqueFd ConnectSide(const DaemonProcess& daemon) {
  const std::string path = daemon.listen().substr(std::string("unix:").size()) + ".side";
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), std::min(path.size(), sizeof to.sun_path - 1));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fd.Reset();
  return fd;
}

bool SendSide(const UniqueFd& connection, std::string_view bytes, std::span<const int> fds) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(fds.size_bytes()));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return sendmsg(connection.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

bool AwaitSideClosed(const UniqueFd& connection) {
  pollfd wanted{connection.get(), POLLIN, 0};
  char byte = 0;
  return poll(&wanted, 1, 20'000) == 1 && recv(connection.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

SideAnswer AskForArea(const DaemonProcess& daemon, const std::string& token) {
  SideAnswer out;
  const UniqueFd connection = ConnectSide(daemon);
  if (!connection || !SendSide(connection, "uopd-side-1\n" + token)) return out;
  uint64_t answer[2] = {};
  iovec data{answer, sizeof answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  pollfd wanted{connection.get(), POLLIN, 0};
  if (poll(&wanted, 1, 20'000) != 1) return out;
  if (recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC) != sizeof answer) return out;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) return out;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  out.file.Reset(fd);
  out.number = le64toh(answer[0]);
  out.bytes = le64toh(answer[1]);
  return out;
}

v1::OpenSessionResponse OpenSession(Client& client, const std::string& resume_token) {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_resume_token(resume_token);
  v1::OpenSessionResponse response;
  client.stub().OpenSession(&context, request, &response);
  return response;
}

v1::PipelineResponse CallInPipeline(Client& client, v1::PipelineRequest request) {
  grpc::ClientContext context;
  const auto stream = client.stub().Pipeline(&context);
  request.set_sequence(1);
  v1::PipelineResponse response;
  response.set_code(-1);
  if (stream->Write(request)) stream->Read(&response);
  stream->WritesDone();
  stream->Finish();
  return response;
}

v1::PipelineRequest UploadFrom(const std::string& session, uint64_t handle, uint64_t bytes,
                               v1::AreaRange range, uint64_t offset) {
  v1::PipelineRequest out;
  v1::UploadRequest& upload = *out.mutable_upload();
  upload.set_session_id(session);
  upload.mutable_buffer()->set_handle(handle);
  upload.mutable_buffer()->set_bytes(bytes);
  upload.set_offset(offset);
  *upload.mutable_area() = std::move(range);
  return out;
}

v1::PipelineRequest DownloadTo(const std::string& session, uint64_t handle, uint64_t bytes,
                               v1::AreaRange range) {
  v1::PipelineRequest out;
  v1::DownloadRequest& download = *out.mutable_download();
  download.set_session_id(session);
  download.set_handle(handle);
  download.set_bytes(bytes);
  *download.mutable_area() = std::move(range);
  return out;
}

v1::AreaRange Range(uint64_t area, uint64_t offset, uint64_t bytes) {
  v1::AreaRange out;
  out.set_area(area);
  out.set_offset(offset);
  out.set_bytes(bytes);
  return out;
}

size_t DescriptorsOf(pid_t process) {
  std::error_code error;
  size_t n = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    const std::string name = std::filesystem::read_symlink(entry.path(), error).string();
    if (!name.starts_with("pipe:") && !name.starts_with("anon_inode:")) ++n;
  }
  return n;
}

}  // namespace uopd::e2e
