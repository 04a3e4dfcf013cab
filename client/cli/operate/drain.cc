// SPDX-License-Identifier: MIT
// uopctl drain: ends the daemon as SIGTERM does, from anywhere.
#include <grpcpp/grpcpp.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "core/ir/io/wire.h"

namespace uopd::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct DrainFlags {
  bool wait = false;
  double wait_s = 300;
};

bool Connects(int family, const sockaddr* address, socklen_t size) {
  const UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd && connect(fd.get(), address, size) == 0;
}

// Whether a process listens at an address of the daemon.
bool SomebodyListens(const std::string& address) {
  if (address.starts_with("unix:")) {
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    std::string path = address.substr(5);
    if (path.starts_with("//")) path = path.substr(2);  // unix:///PATH
    if (path.size() >= sizeof name.sun_path) return false;
    std::memcpy(name.sun_path, path.data(), path.size());
    return Connects(AF_UNIX, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  }
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    if (Connects(one->ai_family, one->ai_addr, one->ai_addrlen)) return true;
  return false;
}

// The daemon that serves at the address; empty: none does. Unlike a session, which waits for one to
// come.
std::string InstanceAt(const std::string& address) {
  constexpr std::chrono::seconds kLimit{2};
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // no connection to the old one
  const auto stub = v1::UopdService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLimit);
  v1::HelloRequest request;
  request.set_api_version_min(client::kApiVersion);
  request.set_api_version_max(client::kApiVersion);
  request.set_ir_version(ir::kIrVersion);
  v1::HelloResponse response;
  return stub->Hello(&context, request, &response).ok() ? response.instance() : "";
}

// Waits until the daemon of this instance is gone: nobody listens, or another one does.
bool AwaitEnd(const Globals& globals, const std::string& instance, double limit_s) {
  const auto limit = Clock::now() + std::chrono::duration<double>(limit_s);
  while (Clock::now() < limit) {
    if (!SomebodyListens(globals.address)) return true;
    const std::string found = InstanceAt(globals.address);
    if (!found.empty() && found != instance) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

absl::Status DrainDaemon(Globals& globals, const DrainFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::DrainRequest request;
  request.set_instance(session->hello().instance());
  const auto begin = Clock::now();
  UOPD_ASSIGN(const v1::DrainResponse answer, session->Drain(request));
  globals.data = {{"instance", request.instance()},
                  {"timeout_seconds", answer.timeout_seconds()},
                  {"ended", false}};
  if (!globals.json) {
    std::printf("the daemon drains: what runs has %s s\n", Cat(answer.timeout_seconds()).c_str());
    std::fflush(stdout);
  }
  if (!flags.wait) return absl::OkStatus();
  const bool ended = AwaitEnd(globals, request.instance(), flags.wait_s);
  const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
  globals.data["ended"] = ended;
  globals.data["waited_seconds"] = waited;
  if (!ended) {
    globals.bad = Cat("the daemon has not ended after ", flags.wait_s, " s");
  } else if (!globals.json) {
    std::printf("it has ended after %.1f s\n", waited);
  }
  return absl::OkStatus();
}

}  // namespace

void AddDrain(CLI::App& app, Globals& globals) {
  auto flags = std::make_shared<DrainFlags>();
  CLI::App* command = app.add_subcommand(
      "drain",
      "end the daemon as SIGTERM does: it refuses new requests and lets those that run end");
  command->add_flag("--wait", flags->wait, "until it has ended, or another daemon has its place");
  command->add_option("--wait-limit", flags->wait_s, "with --wait: seconds after which that failed")
      ->capture_default_str()
      ->check(NumberIn(0.1, kMostSeconds, false));
  command->callback([&globals, flags] { globals.status = DrainDaemon(globals, *flags); });
}

}  // namespace uopd::cli
