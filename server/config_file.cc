// SPDX-License-Identifier: MIT
#include "server/config_file.h"

#include <map>
#include <utility>
#include <vector>

// Header only, because the distribution's library is built with exceptions.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "core/base/input_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd {
namespace {

constexpr size_t kMaxConfig = 1 << 20;

// The text that a user would write on a command line for this value. Empty for a value of a type
// that no setting accepts.
std::string TextOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return Cat(integer->get());
  if (const auto* number = node.as_floating_point()) return Cat(number->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "true" : "false";
  return {};
}

using Found = std::vector<std::pair<toml::source_index, absl::Status>>;  // with lines

// toml++ sorts the keys of a table, and people read a file from its top.
void AddByLine(Found found, Config::Problems& out) {
  std::multimap<toml::source_index, absl::Status> by_line;  // keeps the order of equal lines
  for (auto& [line, status] : found) by_line.emplace(line, std::move(status));
  for (auto& [line, status] : by_line) {
    if (!status.ok()) out.push_back(std::move(status));
  }
}

}  // namespace

void ReadConfigFile(const std::string& path, Config& config, Config::Problems& problems) {
  const auto text = ReadInputFile(path, kMaxConfig);
  if (!text.ok()) {
    problems.push_back(WithFrame(text.status(), "reading the configuration"));
    return;
  }
  const toml::parse_result parsed = toml::parse(*text, std::string_view(path));
  if (!parsed) {
    const auto where = parsed.error().source().begin;
    problems.push_back(absl::InvalidArgumentError(
        Cat(path, ":", where.line, ":", where.column, ": ", parsed.error().description())));
    return;
  }
  Found found;
  const auto add = [&](const toml::node& node, std::string_view name, std::string_view what) {
    const toml::source_index line = node.source().begin.line;
    found.emplace_back(line, absl::InvalidArgumentError(Cat(path, ":", line, ": ", name, what)));
  };
  for (const auto& [area, table] : parsed.table()) {
    const toml::table* settings = table.as_table();
    if (settings == nullptr) {
      add(table, area.str(), " is not a table");
      continue;
    }
    for (const auto& [name, value] : *settings) {
      const std::string key = Cat(area.str(), ".", name.str());
      if (value.is_table() || value.is_array() || value.is_date() || value.is_time() ||
          value.is_date_time()) {
        add(value, key, " is neither a text nor a number");
        continue;
      }
      const toml::source_index line = value.source().begin.line;
      found.emplace_back(line,
                         config.Set(key, TextOf(value), ConfigSource::kFile, Cat(path, ":", line)));
    }
  }
  AddByLine(std::move(found), problems);
}

}  // namespace uopd
