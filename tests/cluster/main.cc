// SPDX-License-Identifier: MIT
// uopd_cluster_show: what a cluster of daemons promises, seen from outside (docs/cluster.md, "The
// show").
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "absl/strings/str_split.h"
#include "tests/cluster/faults.h"
#include "tests/cluster/show.h"

namespace {

constexpr char kUsage[] =
    "usage: uopd_cluster_show [--daemons N] [--clients N] [--kernels N] [--faults NAME,...|none] "
    "[--rounds N]\n"
    "                         [--no-resnet] [--no-times] [--redis PROGRAM] [--uopd PATH]\n"
    "       uopd_cluster_show list\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace uopd::cluster;
  ShowOptions options;
  options.uopd = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "uopd").string();
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool has_value = i + 1 < argc;
    if (arg == "list") {
      for (const NamedFault& fault : Faults())
        std::printf("%-10s %s\n", fault.name.c_str(), fault.doc.c_str());
      return 0;
    }
    if (arg == "--no-resnet") {
      options.resnet = false;
    } else if (arg == "--no-times") {
      options.times = false;
    } else if (arg == "--daemons" && has_value) {
      options.daemons = std::atoi(argv[++i]);
    } else if (arg == "--clients" && has_value) {
      options.clients = std::atoi(argv[++i]);
    } else if (arg == "--kernels" && has_value) {
      options.kernels = std::atoi(argv[++i]);
    } else if (arg == "--rounds" && has_value) {
      options.rounds = std::atoi(argv[++i]);
    } else if (arg == "--faults" && has_value) {
      options.faults = absl::StrSplit(argv[++i], ',');
    } else if (arg == "--redis" && has_value) {
      options.redis = argv[++i];
    } else if (arg == "--uopd" && has_value) {
      options.uopd = argv[++i];
    } else {
      return std::fputs(kUsage, stderr), 2;
    }
  }
  Table table;
  const absl::Status status = RunShow(options, table);
  std::printf("\n%s", table.Text().c_str());
  if (!status.ok()) std::printf("The show ended early: %s\n", uopd::StatusText(status).c_str());
  return status.ok() && table.holds() ? 0 : 1;
}
