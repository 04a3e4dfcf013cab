// SPDX-License-Identifier: MIT
// A built program of one device. It releases the program when it goes. It keeps the context.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "devices/opencl/opencl_context.h"

namespace uopd::devices::opencl {

class OpenClProgram {
 public:
  // INTERNAL contains the compiler's diagnostic and the first lines of the text.
  static absl::StatusOr<OpenClProgram> FromSource(std::shared_ptr<OpenClContext> context,
                                                  std::string_view source);
  // `binary` is what Binary returned, in this process or in another one.
  static absl::StatusOr<OpenClProgram> FromBinary(std::shared_ptr<OpenClContext> context,
                                                  std::string_view binary);
  OpenClProgram(OpenClProgram&& other) noexcept;
  OpenClProgram& operator=(OpenClProgram&&) = delete;
  ~OpenClProgram();

  absl::StatusOr<std::string> Binary() const;
  ClProgram* get() const { return program_; }

 private:
  OpenClProgram(std::shared_ptr<OpenClContext> context, ClProgram* program)
      : context_(std::move(context)), program_(program) {}
  absl::Status Build(const std::string& options) const;
  std::string BuildLog() const;

  std::shared_ptr<OpenClContext> context_;
  ClProgram* program_;
};

}  // namespace uopd::devices::opencl
