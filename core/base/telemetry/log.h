// SPDX-License-Identifier: MIT
// Structured log lines (logfmt):
//
//   ts=2026-01-31T12:00:00.123Z level=info msg="session opened" req=7f3a ttl_ms=300000
//
//   UOPD_LOG(kInfo, "session opened", {"id", id});  // fields are not evaluated when it is off
//
// Thread-safe. Lines go to stderr until OpenLogFile succeeds. Logging never fails and never waits
// for a reader: a line that cannot be written at once is lost, counted and reported (log_sink.h).
#pragma once
#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace uopd {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

// "debug", "info", "warn", "error", "off"; anything else is INVALID_ARGUMENT.
absl::Status SetLogLevel(std::string_view name);
void SetLogLevel(LogLevel level);

namespace log_internal {
inline std::atomic<LogLevel> level{LogLevel::kInfo};
}
inline bool LogEnabled(LogLevel level) {
  return level >= log_internal::level.load(std::memory_order_relaxed);
}

// Appends to `path` from now on; an empty path means stderr. A file that is not there is made with
// `mode`. On failure the destination stays as it was.
absl::Status OpenLogFile(const std::string& path, unsigned mode = 0600);
// Opens the same path again. Called on SIGHUP, after the file has been rotated.
absl::Status ReopenLogFile();

// One key=value. Keys are [a-z_]+; values are quoted where needed. A field whose value is empty is
// left out.
struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const absl::Status& v) : key(k), value(v.ToString()) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, double v);
};

void WriteLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);

// A value that a client chose, cut to kClientTextBytes. A value that was cut ends with its full
// size.
inline constexpr size_t kClientTextBytes = 200;
std::string ClientText(std::string_view value);

// Reports a broken invariant that is no memory error: counts it in uopd_bugs_total{site}, logs it
// once per site and returns INTERNAL for this request. Aborts in builds with asserts, so that tests
// do not miss it.
absl::Status ReportBug(const char* file, int line, const std::string& message);

}  // namespace uopd

#define UOPD_LOG(level, message, ...)                                    \
  do {                                                                   \
    if (::uopd::LogEnabled(::uopd::LogLevel::level))                     \
      ::uopd::WriteLog(::uopd::LogLevel::level, message, {__VA_ARGS__}); \
  } while (0)

// return UOPD_BUG("slot table lost buffer 7");
#define UOPD_BUG(message) ::uopd::ReportBug(__FILE__, __LINE__, message)
