// SPDX-License-Identifier: MIT
// The shared tier of a daemon, as its settings describe it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cache/cluster/cluster.h"
#include "core/base/config/config.h"
#include "server/engine/operate/cache_transfer.h"

namespace uopd {

// The keys that sign and that are trusted, of the cluster and of bundles. Both may be missing. An
// error names the setting.
absl::StatusOr<engine::BundleKeys> ReadSealKeys(const Config& config);

// What is wrong with the settings of the cluster and of bundles, without asking a server.
Config::Problems CheckCluster(const Config& config);

// Null if the settings name no cluster. An error names the setting that is wrong: a URL, or a file
// that cannot be used. A server that does not answer is no error: the daemon goes on alone until it
// does.
absl::StatusOr<std::unique_ptr<cache::Cluster>> OpenCluster(const Config& config);

}  // namespace uopd
