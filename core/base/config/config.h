// SPDX-License-Identifier: MIT
// The daemon's settings: typed values, declared in config.def, each with its source.
//
// Sources, weakest first: default < file < environment < flag. Set() may be called in any order; a
// weaker source never replaces a stronger one. A Config is a plain value: copy it to share it
// between threads. This file parses no file format: whoever reads the file calls Set(key, text,
// ConfigSource::kFile) for each pair.
//
// Everything that can fail returns INVALID_ARGUMENT with the key and the value in its message.
#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace uopd {

enum class ConfigSource : uint8_t { kDefault, kFile, kEnvironment, kFlag };
enum class SettingType : uint8_t { kBool, kInt64, kDouble, kString, kBytes, kDuration };

const char* ConfigSourceName(ConfigSource source);

namespace config {
// What a getter returns, by the type column of config.def.
using Bool = bool;
using Int64 = int64_t;
using Double = double;
using String = std::string;
using Bytes = int64_t;
using Duration = std::chrono::milliseconds;
}  // namespace config

// One line of config.def.
struct SettingSpec {
  std::string_view key;  // "limits.max_message_bytes"
  SettingType type;
  std::string_view default_text;
  double min, max;          // numbers only; in bytes and milliseconds for those types
  std::string_view one_of;  // strings only: "a|b|c", empty when anything goes
  bool reloadable;
  std::string_view help;

  std::string Flag() const;      // "--limits-max-message-bytes"
  std::string Variable() const;  // "UOPD_LIMITS_MAX_MESSAGE_BYTES"
};

std::span<const SettingSpec> Settings();

// What the command line contains besides settings.
struct CommandLine {
  bool help = false;
  bool version = false;
  bool print_config_docs = false;
  bool check_config = false;
  std::string replay_file;  // --replay: a reproducer to compile once more, instead of serving
  std::string config_file;  // --config, else the variable UOPD_CONFIG, else empty
};

class Config {
 public:
  using Problems = std::vector<absl::Status>;
  struct Value {
    std::string_view key;
    std::string text;
    ConfigSource source;
  };

  Config();  // every setting at its default

  // The typed getters: config.limits_max_graph_nodes(), config.session_ttl_ms(), ...
#define UOPD_SETTING(area, name, type, default_text, limits, reload, help) \
  const config::type& area##_##name() const { return area##_##name##_; }
#include "core/base/config/config.def"

  // `where` is the place of the text in a file, "uopd.toml:12", for messages.
  absl::Status Set(std::string_view key, std::string_view text, ConfigSource source,
                   std::string_view where = {});

  // Errors of the next two functions: the first one. With `all` they are added there, every one of
  // them, and what is returned is OK.

  // Takes every UOPD_AREA_NAME out of `environment` ("NAME=value", null-terminated as environ). A
  // variable that starts with a known area but names no setting is an error, since it is most
  // likely a misspelling; but those that Kubernetes makes for a service are ignored.
  absl::Status SetFromEnvironment(const char* const* environment, Problems* all = nullptr);

  // Takes --area-name=value, --area-name value, --bool-setting, and the short spellings --listen,
  // --http-listen, --data-dir, --ready-file, --config. `args` excludes the program's name. The word
  // behind a flag of a bool is its value, unless it begins with "-".
  absl::StatusOr<CommandLine> SetFromFlags(std::span<const char* const> args,
                                           Problems* all = nullptr);

  // Replaces the defaults that depend on the machine and the process's limits (server.data_dir,
  // limits.total_bytes, compile.threads, tune.workers, and cache.max_bytes of a cache in memory) by
  // their values. Call it after all sources have been read; fails when no home folder is known.
  absl::Status ResolveDefaults();

  // Every setting with its text and source, in table order.
  std::vector<Value> Values() const;
  ConfigSource source(std::string_view key) const;  // REQUIRES: a known key
  // The setting with its text and where that comes from, as messages begin: "uopd.toml:12: setting
  // log.level (loud)", "setting log.level (loud) from --log-level". REQUIRES: a known key.
  std::string Subject(std::string_view key) const;
  // OK, or an error of the same code whose text begins so.
  absl::Status About(std::string_view key, const absl::Status& status) const;
  // The names of the variables that SetFromEnvironment has ignored.
  const std::vector<std::string>& ignored_variables() const { return ignored_variables_; }

  // Keys that are not reloadable and whose values differ from those of `running`: a SIGHUP cannot
  // apply them.
  std::vector<std::string> FixedChanges(const Config& running) const;

 private:
  absl::Status SetAt(size_t index, std::string_view text, ConfigSource source,
                     std::string_view where = {});

#define UOPD_SETTING(area, name, type, default_text, limits, reload, help) \
  config::type area##_##name##_{};
#include "core/base/config/config.def"
  std::vector<std::string> texts_;
  std::vector<ConfigSource> sources_;
  std::vector<std::string> wheres_;
  std::vector<std::string> ignored_variables_;
};

// The text of --help and the table in docs/operations/settings.md; both come from config.def alone.
std::string ConfigHelp();
std::string ConfigDocs();

}  // namespace uopd
