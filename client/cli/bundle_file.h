// SPDX-License-Identifier: MIT
// Bundles of a cache as files: only the daemon reads what is in them, because it has the keys.
#pragma once
#include <functional>
#include <string>

#include "client/cpp/net/session.h"

namespace uopd::cli {

// Sends a bundle to the daemon, which takes what is sound, or with `dry_run` only says what it would take. `answer` gets the
// daemon's answers. NOT_FOUND: no such file. Else as Session::ImportCache, with the file's name.
absl::Status SendBundle(client::Session& session, const std::string& path, bool dry_run,
                        const std::function<void(const v1::ImportCacheResponse&)>& answer);

// Runs all imported winners that wait for it, and removes those that are wrong, which it says on standard error. `verdict`
// gets what became of each, also of those before an error.
absl::Status ProveWinners(client::Session& session,
                          const std::function<void(const v1::CacheVerdict&)>& verdict);

}  // namespace uopd::cli
