// SPDX-License-Identifier: MIT
// What the show found, as a table: each line has a figure, what it should be, and whether it is.
#pragma once
#include <string>
#include <vector>

namespace uopd::cluster {

class Table {
 public:
  // A line of the table, which is also printed at once. `target` empty: a figure without one.
  void Add(const std::string& what, const std::string& figure, const std::string& target = "",
           bool holds = true);
  void AddEqual(const std::string& what, double figure, double target);
  // Figures with a unit, as "12.3 ms".
  void AddAtMost(const std::string& what, double figure, double most, const char* unit);

  bool holds() const;
  std::string Text() const;

 private:
  struct Line {
    std::string what, figure, target;
    bool holds;
  };
  std::vector<Line> lines_;
};

}  // namespace uopd::cluster
