// SPDX-License-Identifier: MIT
// Pipelines that ask for large answers and read none of them.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/guest.h"
#include "tests/chaos/sockets.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::unread_pipelines {
namespace {

constexpr int64_t kElements = 1 << 20;  // 4 MiB per answer
constexpr int kMessages = 200;
constexpr double kHold = 20;  // seconds

// Writes until the daemon accepts no more, then waits.
void Hold(World& world, int copy) {
  const auto place = world.Where();
  if (!place) return;
  const Relay relay(place->grpc, SourceAddress(100 + copy));
  const auto stub = Connect(relay.address());
  v1::OpenSessionResponse session;
  {
    grpc::ClientContext context;
    context.set_deadline(In(10));
    if (!stub->OpenSession(&context, {}, &session).ok()) {
      world.Pause(0.5);
      return;
    }
  }
  v1::PipelineRequest message;
  message.mutable_execute()->set_session_id(session.session_id());
  message.mutable_execute()->set_graph(e2e::ScaleGraph(kElements, 2));
  *message.mutable_execute()->add_arguments() = Returned();
  *message.mutable_execute()->add_arguments() = Buffer(1);
  {
    grpc::ClientContext context;
    context.set_deadline(In(kPatience));
    v1::CreateBuffersRequest request;
    request.set_session_id(session.session_id());
    request.add_buffers()->set_handle(1);
    request.mutable_buffers(0)->set_bytes(4 * kElements);
    v1::CreateBuffersResponse response;
    stub->CreateBuffers(&context, request, &response);
  }
  {
    // One that is read: there is something to leave unread.
    grpc::ClientContext context;
    context.set_deadline(In(kPatience));
    v1::ExecuteResponse response;
    const grpc::Status status = stub->Execute(&context, message.execute(), &response);
    world.report().Count(Cat("unread_pipelines.code_", static_cast<int>(status.error_code())));
    if (!status.ok() || response.ByteSizeLong() < 4 * kElements) return (void)world.Pause(0.5);
  }
  grpc::ClientContext context;
  const auto stream = stub->Pipeline(&context);
  std::jthread writes([&] {
    for (int i = 0; i < kMessages && stream->Write(message); ++i) {
      world.report().Count("unread_pipelines.messages");
    }
  });
  for (const double end = Now() + kHold; Now() < end && world.generation() == place->generation;) {
    if (!world.Pause(0.1)) break;
  }
  context.TryCancel();
  writes.join();
  stream->Finish();
}

void Act(World& world, int copy) {
  while (!world.Over()) Hold(world, copy);
}

const Register kRegister({.name = "unread_pipelines",
                          .doc = "pipelines with answers of 4 MiB that nobody reads",
                          .copies = 6,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::unread_pipelines
