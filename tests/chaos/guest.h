// SPDX-License-Identifier: MIT
// Guest: a client that may be refused. It asks for what is wrong, too much or too long, with a
// deadline; the only answers that are violations are INTERNAL and UNKNOWN.
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

  // A connection to the daemon that serves now, with a session if `session`; false at the end of
  // the run, and after a refusal that the caller should wait a moment for.
  bool Ready(bool session = true);
  // Waits until it is ready, with a session; false at the end of the run.
  bool Await();
  // Forgets the connection and the session, as a client that dies does.
  void Drop();

  // Gives a call its deadline, and a request id that names it: the daemon's log then tells by how
  // much a call went beyond it (CheckDeadlines).
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

// By how much the daemon went on with calls of guests after their deadlines, as its log has it.
void CheckDeadlines(World& world);

}  // namespace uopd::chaos
