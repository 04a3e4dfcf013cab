// SPDX-License-Identifier: MIT
// Caller: a client that behaves well, and the judge of what it is answered.
//
// Every call has a deadline. An error is a violation unless the daemon was killed meanwhile, or the
// run ended: what a client could only answer by trying again is the daemon's to try again. What
// was opened on a daemon that was killed is opened anew.
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

// A connection of its own.
std::unique_ptr<Stub> Connect(const std::string& address);
// Seconds from now, as gRPC wants them.
std::chrono::system_clock::time_point In(double seconds);

v1::Argument Data(std::string bytes);
v1::Argument Buffer(uint64_t handle);
v1::Argument Returned(uint64_t handle = 0);

// Of calls that must succeed: generous, since machines that run this are loaded.
inline constexpr double kPatience = 60;

class Caller {
 public:
  explicit Caller(World& world, std::string name) : world_(world), name_(std::move(name)) {}
  ~Caller() { Close(); }

  // Sees to a session on the daemon that serves now; false at the end of the run. `fresh`: there is
  // nothing in the session yet.
  bool Ready(bool* fresh = nullptr);
  // Frees what the session has. Harmless without one.
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

  // Counts a result and whether it is right.
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
