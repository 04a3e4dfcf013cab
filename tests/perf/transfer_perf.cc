// SPDX-License-Identifier: MIT
// Rates of uploads and downloads by Connection, as Client::FromBytes and Tensor::ReadInto use it:
// over TCP, over a Unix socket, and through memory shared with the daemon. Peers: a stream of the
// same chunks by gRPC alone over the same kind of socket; a copy into memory that was touched
// before; and the first touch of fresh memory.
#include <grpcpp/grpcpp.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/text.h"
#include "tests/perf/perf.h"
#include "tests/support/daemon.h"
#include "uopd/connection.h"
#include "uopd/v1/uopd.grpc.pb.h"

namespace uopd::perf::transfer_perf {
namespace {

constexpr size_t kChunk = 1 << 20;

// Streams chunks and does nothing with them.
class BareService final : public v1::UopdService::Service {
 public:
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::UploadResponse*) override {
    v1::UploadRequest request;
    while (reader->Read(&request)) {
    }
    return grpc::Status::OK;
  }
  grpc::Status Download(grpc::ServerContext*, const v1::DownloadRequest* request,
                        grpc::ServerWriter<v1::DownloadResponse>* writer) override {
    v1::DownloadResponse response;
    response.set_data(std::string(kChunk, 'x'));
    for (uint64_t at = 0; at < request->bytes(); at += kChunk) writer->Write(response);
    return grpc::Status::OK;
  }
};

class BareStream {
 public:
  explicit BareStream(const std::string& address) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    const std::string to = port > 1 ? Cat("127.0.0.1:", port) : address;
    stub_ = v1::UopdService::NewStub(grpc::CreateChannel(to, grpc::InsecureChannelCredentials()));
  }
  ~BareStream() { server_->Shutdown(std::chrono::system_clock::now()); }

  void Upload(std::span<const char> data) {
    grpc::ClientContext context;
    v1::UploadResponse response;
    const auto writer = stub_->Upload(&context, &response);
    v1::UploadRequest request;
    for (size_t at = 0; at < data.size(); at += kChunk) {
      request.set_data(data.data() + at, std::min(kChunk, data.size() - at));
      writer->Write(request);
    }
    writer->WritesDone();
    if (!writer->Finish().ok()) std::abort();
  }
  void Download(std::span<char> out) {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_bytes(out.size());
    const auto reader = stub_->Download(&context, request);
    size_t at = 0;
    for (v1::DownloadResponse part; reader->Read(&part); at += part.data().size())
      std::memcpy(out.data() + at, part.data().data(), part.data().size());
    if (!reader->Finish().ok()) std::abort();
  }

 private:
  BareService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::UopdService::Stub> stub_;
};

// Memory that nobody has touched, as malloc gives it, or with huge pages as NumPy asks for them.
class FreshMemory {
 public:
  FreshMemory(size_t bytes, bool huge) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) std::abort();
    madvise(memory_, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~FreshMemory() { munmap(memory_, bytes_); }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  std::span<char> span() const { return {static_cast<char*>(memory_), bytes_}; }

 private:
  const size_t bytes_;
  void* memory_;
};

class Subject {
 public:
  Subject(std::shared_ptr<client::Connection> connection, size_t bytes)
      : connection_(std::move(connection)), kept_(connection_->NewHandle()) {
    const std::string data(bytes, 'k');
    Check(connection_->UploadCopy(kept_, "", data));
  }
  ~Subject() { connection_->Free({kept_}); }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  void Upload(std::span<const char> data) {
    const uint64_t handle = connection_->NewHandle();
    Check(connection_->UploadCopy(handle, "", {data.data(), data.size()}));
    connection_->Free({handle});
  }
  void Download(std::span<char> out) { Check(connection_->Download(kept_, out)); }

 private:
  static void Check(const client::Future& future) {
    if (const absl::Status status = future.Wait(); !status.ok()) {
      std::fprintf(stderr, "%s\n", StatusText(status).c_str());
      std::abort();
    }
  }
  const std::shared_ptr<client::Connection> connection_;
  const uint64_t kept_;
};

struct Transport {
  std::string name, listen, bare;
  std::vector<std::string> flags;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-perf-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

absl::StatusOr<std::vector<Measurement>> Run(const Options& options) {
  const TemporaryFolder folder;
  const Transport transports[] = {
      {"tcp", "127.0.0.1:0", "127.0.0.1:0", {}},
      {"unix",
       Cat("unix:", folder.path, "/grpc"),
       Cat("unix:", folder.path, "/bare"),
       {"--server-side-socket=false"}},
      {"side", Cat("unix:", folder.path, "/side"), Cat("unix:", folder.path, "/bare2"), {}}};
  std::vector<Measurement> out;
  for (const Transport& t : transports) {
    if (!options.model.empty() && t.name != options.model) continue;
    std::vector<std::string> flags = t.flags;
    flags.push_back(Cat("--listen=", t.listen));
    UOPD_ASSIGN(const auto daemon, test::Daemon::Start({options.daemon, "", flags}));
    UOPD_ASSIGN(const auto connection, client::Connection::Connect({.address = daemon->address()}));
    BareStream bare(t.bare);
    for (const size_t mib : {1, 16, 256}) {
      const size_t bytes = mib << 20;
      if (options.scale < 0.1 && mib > 16) continue;
      const int rounds =
          std::clamp(static_cast<int>(options.scale * 2048 / static_cast<double>(mib)), 5, 200);
      Subject subject(connection, bytes);
      std::string data(bytes, 'a'), other(bytes, 'b');
      const double gb = static_cast<double>(bytes) * 1e-9;
      auto report = [&](const char* what, const char* peer, const Paired& times) {
        Measurement m{Cat("transfer.", t.name, ".", what, ".", mib, "MiB"), "GB/s",
                      gb / Percentile(times.a, 0.5), peer, gb / Percentile(times.b, 0.5)};
        if (options.report)
          options.report(m);
        else
          out.push_back(std::move(m));
      };
      auto upload = [&] { subject.Upload(data); };
      auto download = [&] { subject.Download(other); };
      upload(), download(), bare.Upload(data), bare.Download(other);
      report("upload", "gRPC stream", RunPaired(rounds, upload, [&] { bare.Upload(data); }));
      report("download", "gRPC stream", RunPaired(rounds, download, [&] { bare.Download(other); }));
      if (t.name != "side") continue;
      auto copy = [&] { std::memcpy(other.data(), data.data(), bytes); };
      report("upload_copy", "memcpy", RunPaired(rounds, upload, copy));
      report("download_copy", "memcpy", RunPaired(rounds, download, copy));
      for (const bool huge : {false, true}) {
        report(huge ? "download_fresh_huge" : "download_fresh", "first touch",
               RunPaired(
                   rounds, [&] { subject.Download(FreshMemory(bytes, huge).span()); },
                   [&] {
                     const FreshMemory memory(bytes, huge);
                     std::memset(memory.span().data(), 1, bytes);
                   }));
      }
    }
  }
  return out;
}

const Register kRegister("transfer",
                         "rates of uploads and downloads, against gRPC streams and memcpy: "
                         "--model tcp|unix|side",
                         Run);

}  // namespace
}  // namespace uopd::perf::transfer_perf
