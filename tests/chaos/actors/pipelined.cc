// SPDX-License-Identifier: MIT
// A pipeline whose client reads. The answers must be right and come in the order of the messages.
#include "core/base/text.h"
#include "tests/chaos/actor.h"
#include "tests/chaos/caller.h"
#include "tests/e2e/graphs.h"

namespace uopd::chaos::pipelined {
namespace {

constexpr int kMessages = 64;
constexpr size_t kElements = 8;

grpc::Status OneStream(Caller& caller, Stub& stub, grpc::ClientContext& context, uint64_t salt) {
  const auto stream = stub.Pipeline(&context);
  int sent = 0;
  for (; sent < kMessages; ++sent) {
    v1::PipelineRequest message;
    message.set_sequence(salt + static_cast<uint64_t>(sent));
    v1::ExecuteRequest& execute = *message.mutable_execute();
    execute.set_session_id(caller.session());
    execute.set_graph(e2e::ScaleGraph(kElements, 3));
    *execute.add_arguments() = Returned();
    *execute.add_arguments() =
        Data(e2e::Bytes(std::vector<float>(kElements, static_cast<float>(sent))));
    if (!stream->Write(message)) break;
  }
  stream->WritesDone();
  v1::PipelineResponse answer;
  int read = 0;
  for (; stream->Read(&answer); ++read) {
    if (answer.code() != 0) {
      const auto code = static_cast<grpc::StatusCode>(answer.code());
      context.TryCancel();
      stream->Finish();
      return {code, answer.message()};
    }
    const bool right = answer.sequence() == salt + static_cast<uint64_t>(read) &&
                       answer.execute().data_size() == 1 &&
                       e2e::Floats(answer.execute().data(0)) ==
                           std::vector<float>(kElements, static_cast<float>(3 * read));
    caller.Check(right, Cat("answer ", read, " of a pipeline"));
  }
  const grpc::Status status = stream->Finish();
  if (status.ok()) caller.Check(read == kMessages, Cat(read, " answers of a pipeline"));
  return status;
}

void Act(World& world, int copy) {
  auto random = world.Random("pipelined", copy);
  Caller caller(world, Cat("pipelined ", copy));
  while (caller.Ready()) {
    const uint64_t salt = random();
    const auto verdict = caller.Call("Pipeline", [&](Stub& stub, grpc::ClientContext& context) {
      return OneStream(caller, stub, context, salt);
    });
    if (verdict == Caller::kFailed) caller.Close();
    if (!world.Pause(0.1)) return;
  }
}

const Register kRegister({.name = "pipelined",
                          .doc = "pipelines of 64 messages, read to the end",
                          .copies = 1,
                          .well_behaved = true,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::pipelined
