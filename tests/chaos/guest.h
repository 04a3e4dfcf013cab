// SPDX-License-Identifier: MIT
// Guest: a client that may be refused. Its requests are wrong, too large or too long, and have a
// deadline. Only the answers INTERNAL and UNKNOWN are violations.
//
// Used by one thread.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "tests/chaos/caller.h"

namespace uopd::chaos {

class Guest {
 public:
  explicit Guest(World& world, std::string name) : world_(world), name_(std::move(name)) {}

  // Connects to the daemon that serves now, and opens a session if `session`. False: the run is
  // over, or the daemon refused and the caller should wait a moment.
  bool Ready(bool session = true);
  // Waits until Ready succeeds, with a session. False: the run is over.
  bool Await();
  // Drops the connection and the session without closing them, as a client that dies does.
  void Drop();

  // Gives a call its deadline, and a request id that contains the deadline. The daemon's log then
  // tells by how much a call exceeded it (CheckDeadlines).
  void Limit(grpc::ClientContext& context, double deadline_s);
  // Counts the code under "NAME.CODE".
  grpc::Status Note(const std::string& call, const grpc::Status& status);

  grpc::Status Prepare(const std::string& graph, double deadline_s);
  grpc::Status Run(const std::string& graph, int arguments, double deadline_s);
  grpc::Status Execute(const std::string& graph, int arguments, double deadline_s);
  grpc::Status Explain(const std::string& graph, double deadline_s);
  grpc::Status Pipeline(const std::string& graph, int arguments, double deadline_s);

  Stub& stub() { return *stub_; }
  const std::string& session() const { return session_; }
  const World::Place& place() const { return place_; }

 private:
  World& world_;
  const std::string name_;
  World::Place place_{.generation = -1};
  std::unique_ptr<Stub> stub_;
  std::string session_;
  int64_t calls_ = 0;
};

// Checks, from the daemon's log, for how long the daemon continued with guests' calls after their
// deadlines.
void CheckDeadlines(World& world);

}  // namespace uopd::chaos
