// SPDX-License-Identifier: MIT
// 100 uploads that begin and never finish.
#include <vector>

#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/guest.h"
#include "tests/chaos/sockets.h"

namespace uopd::chaos::open_uploads {
namespace {

constexpr int kUploads = 100;
constexpr double kHold = 20;  // seconds

struct Open {
  grpc::ClientContext context;
  v1::UploadResponse response;
  std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writer;
};

void Act(World& world, int) {
  while (!world.Over()) {
    const auto place = world.Where();
    if (!place) return;
    const Relay relay(place->grpc, SourceAddress(2));
    const auto stub = Connect(relay.address());
    v1::OpenSessionResponse session;
    {
      grpc::ClientContext context;
      context.set_deadline(In(10));
      if (!stub->OpenSession(&context, {}, &session).ok()) {
        world.Pause(0.5);
        continue;
      }
    }
    std::vector<std::unique_ptr<Open>> held;
    // The daemon may have ended them by then (limits.stream_idle_ms). Then new uploads follow.
    const double end = Now() + kHold;
    while (Now() < end && !world.Over() && world.generation() == place->generation) {
      while (held.size() < kUploads && !world.Over()) {
        auto open = std::make_unique<Open>();
        open->writer = stub->Upload(&open->context, &open->response);
        v1::UploadRequest message;
        message.set_session_id(session.session_id());
        message.mutable_buffer()->set_handle(held.size() + 1);
        message.mutable_buffer()->set_bytes(1 << 20);
        message.set_data("x");
        open->writer->Write(message);
        world.report().Count("open_uploads.opened");
        held.push_back(std::move(open));
      }
      world.Pause(0.5);
    }
    for (const auto& open : held) open->context.TryCancel();
    for (const auto& open : held) open->writer->Finish();
  }
}

const Register kRegister({.name = "open_uploads",
                          .doc = "100 uploads that are begun and never finished",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::open_uploads
