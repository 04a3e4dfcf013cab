// SPDX-License-Identifier: MIT
#include "client/cli/cache/bundle_file.h"

#include <cstdio>
#include <fstream>

#include "client/data/files.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
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
