// SPDX-License-Identifier: MIT
// Bundles of a cache as files: only the daemon reads what is in them, because it has the keys.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/net/session.h"
#include "client/s3/s3_client.h"

namespace CLI {
class App;
}

namespace uopd::cli {

// Bundles in a store of the S3 protocol, for the commands that take the name of a bundle:
// s3://BUCKET/KEY instead of a file. uopctl speaks to the store, not the daemon: the daemon needs
// no credentials for it and connects to no address that a client names.
struct S3Flags {
  std::string endpoint, credentials, ca_file;
  std::string region = "us-east-1", profile = "default";
  double timeout_s = 600;
};
// --s3-endpoint and so on; the environment has UOPD_S3_ENDPOINT, UOPD_S3_REGION and
// UOPD_S3_CREDENTIALS.
void AddS3Flags(CLI::App& command, S3Flags& flags);
// Errors are those of ReadCredentials and CheckEndpoint.
absl::StatusOr<s3::S3Client> OpenS3(const S3Flags& flags);

// A file in a folder of its own, which is removed at the end. Only this user can read it.
class TemporaryFile {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFile>> Make();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return folder_ + "/bundle"; }

 private:
  explicit TemporaryFile(std::string folder) : folder_(std::move(folder)) {}
  const std::string folder_;
};

// Sends a bundle, which is a file or s3://BUCKET/KEY, to the daemon, which takes what is sound, or
// with `dry_run` only says what it would take. An object is fetched whole before its first byte is
// sent. `answer` gets the daemon's answers. NOT_FOUND: no such file or object; else errors of
// S3Client, and as Session::ImportCache, with the bundle's name.
absl::Status SendBundle(client::Session& session, const std::string& bundle, const S3Flags& s3,
                        bool dry_run,
                        const std::function<void(const v1::ImportCacheResponse&)>& answer);

// Runs all imported winners that wait for it, and removes those that are wrong, which it says on
// standard error. `verdict` gets what became of each, also of those before an error.
absl::Status ProveWinners(client::Session& session,
                          const std::function<void(const v1::CacheVerdict&)>& verdict);

}  // namespace uopd::cli
