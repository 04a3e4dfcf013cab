// SPDX-License-Identifier: MIT
// Bundles of a cache as files: only the daemon reads what is in them, because it has the keys.
#pragma once
#include <functional>
#include <string>

#include "client/cli/cache/s3_flags.h"
#include "client/cpp/net/session.h"

namespace uopd::cli {

// Sends a bundle, which is a file or s3://BUCKET/KEY, to the daemon, which takes what is sound, or with `dry_run` only says what it
// would take. An object is fetched whole before its first byte is sent. `answer` gets the daemon's answers. NOT_FOUND: no such file
// or object; else errors of S3Client, and as Session::ImportCache, with the bundle's name.
absl::Status SendBundle(client::Session& session, const std::string& bundle, const S3Flags& s3,
                        bool dry_run,
                        const std::function<void(const v1::ImportCacheResponse&)>& answer);

// Runs all imported winners that wait for it, and removes those that are wrong, which it says on standard error. `verdict`
// gets what became of each, also of those before an error.
absl::Status ProveWinners(client::Session& session,
                          const std::function<void(const v1::CacheVerdict&)>& verdict);

}  // namespace uopd::cli
