// SPDX-License-Identifier: MIT
#include "tests/perf/models/cold_session.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/base/text.h"

namespace uopd::perf {

absl::StatusOr<std::unique_ptr<ColdSession>> ColdSession::Open(const std::string& daemon,
                                                               const std::string& folder,
                                                               const std::string& subject,
                                                               std::vector<std::string> flags) {
  auto out = std::make_unique<ColdSession>();
  flags.emplace_back("--limits-session-bytes=16GiB");
  UOPD_ASSIGN(out->daemon, test::Daemon::Start({daemon, folder, std::move(flags)}));
  UOPD_ASSIGN(auto connection, client::Connection::Connect({.address = out->daemon->address()}));
  out->recorder = std::make_shared<Recorder>(connection);
  out->client = std::make_unique<client::Client>(out->recorder);
  UOPD_ASSIGN(out->subject, MakeSubject(subject, *out->client));
  return out;
}

absl::StatusOr<std::string> ColdSession::GraphOfRuns(const std::string& daemon,
                                                     const std::string& subject) {
  const ColdFolder folder;
  UOPD_ASSIGN(const auto session, Open(daemon, folder.path(), subject, {}));
  UOPD_TRY(session->subject->Fill());
  UOPD_ASSIGN(const std::vector<client::Tensor> step, session->subject->Step());
  UOPD_ASSIGN(const client::Exported exported, client::Export(step));
  return exported.graph;
}

absl::StatusOr<v1::PrepareResponse> ColdSession::Prepare() {
  if (graph.empty()) {
    UOPD_ASSIGN(const std::vector<client::Tensor> step, subject->Step());
    UOPD_ASSIGN(const client::Exported exported, client::Export(step));
    graph = exported.graph;
  }
  v1::PrepareRequest request;
  request.set_graph(graph);
  return recorder->connection().session().Prepare(request);
}

absl::Status ColdSession::AwaitOptimised() {
  v1::PrepareRequest request;
  request.set_graph(graph);
  for (;;) {
    UOPD_ASSIGN(const v1::PrepareResponse answer,
                recorder->connection().session().Prepare(request));
    if (answer.cache().kernels_draft() == 0) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

absl::Status ColdSession::Stop() {
  subject.reset();
  client.reset();
  recorder.reset();
  daemon->Signal(SIGTERM);
  const int status = daemon->Wait();
  return status == 0 ? absl::OkStatus() : absl::InternalError(Cat("the daemon ends with ", status));
}

ColdFolder::ColdFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "uopd-cold-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

ColdFolder::~ColdFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace uopd::perf
