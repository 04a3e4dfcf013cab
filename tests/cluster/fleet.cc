// SPDX-License-Identifier: MIT
#include "tests/cluster/fleet.h"

#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/cluster/caller.h"
#include "tests/cluster/series.h"

namespace uopd::cluster {

absl::StatusOr<std::unique_ptr<Fleet>> Fleet::Start(const Options& options, int daemons) {
  std::unique_ptr<Fleet> out(new Fleet);
  out->options_ = options;
  std::string pattern = (std::filesystem::temp_directory_path() / "uopd-cluster-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return absl::InternalError("no temporary folder");
  out->folder_ = pattern;
  const std::string key = Cat(out->folder_, "/key");
  std::ofstream(key) << std::string(64, 'a') << "\n";
  chmod(key.c_str(), 0600);
  UOPD_ASSIGN(out->redis_, test::RedisProcess::Start({.program = options.redis}));
  for (int i = 0; i < daemons; ++i) UOPD_TRY(out->Join());
  return out;
}

Fleet::~Fleet() {
  members_.clear();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

absl::Status Fleet::Spawn(Member& member) {
  std::vector<std::string> flags = {Cat("--cache-cluster=redis://127.0.0.1:", member.proxy->port()),
                                    Cat("--cache-cluster-sign-key=", folder_, "/key")};
  flags.insert(flags.end(), options_.flags.begin(), options_.flags.end());
  UOPD_ASSIGN(member.daemon, test::Daemon::Start({options_.uopd, member.folder, flags}));
  return absl::OkStatus();
}

absl::Status Fleet::Join() {
  Member member;
  member.folder = Cat(folder_, "/", size());
  std::filesystem::create_directories(member.folder);
  member.proxy = std::make_unique<FaultProxy>(redis_->port());
  if (member.proxy->port() == 0) return absl::InternalError("no port for a proxy");
  UOPD_TRY(Spawn(member));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

void Fleet::End(int daemon, int signal) {
  for (const char* series : kSummed) lost_[series] += Metric(daemon, series);
  Member& member = members_[static_cast<size_t>(daemon)];
  member.daemon->Signal(signal);
  member.daemon->Wait();
  member.daemon.reset();
}

void Fleet::Kill(int daemon) { End(daemon, SIGKILL); }

void Fleet::Leave() {
  End(size() - 1, SIGTERM);
  members_.pop_back();
}

absl::Status Fleet::Restart(int daemon) { return Spawn(members_[static_cast<size_t>(daemon)]); }

double Fleet::Metric(int daemon, const std::string& series) const {
  return running(daemon) ? std::max(0.0, member(daemon).daemon->Metric(series)) : 0;
}

double Fleet::Sum(const std::string& series) const {
  const auto lost = lost_.find(series);
  double sum = lost == lost_.end() ? 0 : lost->second;
  for (int i = 0; i < size(); ++i) sum += Metric(i, series);
  return sum;
}

absl::StatusOr<int64_t> Fleet::Rows(int daemon, const std::string& store) const {
  return RowsOf(member(daemon).daemon->address(), store);
}

}  // namespace uopd::cluster
