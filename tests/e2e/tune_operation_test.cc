// SPDX-License-Identifier: MIT
// uopctl tune against real daemons: an operation from its start to its end, seen by several
// clients, cancelled, killed with its daemon, and asked for wrongly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/cpp/net/session.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kProduct[] = UOPD_SOURCE_DIR "/docs/examples/matmul.uop";

struct TuneCtlResult {
  int code = -1;
  std::string out;
  // What --json has as the result.
  json parsed() const { return json::parse(out, nullptr, false).value("data", json()); }
};
// uopctl with the daemon's address; standard error is dropped unless `both`.
TuneCtlResult TuneCtl(const DaemonProcess& daemon, const std::string& arguments, bool both = false,
                      const std::string& under = "") {
  TuneCtlResult result;
  const std::string command = Cat(under, " ", UOPCTL_BINARY, " --address ", daemon.listen(), " ",
                                  arguments, both ? " 2>&1" : " 2>/dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  char text[4096];
  while (const size_t n = fread(text, 1, sizeof text, pipe)) result.out.append(text, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

class TuneOperationE2eTest : public ::testing::Test {
 protected:
  // Searches of so many kernels that they do not end in the time of a test.
  static constexpr int kManyKernels = 500;
  const std::vector<std::string> endless_ = {"--tune-candidates=100000"};
  static v1::StartTuneRequest EndlessRequest() {
    v1::StartTuneRequest request;
    request.mutable_graph()->set_graph(ManyPairsGraph(kManyKernels, 96));
    request.mutable_options()->set_beam(64);
    return request;
  }
  static std::string StartEndless(Client& client) {
    v1::StartTuneResponse response;
    grpc::ClientContext context;
    const grpc::Status status = client.stub().StartTune(&context, EndlessRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.tune().id();
  }
  using Stream = std::unique_ptr<grpc::ClientReader<v1::WatchTuneResponse>>;
  static Stream Watch(Client& client, grpc::ClientContext& context, const std::string& id) {
    v1::WatchTuneRequest request;
    request.set_id(id);
    return client.stub().WatchTune(&context, request);
  }
  // Reads until a candidate was measured.
  static bool ReadsCandidates(Stream& stream) {
    for (v1::WatchTuneResponse message; stream->Read(&message);) {
      for (const v1::TunedKernel& kernel : message.kernels()) {
        if (kernel.measured() >= 2) return true;
      }
    }
    return false;
  }

  TemporaryFolder folder_;
};

TEST_F(TuneOperationE2eTest, TunesShowsAndRemembers) {
  DaemonProcess daemon(folder_.path(), {"--tune-candidates=12"});
  const std::string picture = (folder_.path() / "a.svg").string();
  const TuneCtlResult tuned =
      TuneCtl(daemon, Cat("--json tune ", kProduct, " --beam 2 --budget 60s --svg ", picture));
  ASSERT_EQ(tuned.code, 0) << tuned.out << daemon.Log();
  const json one = tuned.parsed();
  EXPECT_EQ(one["state"], "done") << tuned.out;
  EXPECT_EQ(one["title"], "matmul.uop");
  EXPECT_EQ(one["budget_seconds"], 60);
  ASSERT_EQ(one["list"].size(), 1u);
  const json kernel = one["list"][0];
  EXPECT_EQ(kernel["state"], "tuned");
  EXPECT_THAT(kernel["name"].get<std::string>(), HasSubstr("r_3_2_4"));
  EXPECT_GE(kernel["measured"], 2);
  // What was not measured is told apart: with at most 12 candidates, most of what the search makes
  // is left out.
  EXPECT_GE(kernel["pruned"], 1);
  EXPECT_GE(kernel["duplicates"], 0);
  EXPECT_EQ(one["pruned"], kernel["pruned"]);
  EXPECT_EQ(one["duplicates"], kernel["duplicates"]);
  EXPECT_EQ(daemon.Metric("uopd_tune_candidates_total{outcome=\"pruned\"}"), kernel["pruned"]);
  EXPECT_LE(kernel["best_seconds"].get<double>(), kernel["heuristic_seconds"].get<double>());
  const std::string svg = test::ReadFile(picture);
  EXPECT_THAT(svg, StartsWith("<?xml"));
  EXPECT_THAT(svg, HasSubstr("<circle"));
  const std::string id = one["id"].get<std::string>();
  // The picture of an operation that is over is the same.
  EXPECT_EQ(TuneCtl(daemon, Cat("tune svg ", id.substr(0, 8))).out, svg);

  // Requests with this beam find the winner; a second operation has nothing to do.
  const json warm = TuneCtl(daemon, Cat("--json cache warm --beam 2 ", kProduct)).parsed();
  EXPECT_EQ(warm["graphs"][0]["kernels_tuned"], 1) << warm.dump();
  EXPECT_EQ(warm["graphs"][0]["kernels_compiled"], 0) << warm.dump();
  const json again = TuneCtl(daemon, Cat("--json tune --beam 2 ", kProduct)).parsed();
  EXPECT_EQ(again["kernels_found"], 1) << again.dump();
  EXPECT_EQ(again["candidates"], 0);
  EXPECT_TRUE(test::Eventually(
      [&] { return daemon.Metric("uopd_tune_operations_total{state=\"done\"}") == 2; }));

  const json listed = TuneCtl(daemon, "--json tune ls").parsed();
  ASSERT_EQ(listed["tunes"].size(), 2u);
  EXPECT_EQ(listed["tunes"][1]["id"], id);
  EXPECT_THAT(TuneCtl(daemon, Cat("tune attach ", id)).out,
              HasSubstr("done: 1 of 1 kernels tuned"));
  // The entries of the cache are sound, and operations do not travel.
  EXPECT_EQ(TuneCtl(daemon, "cache verify").code, 0);

  // Wrong command lines.
  for (const char* wrong : {"tune cancel zzz", "tune --budget soon x.uop", "tune attach ''",
                            "tune --candidates 0 x.uop", "tune --candidates -1 x.uop"}) {
    EXPECT_EQ(TuneCtl(daemon, wrong).code, 2) << wrong;
  }
  for (const char* missing : {"tune attach f00f00", "tune nothing.uop"}) {
    EXPECT_EQ(TuneCtl(daemon, missing).code, 5) << missing;
  }
  EXPECT_THAT(TuneCtl(daemon, Cat("tune --beam 2 --device NULL:7 ", kProduct), true).out,
              HasSubstr("NULL:7"));
  EXPECT_EQ(TuneCtl(daemon, "tune").code, 2);
}

TEST_F(TuneOperationE2eTest, ClientsComeAndGoAndOneCancels) {
  DaemonProcess daemon(folder_.path(), endless_);
  Client client(daemon), other(daemon);
  const std::string id = StartEndless(client);
  grpc::ClientContext first, second;
  Stream one = Watch(client, first, id), two = Watch(other, second, id.substr(0, 10));
  EXPECT_TRUE(ReadsCandidates(one)) << daemon.Log();
  EXPECT_TRUE(ReadsCandidates(two)) << daemon.Log();
  EXPECT_EQ(daemon.Metric("uopd_tune_watchers"), 2);
  first.TryCancel();
  EXPECT_EQ(one->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // Ctrl-C leaves the operation alone.
  const TuneCtlResult left = TuneCtl(daemon, Cat("tune attach ", id), true, "timeout -s INT 1");
  EXPECT_THAT(left.out, HasSubstr(Cat("uopctl tune cancel ", id)));
  EXPECT_EQ(TuneCtl(daemon, "--json tune ls").parsed()["tunes"][0]["state"], "running");

  const TuneCtlResult cancelled = TuneCtl(daemon, Cat("--json tune cancel ", id));
  ASSERT_EQ(cancelled.code, 0) << cancelled.out;
  EXPECT_EQ(cancelled.parsed()["state"], "cancelled");
  v1::WatchTuneResponse last;
  while (two->Read(&last)) {
  }
  EXPECT_TRUE(two->Finish().ok());
  EXPECT_EQ(last.tune().state(), "cancelled");
  EXPECT_TRUE(test::Eventually([&] { return daemon.Metric("uopd_tune_watchers") == 0; }));
  EXPECT_TRUE(test::Eventually([&] { return daemon.Metric("uopd_tune_queue") == 0; }));
  EXPECT_EQ(TuneCtl(daemon, Cat("tune cancel ", id)).code, 4);
  ExpectServes(daemon);
}

TEST_F(TuneOperationE2eTest, OutlivesADaemonThatIsKilled) {
  std::string id;
  {
    DaemonProcess daemon(folder_.path(), endless_);
    Client client(daemon);
    id = StartEndless(client);
    grpc::ClientContext context;
    Stream stream = Watch(client, context, id);
    ASSERT_TRUE(ReadsCandidates(stream)) << daemon.Log();
    daemon.Signal(SIGKILL);
    daemon.Wait();
    EXPECT_FALSE(stream->Finish().ok());
  }
  {
    DaemonProcess daemon(folder_.path(), endless_);
    Client client(daemon);
    const auto state = [&] {
      const json listed = TuneCtl(daemon, "--json tune ls").parsed();
      return listed["tunes"].empty() ? json() : listed["tunes"][0];
    };
    EXPECT_EQ(state()["id"], id);
    // The count itself goes back to 1 as soon as a kernel is tuned.
    EXPECT_TRUE(test::Eventually([&] {
      return daemon.Log().find("a tuning operation goes on") != std::string::npos;
    })) << daemon.Log();
    EXPECT_THAT(daemon.Log(), testing::ContainsRegex("a tuning operation goes on.*attempt\\W+2"));
    // A daemon that ends in an orderly way takes no attempt, and waits for no search.
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  }
  DaemonProcess daemon(folder_.path(), endless_);
  Client client(daemon);
  EXPECT_TRUE(test::Eventually([&] {
    const json one = TuneCtl(daemon, "--json tune ls").parsed()["tunes"][0];
    return one["attempts"] == 1 && one["state"] == "running";
  })) << daemon.Log();
  EXPECT_EQ(TuneCtl(daemon, Cat("tune cancel ", id)).code, 0);
  const TuneCtlResult resumed = TuneCtl(daemon, Cat("--json tune resume --detach ", id));
  EXPECT_EQ(resumed.code, 0) << resumed.out;
  EXPECT_EQ(resumed.parsed()["id"], id);
  // And a cancelled one stays so after a kill.
  EXPECT_EQ(TuneCtl(daemon, Cat("tune cancel ", id)).code, 0);
  daemon.Signal(SIGKILL);
  daemon.Wait();
  DaemonProcess last(folder_.path(), endless_);
  EXPECT_EQ(TuneCtl(last, "--json tune ls").parsed()["tunes"][0]["state"], "cancelled");
}

TEST_F(TuneOperationE2eTest, BadRequestsHarmNobody) {
  DaemonProcess daemon(folder_.path(), endless_);
  Client client(daemon);
  const auto refused = [&](v1::StartTuneRequest request, const char* text) {
    v1::StartTuneResponse response;
    grpc::ClientContext context;
    const grpc::Status status = client.stub().StartTune(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  };
  v1::StartTuneRequest request;
  refused(request, "beam");
  request.mutable_options()->set_beam(4);
  refused(request, "digest");
  request.mutable_graph()->set_graph(std::string(1 << 20, '\xff'));
  refused(request, "");
  request = EndlessRequest();
  request.mutable_options()->set_beam(65);
  refused(request, "beam");
  request = EndlessRequest();
  request.set_budget_ms(UINT64_MAX);
  refused(request, "budget_ms");
  request = EndlessRequest();
  request.set_request_id(std::string(1000, 'r'));
  refused(request, "request_id");
  for (const std::string& id : {std::string(), std::string(100, 'a'), std::string("../../etc"),
                                std::string("' OR 1=1"), std::string("%s%n")}) {
    grpc::ClientContext context;
    Stream stream = Watch(client, context, id);
    v1::WatchTuneResponse message;
    EXPECT_FALSE(stream->Read(&message));
    const grpc::StatusCode code = stream->Finish().error_code();
    EXPECT_TRUE(code == grpc::StatusCode::INVALID_ARGUMENT || code == grpc::StatusCode::NOT_FOUND)
        << id;
  }
  // Watchers are bounded, and some that never read hold up nobody.
  const std::string id = StartEndless(client);
  constexpr size_t kOneTooMany = 65;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<Stream> streams;
  for (size_t i = 0; i < kOneTooMany; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(Watch(client, *contexts.back(), id));
  }
  EXPECT_TRUE(test::Eventually([&] { return daemon.Metric("uopd_tune_watchers") >= 64; }));
  EXPECT_LE(daemon.Metric("uopd_tune_watchers"), 64);
  ExpectServes(daemon);
  EXPECT_EQ(TuneCtl(daemon, Cat("tune cancel ", id)).code, 0);
  int refusals = 0;
  for (Stream& stream : streams) {
    for (v1::WatchTuneResponse message; stream->Read(&message);) {
    }
    refusals += stream->Finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  EXPECT_EQ(refusals, 1);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(TuneOperationE2eTest, TenantsDoNotSeeEachOther) {
  const std::string tokens = (folder_.path() / "tokens").string();
  std::ofstream(tokens) << "alice " << HashBytes("alice's").Hex() << "\nbob "
                        << HashBytes("bob's").Hex() << "\nboss " << HashBytes("boss's").Hex()
                        << "\n";
  DaemonProcess daemon(folder_.path(), {"--tune-candidates=100000", "--server-operators=boss",
                                        "--server-token-file=" + tokens});
  const auto open = [&](const char* token) {
    client::ConnectOptions options;
    options.address = daemon.listen();
    options.credentials.token = token;
    return *client::Session::Open(std::move(options));
  };
  const auto alice = open("alice's"), bob = open("bob's"), boss = open("boss's");
  const auto started = alice->StartTune(EndlessRequest());
  ASSERT_TRUE(started.ok()) << started.status();
  const std::string id = started->tune().id();
  EXPECT_EQ(started->tune().tenant(), "alice");
  EXPECT_EQ(bob->ListTunes()->tunes_size(), 0);
  v1::CancelTuneRequest cancel;
  cancel.set_id(id);
  v1::ResumeTuneRequest resume;
  resume.set_id(id);
  v1::WatchTuneRequest watch;
  watch.set_id(id.substr(0, 4));
  const auto nothing = [](const v1::WatchTuneResponse&) { return absl::OkStatus(); };
  for (const absl::Status& status :
       {bob->CancelTune(cancel).status(), bob->ResumeTune(resume).status(), [&] {
          grpc::ClientContext context;
          return bob->WatchTune(context, watch, nothing);
        }()}) {
    EXPECT_THAT(status.message(), HasSubstr("no tuning operation has the id")) << status;
  }
  EXPECT_EQ(boss->ListTunes()->tunes_size(), 1);
  EXPECT_TRUE(boss->CancelTune(cancel).ok());
  EXPECT_EQ(alice->ListTunes()->tunes(0).state(), "cancelled");
  Client nobody(daemon);
  v1::StartTuneResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(nobody.stub().StartTune(&context, EndlessRequest(), &response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace uopd::e2e
