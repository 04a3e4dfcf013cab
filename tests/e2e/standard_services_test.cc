// SPDX-License-Identifier: MIT
// What tools expect of any gRPC server: grpc.health.v1 and reflection, in bytes, since a client
// needs nothing of ours to use them.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "tests/e2e/client.h"
#include "tests/support/eventually.h"
#include "uopd/connection.h"

namespace uopd::e2e {
namespace {

using test::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string FromBuffer(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return {};
  std::string out;
  for (const grpc::Slice& slice : slices) {
    out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return out;
}

class StandardServicesTest : public ::testing::Test {
 protected:
  // The first answer to one message; `status` of the whole call. `trace`: the header of W3C Trace
  // Context, if there is one.
  std::string Call(const std::string& method, const std::string& request, grpc::Status* status,
                   const std::string& trace = "") {
    grpc::GenericStub stub(
        grpc::CreateChannel(daemon_.listen(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    if (!trace.empty()) context.AddMetadata("traceparent", trace);
    grpc::CompletionQueue queue;
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    auto call = stub.PrepareCall(&context, method, &queue);
    call->StartCall(nullptr);
    EXPECT_TRUE(done());
    call->Write(ToBuffer(request), nullptr);
    EXPECT_TRUE(done());
    call->WritesDone(nullptr);
    EXPECT_TRUE(done());
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    const bool answered = done();
    call->Finish(status, nullptr);
    EXPECT_TRUE(done());
    queue.Shutdown();
    return answered ? FromBuffer(answer) : "";
  }

  TemporaryFolder folder_;
  // There is no OpenCL device 200.
  DaemonProcess daemon_{
      folder_.path(),
      {"--device-list=CPU,NULL:200,CL:200,AMD:0", "--device-compile-only=AMD:0=gfx942"}};
};

TEST_F(StandardServicesTest, HealthSaysServing) {
  // HealthCheckResponse { status = SERVING }, of the server and of the service.
  const std::string serving = "\x08\x01", service = "uopd.v1.UopdService";
  grpc::Status status;
  EXPECT_EQ(Call("/grpc.health.v1.Health/Check", "", &status), serving);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const std::string request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  EXPECT_EQ(Call("/grpc.health.v1.Health/Check", request, &status), serving);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Call("/grpc.health.v1.Health/Check", "\x0a\x01x", &status), "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandardServicesTest, HealthHasAStatusOfEveryDevice) {
  const auto check = [&](const std::string& device) {
    const std::string name = "device/" + device;
    grpc::Status status;
    return Call("/grpc.health.v1.Health/Check",
                std::string("\x0a") + static_cast<char>(name.size()) + name, &status);
  };
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  for (const char* device : {"CPU:0", "NULL:200", "CL:200"}) EXPECT_EQ(check(device), serving);
  EXPECT_EQ(check("CUDA:0"), "");
  EXPECT_EQ(check("AMD:0"), not_serving);  // it only compiles
  auto connection =
      client::Connection::Connect({.address = daemon_.listen()});  // opens all devices
  EXPECT_TRUE(connection.ok());
  EXPECT_TRUE(test::Eventually([&] { return check("CL:200") == not_serving; }));
  EXPECT_EQ(check("CPU:0"), serving);
  EXPECT_EQ(check("AMD:0"), not_serving);
}

TEST_F(StandardServicesTest, ReflectionNamesTheServices) {
  // ServerReflectionRequest { list_services = "*" }
  grpc::Status status;
  const std::string services =
      Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*", &status);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(services, HasSubstr("uopd.v1.UopdService"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
  // ServerReflectionRequest { file_containing_symbol = "uopd.v1.UopdService" }
  const std::string file = Call("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                "\x22\x13uopd.v1.UopdService", &status);
  EXPECT_THAT(file, HasSubstr("ExecuteRequest"));
}

// A failed call can be found in the log by the trace that the caller knows.
TEST_F(StandardServicesTest, LogLinesNameTheTrace) {
  const std::string method = "/uopd.v1.UopdService/ExplainCache", id(32, 'a');
  grpc::Status status;
  Call(method, "", &status, "00-" + id + "-00f067aa0ba902b7-01");
  EXPECT_FALSE(status.ok());
  Call(method, "", &status, "00-" + std::string(32, 'B') + "-00f067aa0ba902b7-01");
  EXPECT_FALSE(status.ok());
  const auto lines = [&] {
    const std::string log = daemon_.Log();
    int count = 0;
    for (size_t at = 0; (at = log.find("method=ExplainCache", at)) != log.npos; ++at) ++count;
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return lines() == 2; })) << daemon_.Log();
  EXPECT_THAT(daemon_.Log(), HasSubstr(" trace=" + id + " "));
  EXPECT_THAT(daemon_.Log(), Not(HasSubstr("BBBB")));
}

}  // namespace
}  // namespace uopd::e2e
