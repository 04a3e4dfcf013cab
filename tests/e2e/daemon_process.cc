// SPDX-License-Identifier: MIT
#include "tests/e2e/daemon_process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/digest.h"
#include "core/base/text.h"

namespace uopd::e2e {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "uopd-e2e-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  if (!::testing::Test::HasFailure()) std::filesystem::remove_all(path_, error);
}

DaemonProcess::DaemonProcess(const std::filesystem::path& folder, std::vector<std::string> flags)
    : DaemonProcess(test::DaemonOptions{UOPD_BINARY, folder.string(), std::move(flags)}) {}

DaemonProcess::DaemonProcess(const test::DaemonOptions& options) {
  auto daemon = test::Daemon::Start(options);
  if (!daemon.ok()) {
    ADD_FAILURE() << StatusText(daemon.status());
    return;
  }
  daemon_ = *std::move(daemon);
  listen_ = daemon_->address();
  http_ = daemon_->http_address();
}

std::string WriteTokenFile(const std::filesystem::path& folder,
                           std::initializer_list<std::string_view> tenants) {
  const std::string path = (folder / "tokens").string();
  std::ofstream out(path);
  for (std::string_view name : tenants)
    out << name << " " << HashBytes(Cat(name, "'s")).Hex() << "\n";
  return path;
}

}  // namespace uopd::e2e
