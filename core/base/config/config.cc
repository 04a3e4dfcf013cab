// SPDX-License-Identifier: MIT
#include "core/base/config/config.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/config/budget.h"
#include "core/base/config/config_values.h"
#include "core/base/config/kubernetes_variable.h"
#include "core/base/status.h"

namespace uopd {
namespace {

struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view one_of;
};
constexpr Limits Any() { return {}; }
constexpr Limits Range(double min, double max) { return {min, max, {}}; }
constexpr Limits OneOf(std::string_view names) {
  Limits limits;
  limits.one_of = names;
  return limits;
}
constexpr bool kReload = true;
constexpr bool kFixed = false;

constexpr SettingSpec kSettings[] = {
#define UOPD_SETTING(area, name, type, default_text, limits, reload, help) \
  {#area "." #name, SettingType::k##type, default_text, limits.min,        \
   limits.max,      limits.one_of,        reload,       help},
#include "core/base/config/config.def"
};

// Short flags, which scripts rely on.
struct ShortFlag {
  std::string_view flag, key;
};
constexpr ShortFlag kShortFlags[] = {{"--listen", "server.listen"},
                                     {"--http-listen", "server.http_listen"},
                                     {"--data-dir", "server.data_dir"},
                                     {"--ready-file", "server.ready_file"}};

std::optional<size_t> IndexOf(std::string_view key) {
  for (size_t i = 0; i < std::size(kSettings); i++) {
    if (kSettings[i].key == key) return i;
  }
  return std::nullopt;
}

// Where a value came from, in the words of an error message.
std::string Origin(const SettingSpec& spec, ConfigSource source) {
  switch (source) {
    case ConfigSource::kDefault:
      return "its default";
    case ConfigSource::kFile:
      return "the configuration file";
    case ConfigSource::kEnvironment:
      return spec.Variable();
    case ConfigSource::kFlag:
      return spec.Flag();
  }
  UOPD_CHECK(false);
}

const char* Syntax(SettingType type) {
  switch (type) {
    case SettingType::kBool:
      return "true or false";
    case SettingType::kInt64:
      return "a whole number";
    case SettingType::kDouble:
      return "a number";
    case SettingType::kString:
      return "text";
    case SettingType::kBytes:
      return "a size such as 1048576, 16MiB or 4GB";
    case SettingType::kDuration:
      return "a duration such as 250ms, 30s or 5m";
  }
  UOPD_CHECK(false);
}

const char* TypeName(SettingType type) {
  switch (type) {
    case SettingType::kBool:
      return "bool";
    case SettingType::kInt64:
      return "int";
    case SettingType::kDouble:
      return "number";
    case SettingType::kString:
      return "text";
    case SettingType::kBytes:
      return "bytes";
    case SettingType::kDuration:
      return "duration";
  }
  UOPD_CHECK(false);
}

// A limit in the unit of the setting, in the syntax that users write.
std::string LimitText(SettingType type, double value) {
  if (type == SettingType::kDouble) return absl::StrFormat("%g", value);
  auto whole = static_cast<int64_t>(value);
  if (type == SettingType::kDuration) return absl::StrCat(whole, "ms");
  return absl::StrCat(whole);
}

std::string RangeText(const SettingSpec& spec) {
  if (!spec.one_of.empty()) {
    std::string names(spec.one_of);
    for (size_t at; (at = names.find('|')) != std::string::npos;) names.replace(at, 1, ", ");
    return names;
  }
  if (spec.max == std::numeric_limits<double>::infinity()) return "";
  return absl::StrCat(LimitText(spec.type, spec.min), " to ", LimitText(spec.type, spec.max));
}

bool IsOneOf(std::string_view names, std::string_view text) {
  while (!names.empty()) {
    size_t end = std::min(names.find('|'), names.size());
    if (names.substr(0, end) == text) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

template <class T>
bool Inside(const SettingSpec& spec, const T& value) {
  if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    return Inside(spec, value.count());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return spec.one_of.empty() || IsOneOf(spec.one_of, value);
  } else {
    return std::is_same_v<T, bool> ||
           (static_cast<double>(value) >= spec.min && static_cast<double>(value) <= spec.max);
  }
}

template <class T>
bool Parse(SettingType type, std::string_view text, T* out) {
  if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    return config::ParseDuration(text, out);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return type == SettingType::kBytes ? config::ParseBytes(text, out)
                                       : config::ParseValue(text, out);
  } else {
    return config::ParseValue(text, out);
  }
}

// A password that somebody has put into a URL must not get into messages and logs.
std::string WithoutPassword(std::string_view text) {
  const size_t scheme = text.find("://"), at = text.rfind('@');
  if (scheme == std::string_view::npos || at == std::string_view::npos || at < scheme)
    return std::string(text);
  return absl::StrCat(std::string(text.substr(0, scheme)), "://...", std::string(text.substr(at)));
}

std::string SubjectOf(const SettingSpec& spec, std::string_view text, ConfigSource source,
                      std::string_view where) {
  const std::string setting =
      absl::StrCat("setting ", std::string(spec.key), " (", WithoutPassword(text), ")");
  return where.empty() ? absl::StrCat(setting, " from ", Origin(spec, source))
                       : absl::StrCat(std::string(where), ": ", setting);
}

template <class T>
absl::Status Assign(const SettingSpec& spec, std::string_view text, ConfigSource source,
                    std::string_view where, T* out) {
  T value{};
  const std::string subject = SubjectOf(spec, text, source, where);
  if (!Parse(spec.type, text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(subject, " is not ", Syntax(spec.type)));
  }
  if (!Inside(spec, value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        subject, spec.one_of.empty() ? " is outside " : " is none of ", RangeText(spec)));
  }
  *out = std::move(value);
  return absl::OkStatus();
}

char FlagChar(char c) { return c == '.' || c == '_' ? '-' : c; }
char VariableChar(char c) {
  return c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

// True when a variable, without "UOPD_", starts with an area of the table and an underscore.
bool NamesAnArea(std::string_view variable) {
  for (const SettingSpec& spec : kSettings) {
    size_t dot = spec.key.find('.');
    if (variable.size() <= dot || variable[dot] != '_') continue;
    if (std::equal(variable.begin(), variable.begin() + dot, spec.key.begin(),
                   [](char v, char k) { return v == VariableChar(k); })) {
      return true;
    }
  }
  return false;
}

std::optional<size_t> IndexOfFlag(std::string_view flag) {
  for (const ShortFlag& brief : kShortFlags) {
    if (brief.flag == flag) return IndexOf(brief.key);
  }
  for (size_t i = 0; i < std::size(kSettings); i++) {
    if (kSettings[i].Flag() == flag) return i;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> DefaultDataDir() {
  // Relative values of XDG variables are to be ignored (XDG Base Directory Specification).
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && state[0] == '/') {
    return absl::StrCat(state, "/uopd");
  }
  if (const char* home = std::getenv("HOME"); home && home[0])
    return absl::StrCat(home, "/.local/state/uopd");
  return absl::InvalidArgumentError(
      "setting server.data_dir () has no default here: neither XDG_STATE_HOME nor HOME is set");
}

}  // namespace

const char* ConfigSourceName(ConfigSource source) {
  switch (source) {
    case ConfigSource::kDefault:
      return "default";
    case ConfigSource::kFile:
      return "file";
    case ConfigSource::kEnvironment:
      return "environment";
    case ConfigSource::kFlag:
      return "flag";
  }
  UOPD_CHECK(false);
}

std::string SettingSpec::Flag() const {
  std::string out = "--";
  for (char c : key) out += FlagChar(c);
  return out;
}

std::string SettingSpec::Variable() const {
  std::string out = "UOPD_";
  for (char c : key) out += VariableChar(c);
  return out;
}

std::span<const SettingSpec> Settings() { return kSettings; }

Config::Config()
    : texts_(std::size(kSettings)), sources_(std::size(kSettings)), wheres_(std::size(kSettings)) {
  for (size_t i = 0; i < std::size(kSettings); i++) {
    // A default outside of the limits of its own row is a mistake in config.def.
    UOPD_CHECK(SetAt(i, kSettings[i].default_text, ConfigSource::kDefault).ok());
  }
}

absl::Status Config::SetAt(size_t index, std::string_view text, ConfigSource source,
                           std::string_view where) {
  size_t row = 0;
  absl::Status status;
  // A value that a stronger source overrides is checked too, so that a broken file is always
  // reported.
  const bool wins = source >= sources_[index];
#define UOPD_SETTING(area, name, type, default_text, limits, reload, help)                       \
  if (row++ == index) {                                                                          \
    config::type ignored{};                                                                      \
    status = Assign(kSettings[index], text, source, where, wins ? &area##_##name##_ : &ignored); \
  }
#include "core/base/config/config.def"
  if (status.ok() && wins) {
    texts_[index] = text;
    sources_[index] = source;
    wheres_[index] = where;
  }
  return status;
}

absl::Status Config::Set(std::string_view key, std::string_view text, ConfigSource source,
                         std::string_view where) {
  auto index = IndexOf(key);
  if (index) return SetAt(*index, text, source, where);
  const std::string setting =
      absl::StrCat("setting ", std::string(key), " (", WithoutPassword(text), ")");
  return absl::InvalidArgumentError(
      absl::StrCat(where.empty() ? absl::StrCat(setting, " from the ", ConfigSourceName(source))
                                 : absl::StrCat(std::string(where), ": ", setting),
                   " does not exist"));
}

absl::Status Config::SetFromEnvironment(const char* const* environment, Problems* all) {
  const auto report = [&](absl::Status problem) {
    if (problem.ok() || all == nullptr) return problem;
    all->push_back(std::move(problem));
    return absl::OkStatus();
  };
  for (; *environment; environment++) {
    std::string_view entry(*environment);
    size_t equals = entry.find('=');
    if (!entry.starts_with("UOPD_") || equals == std::string_view::npos) continue;
    std::string_view name = entry.substr(0, equals);
    bool known = false;
    for (size_t i = 0; i < std::size(kSettings) && !known; i++) {
      if (kSettings[i].Variable() != name) continue;
      UOPD_TRY(report(SetAt(i, entry.substr(equals + 1), ConfigSource::kEnvironment)));
      known = true;
    }
    if (known) continue;
    if (config::IsKubernetesVariable(name, entry.substr(equals + 1))) {
      ignored_variables_.emplace_back(name);
    } else if (NamesAnArea(name.substr(5))) {
      UOPD_TRY(report(absl::InvalidArgumentError(
          absl::StrCat("environment variable ", WithoutPassword(entry), " names no setting"))));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> Config::SetFromFlags(std::span<const char* const> args, Problems* all) {
  const auto report = [&](absl::Status problem) {
    if (problem.ok() || all == nullptr) return problem;
    all->push_back(std::move(problem));
    return absl::OkStatus();
  };
  const auto is_value = [&](size_t i) { return i < args.size() && args[i][0] != '-'; };
  CommandLine line;
  for (size_t i = 0; i < args.size(); i++) {
    std::string_view arg(args[i]);
    size_t equals = arg.find('=');
    const bool has_value = equals != std::string_view::npos;
    std::string_view flag = arg.substr(0, equals);
    std::string_view value = has_value ? arg.substr(equals + 1) : std::string_view();

    if (arg == "--help" || arg == "-h") {
      line.help = true;
      continue;
    }
    if (arg == "--version") {
      line.version = true;
      continue;
    }
    if (arg == "--print-config-docs") {
      line.print_config_docs = true;
      continue;
    }
    if (arg == "--check-config") {
      line.check_config = true;
      continue;
    }
    const bool is_config = flag == "--config", is_replay = flag == "--replay";
    const bool is_file = is_config || is_replay;
    auto index = is_file ? std::nullopt : IndexOfFlag(flag);
    if (!is_file && !index) {
      UOPD_TRY(report(absl::InvalidArgumentError(
          absl::StrCat("argument ", std::string(arg), " is unknown; --help lists all"))));
      if (arg.starts_with("--") && !has_value && is_value(i + 1)) ++i;  // its value, most likely
      continue;
    }
    if (!has_value) {
      if (index && kSettings[*index].type == SettingType::kBool) {
        // There are no words but flags and their values.
        value = is_value(i + 1) ? args[++i] : "true";
      } else if (i + 1 < args.size()) {
        value = args[++i];
      } else {
        UOPD_TRY(report(absl::InvalidArgumentError(
            absl::StrCat("argument ", std::string(arg), " has no value"))));
        continue;
      }
    }
    if (is_file) {
      (is_config ? line.config_file : line.replay_file) = value;
    } else {
      UOPD_TRY(report(SetAt(*index, value, ConfigSource::kFlag)));
    }
  }
  if (const char* file = std::getenv("UOPD_CONFIG"); file && line.config_file.empty())
    line.config_file = file;
  return line;
}

absl::Status Config::ResolveDefaults() {
  if (server_data_dir_.empty()) {
    UOPD_ASSIGN(server_data_dir_, DefaultDataDir());
  }
  // Read again at every reload: the limits of a service may change while it runs.
  const ProcessLimits limits = ProcessLimits::Read(ControlGroups::Find());
  if (cache_level_ == 0 && source("cache.max_bytes") == ConfigSource::kDefault)
    cache_max_bytes_ = std::min(cache_max_bytes_, limits.memory_bytes() / 16);
  const MemoryBudget budget = BudgetOf(*this, limits);
  if (limits_total_bytes_ == 0) limits_total_bytes_ = budget.clients_bytes;
  compile_threads_ = budget.compile_threads;
  tune_workers_ = budget.tune_workers;
  // Values() shows the resolved values. Their source stays "default".
  texts_[*IndexOf("server.data_dir")] = server_data_dir_;
  const std::pair<const char*, int64_t> numbers[] = {{"limits.total_bytes", limits_total_bytes_},
                                                     {"cache.max_bytes", cache_max_bytes_},
                                                     {"compile.threads", compile_threads_},
                                                     {"tune.workers", tune_workers_}};
  for (const auto& [key, value] : numbers) {
    if (source(key) == ConfigSource::kDefault) texts_[*IndexOf(key)] = absl::StrCat(value);
  }
  return absl::OkStatus();
}

std::vector<Config::Value> Config::Values() const {
  std::vector<Value> out;
  out.reserve(std::size(kSettings));
  for (size_t i = 0; i < std::size(kSettings); i++)
    out.push_back({kSettings[i].key, texts_[i], sources_[i]});
  return out;
}

ConfigSource Config::source(std::string_view key) const {
  auto index = IndexOf(key);
  UOPD_CHECK(index.has_value());
  return sources_[*index];
}

std::string Config::Subject(std::string_view key) const {
  auto index = IndexOf(key);
  UOPD_CHECK(index.has_value());
  return SubjectOf(kSettings[*index], texts_[*index], sources_[*index], wheres_[*index]);
}

absl::Status Config::About(std::string_view key, const absl::Status& status) const {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(Subject(key), ": ", StatusText(status))};
}

std::vector<std::string> Config::FixedChanges(const Config& running) const {
  std::vector<std::string> out;
#define UOPD_SETTING(area, name, type, default_text, limits, reload, help) \
  if (!(reload) && area##_##name() != running.area##_##name()) {           \
    out.push_back(#area "." #name);                                        \
  }
#include "core/base/config/config.def"
  return out;
}

std::string ConfigHelp() {
  std::string out =
      "uopd compiles and runs tensor graphs for remote clients.\n\n"
      "usage: uopd [--config FILE] [--SETTING VALUE | --SETTING=VALUE]...\n\n"
      "  --config FILE          settings in TOML; also UOPD_CONFIG\n"
      "  --check-config         check the settings, the files and the folders that they name, say "
      "every problem, and exit\n"
      "                         with status 0 (all is right) or 2\n"
      "  --replay FILE          compile a reproducer once more and exit: see uopctl replay\n"
      "  --help, --version      print and exit\n"
      "  --print-config-docs    print the settings as a Markdown table and exit\n\n"
      "Each setting is also a variable (--log-level: UOPD_LOG_LEVEL) and a key of the file ([log] "
      "level).\n"
      "A flag wins over a variable, a variable over the file, the file over the default. A flag of "
      "a bool alone\n"
      "means true.\n\n";
  for (const SettingSpec& spec : kSettings) {
    std::string flag = spec.Flag();
    for (const ShortFlag& brief : kShortFlags) {
      if (brief.key == spec.key) absl::StrAppend(&flag, ", ", std::string(brief.flag));
    }
    absl::StrAppend(&out, "  ", flag, " <", TypeName(spec.type), ">\n      ",
                    std::string(spec.help));
    if (!spec.default_text.empty())
      absl::StrAppend(&out, " [default ", std::string(spec.default_text), "]");
    if (std::string range = RangeText(spec); !range.empty())
      absl::StrAppend(&out, " [", range, "]");
    absl::StrAppend(&out, "\n");
  }
  return out;
}

std::string ConfigDocs() {
  std::string out =
      "| key | type | default | allowed | reload | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const SettingSpec& spec : kSettings) {
    std::string default_text =
        spec.default_text.empty() ? "" : absl::StrCat("`", std::string(spec.default_text), "`");
    absl::StrAppend(&out, "| `", std::string(spec.key), "` | ", TypeName(spec.type), " | ",
                    default_text, " | ", RangeText(spec), " | ", spec.reloadable ? "yes" : "no",
                    " | ", std::string(spec.help), " |\n");
  }
  return out;
}

}  // namespace uopd
