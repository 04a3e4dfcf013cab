// SPDX-License-Identifier: MIT
// SharedCacheFixture: daemons with data folders of their own that share a server of the cluster's
// cache. Tests derive from it and start that server.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/client.h"
#include "tests/support/eventually.h"

namespace uopd::e2e {

class SharedCacheFixture : public ::testing::Test {
 protected:
  // A key that signs is in File("key").
  SharedCacheFixture() { Write("key", std::string(64, 'a') + "\n"); }

  std::string File(const std::string& name) const { return (folder_.path() / name).string(); }
  // A file that only the daemon's user may read.
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
    chmod(File(name).c_str(), 0600);
  }
  // The flags of a daemon that uses the server at `url`.
  std::vector<std::string> FlagsFor(const std::string& url, const std::string& key) const {
    return {"--cache-cluster=" + url, "--cache-cluster-sign-key=" + File(key),
            // This machine is slower than its servers when tests run side by side.
            "--cache-cluster-budget-ms=2s",
            "--compile-fast-tier=false",  // each kernel is compiled once
            "--compile-warm-up=false"};
  }
  // `more` follow `flags`: the last one of a setting holds. `name`: of the daemon's data folder.
  std::unique_ptr<DaemonProcess> StartWith(const std::string& name, std::vector<std::string> flags,
                                           const std::vector<std::string>& more) const {
    flags.insert(flags.end(), more.begin(), more.end());
    std::filesystem::create_directories(folder_.path() / name);
    return std::make_unique<DaemonProcess>(folder_.path() / name, flags);
  }

  // The value of a series; 0: the daemon does not have it yet.
  static double Count(const DaemonProcess& daemon, const std::string& series) {
    return std::max(0.0, daemon.Metric(series));
  }
  static double Compiled(const DaemonProcess& daemon) {
    return Count(daemon, "uopd_kernels_compiled_total");
  }
  // Returns where the kernels were found.
  static v1::CacheOutcome Prepare(const DaemonProcess& daemon, const std::string& graph) {
    Client client(daemon);
    EXPECT_TRUE(client.OpenSession().ok());
    grpc::Status status;
    const v1::PrepareResponse response = client.Prepare(graph, &status);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.cache();
  }
  // Waits until the server has everything that the daemon puts.
  static bool AwaitSent(const DaemonProcess& daemon) {
    return test::Eventually([&] { return daemon.Metric("uopd_cluster_queue_bytes") == 0; });
  }

  TemporaryFolder folder_;
};

}  // namespace uopd::e2e
