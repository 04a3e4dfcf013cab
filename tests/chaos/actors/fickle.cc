// SPDX-License-Identifier: MIT
// Clients that cancel at any moment, drop their connection, or leave with everything open.
#include <thread>

#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"
#include "tests/chaos/sockets.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::fickle {
namespace {

class Fickle {
 public:
  Fickle(World& world, int copy)
      : world_(world), copy_(copy), random_(world.Random("fickle", copy)) {}

  void Run() {
    while (!world_.Over()) {
      const auto place = world_.Where();
      if (!place) return;
      // The relay ends, and with it the connection, while calls are in progress.
      Relay relay(place->grpc, SourceAddress(10 + copy_));
      const auto stub = Connect(relay.address());
      OneClient(*stub);
      world_.Pause(0.05);
    }
  }

 private:
  void OneClient(Stub& stub) {
    v1::OpenSessionResponse session;
    {
      grpc::ClientContext context;
      context.set_deadline(In(10));
      if (!stub.OpenSession(&context, {}, &session).ok()) return;
    }
    for (uint64_t calls = random_() % 6; calls > 0 && !world_.Over(); --calls) {
      grpc::ClientContext context;
      context.set_deadline(In(5));
      const double after = static_cast<double>(random_() % 50) / 1e3;
      std::jthread canceller([&, after] {
        world_.Pause(after);
        context.TryCancel();
      });
      Note(OneCall(stub, context, session.session_id()));
    }
  }

  grpc::Status OneCall(Stub& stub, grpc::ClientContext& context, const std::string& session) {
    if (random_() % 3 == 0) {
      v1::UploadResponse response;
      const auto writer = stub.Upload(&context, &response);
      v1::UploadRequest message;
      message.set_session_id(session);
      message.mutable_buffer()->set_handle(random_() % 4 + 1);
      message.mutable_buffer()->set_bytes(8 << 20);
      message.set_data(std::string(1 << 20, 'x'));
      for (int i = 0; i < 8 && writer->Write(message); ++i) message.clear_buffer();
      return writer->Finish();
    }
    v1::ExecuteRequest request;
    request.set_session_id(session);
    request.set_request_id(random_() % 3);
    request.set_graph(random_() % 2 == 0
                          ? e2e::PairsGraph(4000)
                          : ManyKernelsGraph(4, static_cast<double>(random_() % (1 << 20))));
    for (int i = 0; i < 5; ++i) request.add_arguments()->set_buffer(10 + static_cast<uint64_t>(i));
    v1::ExecuteResponse response;
    return stub.Execute(&context, request, &response);
  }

  void Note(const grpc::Status& status) {
    world_.report().Count(Cat("fickle.code_", static_cast<int>(status.error_code())));
    if (status.error_code() == grpc::StatusCode::INTERNAL && !world_.Over() &&
        // What gRPC itself says about a connection that broke in the middle of a message.
        status.error_message().find("RST_STREAM") == std::string::npos) {
      world_.report().Violation("internal", Cat("fickle: ", status.error_message()));
    }
  }

  World& world_;
  const int copy_;
  std::mt19937_64 random_;
};

const Register kRegister({.name = "fickle",
                          .doc = "clients that cancel at random and drop their connections",
                          .copies = 2,
                          .act = [](World& world, int copy) { Fickle(world, copy).Run(); }});

}  // namespace
}  // namespace uopd::chaos::fickle
