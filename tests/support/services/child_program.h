// SPDX-License-Identifier: MIT
// ChildProgram: a program that a test starts, with its output in a file. It ends with the test,
// however that ends.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace uopd::test {

class ChildProgram {
 public:
  ChildProgram() = default;
  ~ChildProgram() { Kill(); }
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  // Starts `words`, the first of which is looked for in PATH. `in_child` runs in the child before;
  // may be null.
  void Start(std::vector<std::string> words, std::string log,
             const std::function<void()>& in_child = nullptr);
  // Whether the program has ended by itself.
  bool Ended();
  void Kill();         // at once, as by kill -9
  void Pause() const;  // stops all its threads, and waits until they have
  void Continue() const;
  std::string Said() const;  // what its output holds

 private:
  std::string log_;
  pid_t pid_ = -1;
};

}  // namespace uopd::test
