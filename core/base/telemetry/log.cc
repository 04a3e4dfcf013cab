// SPDX-License-Identifier: MIT
#include "core/base/telemetry/log.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/telemetry/log_sink.h"
#include "core/base/telemetry/log_tail.h"
#include "core/base/telemetry/metrics.h"

namespace uopd {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error", "off"};

// Never destroyed, since threads may log while the process exits.
LogSink& TheSink() {
  static LogSink& sink = *new LogSink;
  return sink;
}

// Length in bytes of the character that `text` starts with. 0 if it is not valid UTF-8, or is a
// control character beyond ASCII (U+0080 to U+009F).
size_t CharacterBytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = at(0) < 0x80   ? 1
                      : at(0) < 0xc2 ? 0
                      : at(0) < 0xe0 ? 2
                      : at(0) < 0xf0 ? 3
                      : at(0) < 0xf5 ? 4
                                     : 0;
  if (size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return size == 2 && at(0) == 0xc2 && at(1) < 0xa0 ? 0 : size;
}

// Appends `value` as it is if that is unambiguous, otherwise quoted. Control characters and invalid
// UTF-8 never reach the file.
void AppendValue(std::string* out, std::string_view value) {
  bool plain = !value.empty();
  for (char c : value) {
    plain = plain && (c > ' ' || static_cast<unsigned char>(c) >= 0x80) && c != '"' && c != '=' &&
            c != '\\' && c != 0x7f;
  }
  for (size_t i = 0, n; plain && i < value.size(); i += n) {
    n = CharacterBytes(value.substr(i));
    plain = n > 0;
  }
  if (plain) {
    out->append(value);
    return;
  }
  out->push_back('"');
  for (size_t i = 0, n; i < value.size(); i += n) {
    const char c = value[i];
    const auto byte = static_cast<unsigned char>(c);
    n = std::max<size_t>(CharacterBytes(value.substr(i)), 1);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (byte < ' ' || byte == 0x7f || CharacterBytes(value.substr(i)) == 0) {
      absl::StrAppendFormat(out, "\\x%02x", byte);
    } else {
      out->append(value.substr(i, n));
    }
  }
  out->push_back('"');
}

void AppendField(std::string* out, std::string_view key, std::string_view value) {
  out->push_back(' ');
  out->append(key);
  out->push_back('=');
  AppendValue(out, value);
}

std::string Timestamp() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  time_t seconds = ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                         parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                         static_cast<int>(ms % 1000));
}

std::string Begin(LogLevel level, std::string_view message) {
  std::string line = absl::StrCat("ts=", Timestamp());
  AppendField(&line, "level", kLevelNames[static_cast<size_t>(level)]);
  AppendField(&line, "msg", message);
  return line;
}

std::string LostNotice(uint64_t lost) {
  std::string line = Begin(LogLevel::kWarn, "log lines were lost");
  AppendField(&line, "lines", std::to_string(lost));
  line.push_back('\n');
  return line;
}

}  // namespace

LogField::LogField(std::string_view k, double v) : key(k), value(absl::StrFormat("%.6g", v)) {}

std::string ClientText(std::string_view value) {
  if (value.size() <= kClientTextBytes) return std::string(value);
  size_t end = kClientTextBytes;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(std::string(value.substr(0, end)), "... (", value.size(), " bytes)");
}

void SetLogLevel(LogLevel level) { log_internal::level.store(level, std::memory_order_relaxed); }

absl::Status SetLogLevel(std::string_view name) {
  for (size_t i = 0; i < std::size(kLevelNames); i++) {
    if (name != kLevelNames[i]) continue;
    SetLogLevel(static_cast<LogLevel>(i));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level (", std::string(name), ") does not exist"));
}

absl::Status OpenLogFile(const std::string& path, unsigned mode) {
  return TheSink().Open(path, mode);
}

absl::Status ReopenLogFile() { return TheSink().Reopen(); }

void WriteLog(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = Begin(level, message);
  std::string tail = line;
  for (const LogField& field : fields) {
    if (!field.value.empty()) AppendField(&line, field.key, field.value);
    const std::string_view shown = TailValue(field.key, field.value);
    if (!shown.empty()) AppendField(&tail, field.key, shown);
  }
  LogTail::Global().Add(tail);
  line.push_back('\n');
  if (!TheSink().Write(line, LostNotice)) metrics::LogLinesLost().Increment();
}

absl::Status ReportBug(const char* file, int line, const std::string& message) {
  std::string site = absl::StrCat(file, ":", line);
  // A site begins with a folder below the root of the sources, so that it does not depend on where
  // the sources lie.
  for (const char* folder : {"/core/", "/devices/", "/cache/", "/server/", "/client/"}) {
    if (size_t at = site.rfind(folder); at != std::string::npos) {
      site = site.substr(at + 1);
      break;
    }
  }
  metrics::Bugs({site}).Increment();
  static Mutex& mu = *new Mutex;
  static std::set<std::string>& seen = *new std::set<std::string>;
  bool first;
  {
    MutexLock lock(mu);
    first = seen.insert(site).second;
  }
  if (first) UOPD_LOG(kError, "bug", {"site", site}, {"what", message});
#ifndef NDEBUG
  CheckFailed(file, line, message.c_str());
#else
  return absl::InternalError(absl::StrCat(message, " (bug at ", site, ")"));
#endif
}

}  // namespace uopd
