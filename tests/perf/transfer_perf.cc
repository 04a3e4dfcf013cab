// SPDX-License-Identifier: MIT
// Bytes of a tensor to the daemon and back, against bare streams Upload and Download of the same
// size to the same daemon: messages of one chunk that are made before, and answers that nobody
// copies. The daemon's part is the same on both sides.
#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "client/cpp/net/session.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::perf {
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
  client::Client client(connection);
  Bare bare(address, connection->session().id());
  const std::string bytes(kBytes, 'y');
  std::string out(kBytes, '\0');
  absl::Status failure;
  client::Tensor kept;
  // A tensor is uploaded when something needs it.
  const auto upload = [&] {
    kept = client.FromBytes(ir::Dtype::U8, {kBytes}, bytes);
    failure.Update(kept.Narrow(0, 7, 1).ToBytes().status());
  };
  const auto download = [&] { failure.Update(kept.ReadInto({out.data(), out.size()}).Wait()); };
  const int rounds = std::max(5, static_cast<int>(20 * options.scale));
  RunPaired(2, upload, [&] { bare.Upload(); });
  const Paired up = RunPaired(rounds, upload, [&] { bare.Upload(); });
  RunPaired(2, download, [&] { bare.Download(); });
  const Paired down = RunPaired(rounds, download, [&] { bare.Download(); });
  UOPD_TRY(failure);
  UOPD_TRY(bare.status());
  if (out != bytes) return absl::InternalError("the bytes that came back are others");
  const auto rate = [](const std::vector<double>& s) { return 1e-6 * kBytes / Percentile(s, 0.5); };
  return std::vector<Measurement>{
      {"transfer.upload", "MB/s", rate(up.a), "bare stream", rate(up.b)},
      {"transfer.download", "MB/s", rate(down.a), "bare stream", rate(down.b)}};
}

const Register kRegister("transfer",
                         "rates of a client's uploads and downloads, against bare streams", Run);

}  // namespace
}  // namespace uopd::perf
