// SPDX-License-Identifier: MIT
// A client of one daemon for the tests: a stub, a session, and short forms of the calls.
#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/daemon_process.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::e2e {

// An argument with inline data.
v1::Argument Data(std::string bytes);
// An argument whose contents are returned.
v1::Argument Returned(uint64_t buffer = 0);
v1::Argument Buffer(uint64_t handle);

// The details of an error; nullopt if it has none.
std::optional<v1::NodeError> NodeOf(const grpc::Status& status);
std::string MissingOf(const grpc::Status& status);

struct Executed {
  grpc::Status status;
  v1::ExecuteResponse response;
};

class Client {
 public:
  explicit Client(const DaemonProcess& daemon);

  v1::UopdService::Stub& stub() { return *stub_; }
  const std::string& session() const { return session_; }

  grpc::Status OpenSession(uint64_t ttl_ms = 0);
  Executed Execute(const std::string& digest, const std::string& graph,
                   const std::vector<v1::Argument>& arguments, uint64_t request_id = 0);
  grpc::Status Upload(uint64_t handle, const std::string& data, uint64_t chunk_bytes = 1 << 20);
  grpc::Status Download(uint64_t handle, std::string* out, uint64_t offset = 0, uint64_t bytes = 0);
  grpc::Status Create(uint64_t handle, uint64_t bytes, const std::string& device = "");
  // The program's digest; empty after an error.
  v1::PrepareResponse Prepare(const std::string& graph, grpc::Status* status = nullptr);

 private:
  std::unique_ptr<v1::UopdService::Stub> stub_;
  std::string session_;
};

// Adds two vectors of n elements with these options, and checks the result. The client has a
// session.
v1::ExecuteResponse ExpectAdds(Client& client, int64_t n, const v1::Options& options = {},
                               uint64_t request_id = 0);

// Checks that the daemon serves: it adds two vectors.
void ExpectServes(const DaemonProcess& daemon);

// How many rows a store of the cache has on disk. Rows that still wait to be written do not count.
uint64_t RowsOf(const DaemonProcess& daemon, const std::string& store);

}  // namespace uopd::e2e
