// SPDX-License-Identifier: MIT
// Who a client of an S3 server is, from a file in the form of AWS's tools:
//
//   [default]
//   aws_access_key_id = ID
//   aws_secret_access_key = SECRET
//   aws_session_token = TOKEN          only for temporary ones
//
// Errors never repeat what stands in the file.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace uopd::s3 {

struct Credentials {
  std::string id, secret;
  std::string token;  // empty: none
};

// INVALID_ARGUMENT: the text has no such profile, or a profile without an id or a secret of
// printable characters.
absl::StatusOr<Credentials> ParseCredentials(std::string_view text, std::string_view profile);
// Errors are those of ParseCredentials, with the file's name, and those of ReadSecretFile
// (core/base/secret_file.h).
absl::StatusOr<Credentials> ReadCredentials(const std::string& path, std::string_view profile);

}  // namespace uopd::s3
