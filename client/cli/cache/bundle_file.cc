// SPDX-License-Identifier: MIT
#include "client/cli/cache/bundle_file.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "client/cli/checks.h"
#include "client/data/files.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {

void AddS3Flags(CLI::App& command, S3Flags& flags) {
  command
      .add_option("--s3-endpoint", flags.endpoint,
                  "for s3://BUCKET/KEY: http[s]://HOST[:PORT] of the server; absent: AWS")
      ->envname("UOPD_S3_ENDPOINT");
  command.add_option("--s3-region", flags.region, "the server's region")
      ->envname("UOPD_S3_REGION")
      ->capture_default_str();
  command
      .add_option("--s3-credentials", flags.credentials,
                  "file of the credentials, as AWS's tools have it; absent: ~/.aws/credentials")
      ->envname("UOPD_S3_CREDENTIALS");
  command.add_option("--s3-profile", flags.profile, "the part of that file")->capture_default_str();
  command.add_option("--s3-ca-file", flags.ca_file,
                     "certificates (PEM) that may sign the server's; absent: those of the machine");
  command.add_option("--s3-timeout", flags.timeout_s, "seconds for a whole object, with all tries")
      ->capture_default_str()
      ->check(NumberIn(1, 1e6, false));
}

absl::StatusOr<s3::S3Client> OpenS3(const S3Flags& flags) {
  UOPD_TRY(s3::CheckEndpoint(flags.endpoint));
  std::string file = flags.credentials;
  if (const char* home = std::getenv("HOME"); file.empty() && home != nullptr)
    file = Cat(home, "/.aws/credentials");
  auto credentials = s3::ReadCredentials(file, flags.profile);
  if (!credentials.ok())
    return WithFrame(credentials.status(), "reading --s3-credentials (UOPD_S3_CREDENTIALS)");
  return s3::S3Client(
      {.credentials = *std::move(credentials),
       .endpoint = flags.endpoint,
       .region = flags.region,
       .ca_file = flags.ca_file,
       .timeout = std::chrono::milliseconds(static_cast<int64_t>(flags.timeout_s * 1000))});
}

absl::StatusOr<std::unique_ptr<TemporaryFile>> TemporaryFile::Make() {
  std::error_code error;
  const auto base = std::filesystem::temp_directory_path(error);
  std::string folder = (error ? "/tmp" : base.string()) + "/uopctl-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    return absl::ErrnoToStatus(
        errno, Cat("no folder can be made in ", folder.substr(0, folder.rfind('/'))));
  return std::unique_ptr<TemporaryFile>(new TemporaryFile(std::move(folder)));
}

TemporaryFile::~TemporaryFile() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

namespace {

// A chunk completes at most some thousands of records, so an answer fits in a message.
constexpr size_t kChunk = 256 << 10;

}  // namespace

absl::Status SendBundle(client::Session& session, const std::string& bundle, const S3Flags& s3,
                        bool dry_run,
                        const std::function<void(const v1::ImportCacheResponse&)>& answer) {
  std::string path = bundle;
  std::unique_ptr<TemporaryFile> copy;
  if (s3::IsS3Url(bundle)) {
    UOPD_ASSIGN(const s3::ObjectName name, s3::ParseS3Url(bundle));
    UOPD_ASSIGN(s3::S3Client client, OpenS3(s3));
    UOPD_ASSIGN(copy, TemporaryFile::Make());
    path = copy->path();
    UOPD_TRY(client.Get(name, path));
  }
  UOPD_ASSIGN(std::ifstream file, client::OpenInput(path));
  const absl::Status status = session.ImportCache(
      dry_run,
      [&]() -> absl::StatusOr<std::string> {
        std::string bytes(kChunk, '\0');
        file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        if (file.bad()) return absl::UnknownError("the file cannot be read");
        bytes.resize(static_cast<size_t>(file.gcount()));
        return bytes;
      },
      answer);
  return status.ok() ? status : WithFrame(status, Cat("reading ", bundle));
}

absl::Status ProveWinners(client::Session& session,
                          const std::function<void(const v1::CacheVerdict&)>& verdict) {
  v1::VerifyCacheRequest request;
  request.mutable_filter()->set_store("unproven");
  request.set_run(true);
  request.set_remove(true);
  do {
    UOPD_ASSIGN(const v1::VerifyCacheResponse page, session.VerifyCache(request));
    for (const v1::CacheVerdict& one : page.verdicts()) {
      if (one.outcome() == "wrong_winner") {
        std::fprintf(stderr, "%.12s wrong_winner: %s\n", one.key().c_str(), one.detail().c_str());
      }
      verdict(one);
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

}  // namespace uopd::cli
