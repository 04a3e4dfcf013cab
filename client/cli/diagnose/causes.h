// SPDX-License-Identifier: MIT
// Likely causes of trouble, found in what `uopctl diagnose` collected: a table of conditions and of
// what to do.
//
//   collected parts ── FactsOf ──► numbers and texts by name ── LikelyCauses ──► rules that hold
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/http_get.h"

namespace uopd::cli {

struct Facts {
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;
};

// `collected`: "status", "quarantine", "settings" and "missing" of diagnose.json, as far as they
// are there. Of each metric the sum of all its series is a number by its name.
Facts FactsOf(const nlohmann::json& collected, const std::vector<Sample>& samples);

struct CauseRule {
  std::string_view id;    // "cache_read_only"
  std::string_view fact;  // of Facts
  // The rule holds if the text is this one; empty: if the number is above `above`.
  std::string_view is;
  double above = 0;
  std::string_view cause, remedy;
};
std::span<const CauseRule> CauseRules();

// The rules that hold, in the order of the table. A fact that is not known lets no rule hold.
std::vector<const CauseRule*> LikelyCauses(const Facts& facts);
// The table of docs/operations/looking.md.
std::string CausesDocs();

}  // namespace uopd::cli
