// SPDX-License-Identifier: MIT
// No byte that a client gets comes from memory that nobody wrote for it. Two daemons fill fresh
// memory with another byte each (device.memory_pattern), and are asked the same: all answers,
// downloads and areas of memory must be the same.
// tests/integration/server/engine/memory_of_others_test.cc asks the engine far more; this test has
// the wire in it. UOPD_FUZZ_LEAKS_E2E sets how many graphs, UOPD_FUZZ_SEED the first one.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "tests/e2e/side_socket.h"
#include "tests/support/environment.h"
#include "tests/support/graph_generator.h"

namespace uopd::e2e {
namespace {

constexpr uint64_t kHandles = 4;  // of each slot

// A daemon, and a session of it with an area of memory.
class Side {
 public:
  explicit Side(const char* pattern)
      : daemon_(folder_.path(),
                {"--listen=unix:" + (folder_.path() / "socket").string(), "--device-list=CPU,CPU:1",
                 Cat("--device-memory-pattern=", pattern)}) {
    const v1::OpenSessionResponse opened = OpenSession(client_);
    session_ = opened.session_id();
    area_ = AskForArea(daemon_, opened.side().token());
    EXPECT_GT(area_.bytes, 0U);
    mapped_ = static_cast<const char*>(
        mmap(nullptr, area_.bytes, PROT_READ, MAP_SHARED, area_.file.get(), 0));
    EXPECT_NE(mapped_, MAP_FAILED);
  }
  ~Side() { munmap(const_cast<char*>(mapped_), area_.bytes); }

  std::string Execute(v1::ExecuteRequest request) {
    request.set_session_id(session_);
    v1::ExecuteResponse response;
    grpc::ClientContext context;
    const grpc::Status status = client_.stub().Execute(&context, request, &response);
    std::string out = Cat(int{status.error_code()}, " ", status.error_message());
    for (const std::string& data : response.data()) Append(out, " ", data.size(), ":", data);
    return out;
  }
  // The contents of a buffer, as messages and through the area.
  std::string Read(uint64_t handle, uint64_t bytes) {
    v1::DownloadRequest request;
    request.set_session_id(session_);
    request.set_handle(handle);
    grpc::ClientContext context;
    const auto stream = client_.stub().Download(&context, request);
    std::string out;
    for (v1::DownloadResponse piece; stream->Read(&piece);) out += piece.data();
    Append(out, " ", int{stream->Finish().error_code()});
    if (bytes == 0) return out;
    const auto answer =
        CallInPipeline(client_, DownloadTo(session_, handle, bytes, Range(area_.number, 0, bytes)));
    through_area_ += answer.code() == 0 ? 1 : 0;
    Append(out, " ", answer.code(), " ", std::string_view(mapped_, bytes));
    return out;
  }
  int through_area() const { return through_area_; }

 private:
  TemporaryFolder folder_;
  DaemonProcess daemon_;
  Client client_{daemon_};
  std::string session_;
  SideAnswer area_;
  const char* mapped_ = nullptr;
  int through_area_ = 0;  // buffers that were read so
};

// Small integers in the dtype of the slot.
std::string SlotData(const test::HostArray& slot, std::mt19937_64& random) {
  std::vector<double> values(slot.values.size());
  for (double& v : values) v = static_cast<double>(random() % 7) - 3;
  return test::HostArray::Of(slot.dtype, slot.dims, values).ToBytes();
}

v1::ExecuteRequest RandomRun(const ir::UOpContext& ctx, const test::GeneratedGraph& g,
                             std::mt19937_64& random) {
  const auto one_of = [&](uint64_t n) { return random() % n == 0; };
  v1::ExecuteRequest out;
  out.set_graph(ir::Encode(ctx, g.sink));
  for (ir::UOp u : ir::Toposort(ctx, g.sink)) {
    if (!u.Is(ir::Op::DEFINE_VAR)) continue;
    const auto span = static_cast<uint64_t>(u.ints()[1] - u.ints()[0]) + 1;
    out.add_variables(u.ints()[0] + static_cast<int64_t>(random() % span));
  }
  for (size_t i = 0; i < g.slots.size(); ++i) {
    v1::Argument& argument = *out.add_arguments();
    if (!one_of(4)) argument.set_buffer(1 + i * kHandles + random() % kHandles);
    if (argument.buffer() == 0 || one_of(3)) {
      std::string data = SlotData(g.slots[i], random);
      if (one_of(4)) data.resize(random() % (data.size() + 1));
      argument.set_data(data);
    }
    argument.set_return_data(one_of(2));
  }
  if (one_of(3)) out.set_request_id(1 + random() % 4);
  if (one_of(8)) out.add_free_buffers(1 + random() % (g.slots.size() * kHandles));
  return out;
}

TEST(FreshMemoryTest, ReachesNoClient) {
  const auto graphs = static_cast<uint64_t>(test::CasesFromEnvironment("UOPD_FUZZ_LEAKS_E2E", 8));
  const auto start = static_cast<uint64_t>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  int done = 0, through_area = 0;
  for (uint64_t seed = start; seed < start + graphs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Side one("53"), other("74");
    ir::UOpContext ctx;
    const test::GeneratedGraph g = test::GenerateGraph(ctx, seed,
                                                       {.ops = 3 + static_cast<int>(seed % 12),
                                                        .symbolic = seed % 3 != 0,
                                                        .devices = seed % 2 == 0});
    std::mt19937_64 random(seed);
    for (int run = 0; run < 10; ++run) {
      // The daemons get each request four times, so that they may keep values for its program.
      const v1::ExecuteRequest request = RandomRun(ctx, g, random);
      for (int again = 0; again < 4; ++again) {
        const std::string told = one.Execute(request);
        ASSERT_TRUE(told == other.Execute(request))
            << "run " << run << ": " << told.substr(0, 300) << "\n"
            << ir::Print(ctx, g.sink);
        done += told.starts_with("0 ") ? 1 : 0;
      }
      for (size_t i = 0; i < g.slots.size(); ++i) {
        const uint64_t handle = 1 + i * kHandles + random() % kHandles;
        const uint64_t bytes = g.slots[i].ToBytes().size();
        ASSERT_TRUE(one.Read(handle, bytes) == other.Read(handle, bytes))
            << "after run " << run << ", slot " << i << "\n"
            << ir::Print(ctx, g.sink);
      }
    }
    through_area += one.through_area();
  }
  EXPECT_GT(through_area, static_cast<int>(graphs));
  EXPECT_GT(done, static_cast<int>(graphs) * 4);
}

}  // namespace
}  // namespace uopd::e2e
