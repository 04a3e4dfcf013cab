// SPDX-License-Identifier: MIT
// Caller: a client that behaves well and checks the answers that it gets.
//
// Every call has a deadline. An error is a violation unless the daemon was killed meanwhile or the
// run ended: if a client could only try again, the daemon should have tried again itself. What was
// opened on a daemon that was killed is opened again.
//
// Used by one thread.
#pragma once
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/chaos/world.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::chaos {

using Stub = v1::UopdService::Stub;

// A separate connection.
std::unique_ptr<Stub> Connect(const std::string& address);
// The time this many seconds from now, in gRPC's type.
std::chrono::system_clock::time_point In(double seconds);

v1::Argument Data(std::string bytes);
v1::Argument Buffer(uint64_t handle);
v1::Argument Returned(uint64_t handle = 0);

// Deadline of calls that must succeed. It is generous, since the machines that run this are loaded.
inline constexpr double kPatience = 60;
// Deadline of the first call of a connection, in seconds.
inline constexpr double kPatienceToConnect = 10;

class Caller {
 public:
  explicit Caller(World& world, std::string name) : world_(world), name_(std::move(name)) {}
  ~Caller() { Close(); }

  // Makes sure that there is a session on the daemon that serves now. False: the run is over.
  // `*fresh`: the session is new and empty.
  bool Ready(bool* fresh = nullptr);
  // Frees the session and what it has. No effect without a session.
  void Close();

  enum Verdict { kOk, kDisturbed, kFailed };
  using Fn = std::function<grpc::Status(Stub&, grpc::ClientContext&)>;
  Verdict Call(const std::string& what, const Fn& call, double deadline_s = kPatience);

  Verdict Execute(const std::string& what, const v1::ExecuteRequest& request,
                  v1::ExecuteResponse* response);
  Verdict Prepare(const std::string& graph, v1::PrepareResponse* response);
  Verdict Upload(uint64_t handle, const std::string& data);
  Verdict Download(uint64_t handle, std::string* out);
  Verdict Free(const std::vector<uint64_t>& handles);

  const std::string& session() const { return session_; }
  int64_t generation() const { return place_.generation; }
  Stub& stub() { return *stub_; }
  World& world() { return world_; }

  // Counts a result, and a violation if it is wrong.
  void Check(bool right, const std::string& what);

 private:
  Verdict Judge(const std::string& what, const grpc::Status& status, double seconds);

  World& world_;
  const std::string name_;
  World::Place place_{.generation = -1};
  std::unique_ptr<Stub> stub_;
  std::string session_;
};

}  // namespace uopd::chaos
