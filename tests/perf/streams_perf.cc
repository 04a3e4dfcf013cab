// SPDX-License-Identifier: MIT
// What gRPC alone carries: bare streams Upload and Download to a daemon. Messages of one chunk,
// made before, and answers that nobody copies. The daemon's part is that of any client's transfer.
// tests/perf/python/bench.py compares with it.
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "client/cpp/net/session.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/connection.h"

namespace uopd::perf::streams_perf {
namespace {

constexpr size_t kBytes = 64 << 20, kChunk = 1 << 20;
constexpr uint64_t kHandle = uint64_t{1} << 61;  // no client counts as far

class Bare {
 public:
  Bare(const std::string& address, std::string session)
      : stub_(v1::UopdService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        session_(std::move(session)) {
    request_.set_data(std::string(kChunk, 'x'));
  }
  void Upload() {
    grpc::ClientContext context;
    v1::UploadResponse response;
    const auto writer = stub_->Upload(&context, &response);
    v1::UploadRequest first = request_;
    first.set_session_id(session_);
    first.mutable_buffer()->set_handle(kHandle);
    first.mutable_buffer()->set_bytes(kBytes);
    writer->Write(first);
    for (size_t sent = kChunk; sent < kBytes; sent += kChunk) writer->Write(request_);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    Check(status, response.bytes());
  }
  void Download() {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_session_id(session_);
    request.set_handle(kHandle);
    const auto reader = stub_->Download(&context, request);
    size_t got = 0;
    while (reader->Read(&response_)) got += response_.data().size();
    Check(reader->Finish(), got);
  }
  const absl::Status& status() const { return status_; }

 private:
  void Check(const grpc::Status& s, uint64_t bytes) {
    if (!s.ok()) status_.Update(absl::InternalError(s.error_message()));
    if (bytes != kBytes) status_.Update(absl::InternalError("the stream lost bytes"));
  }
  std::unique_ptr<v1::UopdService::Stub> stub_;
  std::string session_;
  v1::UploadRequest request_;
  v1::DownloadResponse response_;
  absl::Status status_;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  std::unique_ptr<test::Daemon> daemon;
  std::string address = options.address;
  if (address.empty()) {
    UOPD_ASSIGN(daemon, test::Daemon::Start({options.daemon, "", {}}));
    address = daemon->address();
  }
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = address}));
  Bare bare(address, connection->session().id());
  const int rounds = std::max(5, static_cast<int>(20 * options.scale));
  const auto rate = [&](const std::function<void()>& f) {
    const Paired times = RunPaired(rounds, f, [] {});
    return 1e-6 * kBytes / Percentile(times.a, 0.5);
  };
  bare.Upload();
  const double up = rate([&] { bare.Upload(); }), down = rate([&] { bare.Download(); });
  UOPD_TRY(bare.status());
  return std::vector<Measurement>{{"streams.upload", "MB/s", up},
                                  {"streams.download", "MB/s", down}};
}

const Register kRegister("streams", "rates of bare streams Upload and Download to a daemon", Run);

}  // namespace
}  // namespace uopd::perf::streams_perf
