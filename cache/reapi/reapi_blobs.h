// SPDX-License-Identifier: MIT
// Blobs of a cache of the Remote Execution API: small ones in one message, large ones as a stream.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/reapi/reapi_channel.h"

namespace uopd::cache {

// The name of the bytes.
reapi::Digest DigestOf(std::string_view bytes);

// The bytes that the server has under the name, which need not be those of the digest: callers check what they say. Never more than
// channel.max_record_bytes(). NOT_FOUND, or an error of ReapiChannel::Run.
absl::StatusOr<std::string> ReadBlob(ReapiChannel& channel, const reapi::Digest& digest,
                                     Deadline deadline);
// Errors of ReapiChannel::Run.
absl::Status WriteBlob(ReapiChannel& channel, const reapi::Digest& digest, std::string_view bytes,
                       Deadline deadline);

}  // namespace uopd::cache
