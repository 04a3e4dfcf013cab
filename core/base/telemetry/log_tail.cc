// SPDX-License-Identifier: MIT
#include "core/base/telemetry/log_tail.h"

#include <algorithm>
#include <array>
#include <utility>

namespace uopd {
namespace {

// Fields whose values the daemon makes: states, its own files and addresses, counts, names of
// kernels and devices. Request ids, titles, constants and sizes of graphs and the texts of errors
// are not among them.
constexpr auto kOwn = std::to_array<std::string_view>(
    {"all_finished", "allowed", "attempt",  "buffers", "bytes",   "code",        "data_dir",
     "device",       "dropped", "ended",    "ending",  "entries", "exit_status", "failed",
     "file",         "http",    "job",      "kernel",  "kernels", "key",         "level",
     "lines",        "listen",  "measured", "method",  "part",    "passing",     "path",
     "peer",         "pid",     "pool",     "puts",    "reason",  "reproducer",  "seconds",
     "server",       "signal",  "site",     "state",   "tenant",  "took_s",      "to_tune",
     "trusted_keys", "us",      "version",  "what"});
constexpr std::array<std::string_view, 3> kErrors = {"error", "status", "why"};

}  // namespace

LogTail& LogTail::Global() {
  static LogTail& tail = *new LogTail;  // never destroyed: threads may log while the process exits
  return tail;
}

void LogTail::Add(std::string_view line) {
  std::string kept(line.substr(0, kMostLine));
  const MutexLock lock(mu_);
  bytes_ += kept.size();
  lines_.push_back(std::move(kept));
  while (lines_.size() > kMostLines || bytes_ > kMostBytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

std::vector<std::string> LogTail::Latest(size_t most) const {
  const MutexLock lock(mu_);
  const size_t n = std::min(most, lines_.size());
  return {lines_.end() - static_cast<std::ptrdiff_t>(n), lines_.end()};
}

std::string_view TailValue(std::string_view key, std::string_view value) {
  if (std::ranges::find(kOwn, key) != kOwn.end()) return value;
  if (std::ranges::find(kErrors, key) == kErrors.end()) return {};
  const size_t code =
      std::min(value.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), value.size());
  return code < value.size() && value[code] != ':' ? std::string_view() : value.substr(0, code);
}

}  // namespace uopd
