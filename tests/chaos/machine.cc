// SPDX-License-Identifier: MIT
#include "tests/chaos/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/support/processes.h"

namespace uopd::chaos {

Machine::Machine() : last_(Read()) {}

Machine::Ticks Machine::Read() {
  std::ifstream stat("/proc/stat");
  std::string name;
  int64_t user = 0, low = 0, system = 0, idle = 0, waits = 0, irq = 0, soft_irq = 0, stolen = 0;
  stat >> name >> user >> low >> system >> idle >> waits >> irq >> soft_irq >> stolen;
  if (!stat) return {};
  Ticks out;
  out.all = user + low + system + idle + waits + irq + soft_irq + stolen;
  out.others = user + low + system + stolen - test::TicksOfTree(getpid());
  return out;
}

double Machine::Slowdown() {
  const Ticks now = Read();
  const auto all = static_cast<double>(now.all - last_.all);
  const auto others = static_cast<double>(now.others - last_.others);
  last_ = now;
  if (all <= 0) return 1;
  return 1 / (1 - std::clamp(others / all, 0.0, 0.98));
}

}  // namespace uopd::chaos
