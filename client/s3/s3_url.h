// SPDX-License-Identifier: MIT
// Names of objects in a store of the S3 protocol.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace uopd::s3 {

struct ObjectName {
  std::string bucket, key;
  bool operator==(const ObjectName&) const = default;
};

// Whether the text begins with s3://.
bool IsS3Url(std::string_view text);
// "s3://BUCKET/KEY". INVALID_ARGUMENT: the bucket is not the name of one (3 to 63 of a-z, 0-9, '-'
// and '.'), or the key is empty, longer than 1024 bytes, or has control characters or the parts "."
// or "..", which servers on the way would take for folders.
absl::StatusOr<ObjectName> ParseS3Url(std::string_view text);
std::string TextOf(const ObjectName& name);

// Where the object is: "https://BUCKET.s3.REGION.amazonaws.com/KEY", or "ENDPOINT/BUCKET/KEY" with
// an endpoint as CheckEndpoint wants it. The key has its special characters as %XX.
std::string HttpUrlOf(const ObjectName& name, std::string_view endpoint, std::string_view region);
// INVALID_ARGUMENT: neither empty nor "http[s]://HOST[:PORT]", perhaps with a slash behind it.
absl::Status CheckEndpoint(std::string_view endpoint);

}  // namespace uopd::s3
