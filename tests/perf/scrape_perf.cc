// SPDX-License-Identifier: MIT
// What a scrape costs: /metrics of a daemon with 1000 sessions of 100 tenants, and 60 programs and
// kernels. In both texts.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/base/digest.h"
#include "core/base/text.h"
#include "tests/perf/calls.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::perf::scrape_perf {
namespace {

constexpr int kTenants = 100, kPrograms = 60;
constexpr double kSessions = 1000, kScrapes = 200;

std::string Token(int tenant) { return Cat("token-", tenant); }

class Tenant {
 public:
  Tenant(v1::UopdService::Stub& stub, int number) : stub_(stub), number_(number) {}

  absl::Status OpenSession() {
    grpc::ClientContext ctx;
    Name(ctx);
    return Checked(stub_.OpenSession(&ctx, v1::OpenSessionRequest(), &session_));
  }
  absl::Status Execute(int64_t n, bool wrong) {
    grpc::ClientContext ctx;
    Name(ctx);
    v1::ExecuteRequest request;
    request.set_session_id(session_.session_id());
    request.set_graph(AddGraph(n));
    const std::string data(static_cast<size_t>(wrong ? 3 : 4 * n), '\0');
    for (int i = 0; i < 2; ++i) request.add_arguments()->set_data(data);
    request.add_arguments()->set_return_data(true);
    v1::ExecuteResponse response;
    const grpc::Status status = stub_.Execute(&ctx, request, &response);
    return wrong && !status.ok() ? absl::OkStatus() : Checked(status);
  }

 private:
  void Name(grpc::ClientContext& ctx) const {
    ctx.AddMetadata("authorization", Cat("Bearer ", Token(number_)));
  }
  v1::UopdService::Stub& stub_;
  const int number_;
  v1::OpenSessionResponse session_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  char folder[] = "/tmp/uopd-scrape-XXXXXX";
  if (mkdtemp(folder) == nullptr) return absl::InternalError("no temporary folder");
  const std::string tokens = Cat(folder, "/tokens");
  {
    std::ofstream out(tokens);
    for (int i = 0; i < kTenants; ++i)
      out << "tenant-" << i << " " << HashBytes(Token(i)).Hex() << "\n";
  }
  UOPD_ASSIGN(auto daemon,
              test::Daemon::Start({options.daemon, "", {"--server-token-file=" + tokens}}));
  const auto stub = v1::UopdService::NewStub(
      grpc::CreateChannel(daemon->address(), grpc::InsecureChannelCredentials()));
  const int sessions = std::max(kTenants, static_cast<int>(kSessions * options.scale));
  for (int i = 0; i < sessions; ++i) {
    Tenant tenant(*stub, i % kTenants);
    UOPD_TRY(tenant.OpenSession());
    if (i >= 2 * kTenants) continue;
    // Every tenant also makes mistakes; all programs and kernels have been used.
    UOPD_TRY(tenant.Execute(16 + i % kPrograms, false));
    UOPD_TRY(tenant.Execute(16 + i % kPrograms, true));
  }
  std::vector<Measurement> out;
  for (const auto& [name, accept] : {std::pair("text", "text/plain"),
                                     std::pair("openmetrics", "application/openmetrics-text")}) {
    std::vector<double> seconds;
    double bytes = 0;
    // The daemon writes a page anew for each scrape, as long as that takes less than a third of a
    // second.
    for (int i = 0; i < static_cast<int>(kScrapes * options.scale) + 3; ++i) {
      const double begin = NowSeconds();
      bytes = static_cast<double>(daemon->Http("/metrics", accept).size());
      seconds.push_back(NowSeconds() - begin);
    }
    out.push_back(
        {Cat("scrape.", name, ".p50"), "ms", Percentile(seconds, 0.5) * 1e3, "allowed", 20});
    out.push_back({Cat("scrape.", name, ".p99"), "ms", Percentile(seconds, 0.99) * 1e3, "", 0});
    out.push_back({Cat("scrape.", name, ".size"), "MiB", bytes / (1 << 20), "allowed", 2});
  }
  unlink(tokens.c_str());
  rmdir(folder);
  return out;
}

const Register kRegister(
    "scrape", "/metrics of a daemon with 1000 sessions of 100 tenants, against what it may cost",
    Run);

}  // namespace
}  // namespace uopd::perf::scrape_perf
