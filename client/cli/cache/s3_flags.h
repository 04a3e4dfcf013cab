// SPDX-License-Identifier: MIT
// Bundles in a store of the S3 protocol, for the commands that take the name of a bundle: s3://BUCKET/KEY instead of a file. uopctl
// speaks to the store, not the daemon: the daemon needs no credentials for it and connects to no address that a client names.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/s3/s3_client.h"

namespace CLI {
class App;
}

namespace uopd::cli {

struct S3Flags {
  std::string endpoint, credentials, ca_file;
  std::string region = "us-east-1", profile = "default";
  double timeout_s = 600;
};
// --s3-endpoint and so on; the environment has UOPD_S3_ENDPOINT, UOPD_S3_REGION and UOPD_S3_CREDENTIALS.
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

}  // namespace uopd::cli
