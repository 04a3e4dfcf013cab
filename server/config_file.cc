// SPDX-License-Identifier: MIT
#include "server/config_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

// Header only, because the distribution's library is built with exceptions.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd {
namespace {

// The text that a user would write on a command line for this value. Empty for a value of a type
// that no setting accepts.
std::string TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return Cat(integer->get());
  if (const auto* number = node.as_floating_point()) return Cat(number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  return {};
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, Config& config) {
  std::error_code error;
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(Cat("configuration file (", path, ") cannot be opened"));
  }
  std::ostringstream text;
  text << in.rdbuf();
  const toml::parse_result parsed = toml::parse(text.view(), std::string_view(path));
  if (!parsed) {
    const auto where = parsed.error().source().begin;
    return absl::InvalidArgumentError(
        Cat(path, ":", where.line, ":", where.column, ": ", parsed.error().description()));
  }
  for (const auto& [area, table] : parsed.table()) {
    const toml::table* settings = table.as_table();
    if (settings == nullptr) {
      return absl::InvalidArgumentError(Cat(path, ": ", area.str(), " is not a table"));
    }
    for (const auto& [name, value] : *settings) {
      if (value.is_table() || value.is_array() || value.is_date() || value.is_time() ||
          value.is_date_time()) {
        return absl::InvalidArgumentError(
            Cat(path, ": ", area.str(), ".", name.str(), " is neither a text nor a number"));
      }
      UOPD_TRY(WithFrame(
          config.Set(Cat(area.str(), ".", name.str()), TextOf(value), ConfigSource::kFile),
          Cat("reading ", path)));
    }
  }
  return absl::OkStatus();
}

}  // namespace uopd
