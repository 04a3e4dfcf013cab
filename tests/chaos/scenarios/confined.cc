// SPDX-License-Identifier: MIT
// A daemon in a control group with little memory and a quota of processor time, below clients that
// fill every byte that they are given while others have new graphs compiled and tuned. The kernel
// must never kill the daemon.
#include "core/base/text.h"
#include "tests/chaos/graphs.h"
#include "tests/chaos/guest.h"
#include "tests/chaos/monitor.h"
#include "tests/chaos/scenario.h"
#include "tests/support/control_group.h"

namespace uopd::chaos::confined {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMemory = 1024 * kMiB;
constexpr double kProcessors = 1.5;

grpc::Status Upload(Guest& guest, uint64_t handle, size_t bytes) {
  grpc::ClientContext context;
  guest.Limit(context, 30);
  v1::UploadResponse response;
  auto writer = guest.stub().Upload(&context, &response);
  v1::UploadRequest message;
  message.set_session_id(guest.session());
  message.mutable_buffer()->set_handle(handle);
  message.mutable_buffer()->set_bytes(bytes);
  for (size_t at = 0; at < bytes; at += kMiB) {
    message.set_data(std::string(std::min<size_t>(kMiB, bytes - at), 'x'));
    if (!writer->Write(message)) break;
    message.Clear();
  }
  writer->WritesDone();
  return guest.Note("Upload", writer->Finish());
}

grpc::Status Free(Guest& guest, const std::vector<uint64_t>& handles) {
  grpc::ClientContext context;
  guest.Limit(context, 30);
  v1::FreeBuffersRequest request;
  request.set_session_id(guest.session());
  for (const uint64_t handle : handles) request.add_handles(handle);
  v1::FreeBuffersResponse response;
  return guest.Note("FreeBuffers", guest.stub().FreeBuffers(&context, request, &response));
}

// Holds as much as it gets, in buffers of up to 32 MiB. What it does not get must be refused as
// what it is.
void Hoard(World& world, int copy) {
  auto random = world.Random("hoarder", copy);
  Guest guest(world, "hoarder");
  uint64_t next = 0;
  std::vector<uint64_t> held;
  std::string session;
  while (guest.Await()) {
    if (session != guest.session()) held.clear();
    session = guest.session();
    const grpc::Status status = Upload(guest, ++next, random() % (32 * kMiB) + 1);
    if (status.ok()) {
      held.push_back(next);
      continue;
    }
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      world.report().Count("refused");
      world.Pause(static_cast<double>(random() % 1000) / 1e3);
      std::vector<uint64_t> back;
      while (held.size() > 2 && back.size() < held.size())
        back.push_back(held.back()), held.pop_back();
      if (!back.empty()) Free(guest, back);
    }
    if (random() % 16 == 0) guest.Drop();  // the session stays until its time is over
  }
}

const Actor kHoarder{
    .name = "hoarder", .doc = "fills the memory for clients", .copies = 4, .act = Hoard};

// Graphs of hundreds of thousands of nodes, each of which takes a hundred MiB or more while it is
// compiled.
void SendLargeGraphs(World& world, int copy) {
  auto random = world.Random("large_graphs", copy);
  Guest guest(world, "large_graphs");
  while (guest.Await()) {
    guest.Prepare(AddChainGraph(200'000 + static_cast<int>(random() % 500'000)), 10);
    world.Pause(0.2);
  }
}

const Actor kLargeGraphs{.name = "large_graphs",
                         .doc = "graphs that take much memory while they are compiled",
                         .copies = 3,
                         .act = SendLargeGraphs};

absl::Status RunIn(const Settings& settings, Report& report, bool nested, bool group_namespace) {
  auto group = test::ControlGroup::Make(
      {.memory_bytes = kMemory, .processors = kProcessors, .nested = nested});
  if (absl::IsUnavailable(group.status()))
    return absl::UnimplementedError(StatusText(group.status()));
  UOPD_TRY(group.status());
  // No limits.total_bytes: the daemon finds out by itself. Everything new is tuned behind the
  // answers.
  World world({.program = settings.program,
               .seed = settings.seed,
               .flags = {"--server-drain-timeout-ms=5s", "--session-ttl-ms=10s",
                         "--session-grace-ms=2s", "--tune-beam=2"},
               .keep = settings.keep,
               .groups = (*group)->folders(),
               .group_namespace = group_namespace},
              report);
  UOPD_TRY(world.Start());
  const std::string log = world.Log();
  if (log.find("memory=\"1 GiB (cgroup ") == std::string::npos)
    report.Violation("limits", Cat("the daemon does not know its memory: ", log));
  if (log.find("processors=\"2 (quota of cgroup ") == std::string::npos &&
      log.find("processors=\"1 (") == std::string::npos)
    report.Violation("limits", Cat("the daemon does not know its quota: ", log));
  const AftermathLimits aftermath{.idle = IdleFootprint(world), .drain_s = kDrain};
  {
    std::vector<std::jthread> threads = StartActor(kHoarder, world);
    for (std::jthread& thread : StartActor(kLargeGraphs, world))
      threads.push_back(std::move(thread));
    const Monitor monitor(world, {});
    absl::Status status = StartActors({"endless_compiles", "hard_graphs", "long_kernels", "mutants",
                                       "open_uploads", "unread_pipelines"},
                                      settings, world, threads);
    const double seconds = settings.seconds > 0 ? settings.seconds : 600;
    if (status.ok()) status = Watch(world, seconds / 4);
    world.End();
    UOPD_TRY(status);
  }
  const std::string what = Cat(nested ? "nested" : "plain", group_namespace ? "_namespace" : "");
  report.Figure(Cat("peak_mib.", what), static_cast<double>((*group)->PeakBytes()) / kMiB);
  report.Count("workers_killed_for_memory", (*group)->KilledCount());
  CheckAftermath(world, aftermath);
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings, Report& report) {
  for (const bool nested : {false, true}) {
    for (const bool group_namespace : {false, true})
      UOPD_TRY(RunIn(settings, report, nested, group_namespace));
  }
  if (report.CountOf("refused") == 0)
    report.Violation("limits", "no client was ever refused, so the memory was never full");
  return absl::OkStatus();
}

const Add kAdd({"confined",
                "little memory and processor time by control groups, nested and with a namespace",
                Run});

}  // namespace
}  // namespace uopd::chaos::confined
