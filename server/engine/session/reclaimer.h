// SPDX-License-Identifier: MIT
// What a session holds that can be made again, and that gives its memory back when a quota needs
// it.
#pragma once

namespace uopd::engine {

class Reclaimer {
 public:
  virtual ~Reclaimer() = default;
  // Frees what no call uses. True if there was any. Called from any thread, without locks.
  virtual bool Drop() = 0;
};

}  // namespace uopd::engine
