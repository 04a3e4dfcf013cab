// SPDX-License-Identifier: MIT
#include "tests/support/device/device_run.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/render/renderer.h"

namespace uopd::tests {
namespace {

// Around each buffer: bytes that no kernel may change.
constexpr size_t kGuard = 256;
constexpr std::byte kGuardByte{0x5a};

}  // namespace

absl::Status RunOnDevice(devices::Device& device, ir::UOpContext& ctx,
                         const codegen::LoweredKernel& kernel, Memory& memory,
                         const std::map<std::string, int64_t>& variables) {
  UOPD_ASSIGN(const render::Renderer* renderer, render::RendererFor(device.target().format));
  UOPD_ASSIGN(const std::string text,
              renderer->render({ctx, kernel.linear, kernel.name, kernel.variables, device.target(),
                                kernel.buffers.size()}));
  UOPD_ASSIGN(const std::string object, device.compiler().Compile(text));
  const devices::ArgLayout args{static_cast<int>(kernel.buffers.size()),
                                static_cast<int>(kernel.variables.size())};
  UOPD_ASSIGN(const auto executable, device.Load({CodeFormat::kObject, kernel.name, object, args}));
  UOPD_ASSIGN(const auto stream, device.NewStream());
  std::vector<int64_t> values;
  for (const std::string& v : kernel.variables) values.push_back(variables.at(v));
  LaunchShape shape;
  for (int d = 0; d < 3; ++d) {
    shape.grid[d] = kernel.launch.grid[d].Evaluate(values);
    shape.block[d] = kernel.launch.block[d].Evaluate(values);
  }
  if (std::ranges::count(shape.grid, 0) > 0) return absl::OkStatus();  // nothing to do, no launch
  shape.shared_bytes = kernel.launch.shared_bytes;
  shape.maps = kernel.launch.maps;
  std::vector<std::shared_ptr<devices::Buffer>> buffers;
  std::vector<devices::BufferArg> arguments;
  for (size_t slot = 0; slot < kernel.buffers.size(); ++slot) {
    const size_t bytes = memory[slot].size();
    UOPD_ASSIGN(auto buffer, device.Allocate(bytes + 2 * kGuard, devices::MemoryKind::kDevice));
    UOPD_TRY(stream->Fill(*buffer, 0, buffer->size(), kGuardByte));
    UOPD_TRY(stream->CopyIn(std::as_bytes(std::span(memory[slot])), *buffer, kGuard));
    arguments.push_back({buffer.get(), kGuard});
    buffers.push_back(std::move(buffer));
  }
  UOPD_TRY(stream->Launch(*executable, shape, arguments, values));
  std::vector<std::vector<std::byte>> results;
  for (const auto& buffer : buffers) {
    auto& result = results.emplace_back(buffer->size());
    UOPD_TRY(stream->CopyOut(*buffer, 0, result));
  }
  UOPD_TRY(stream->Synchronize());
  for (size_t slot = 0; slot < results.size(); ++slot) {
    const std::span<const std::byte> all = results[slot];
    const auto inside = all.subspan(kGuard, memory[slot].size());
    const auto changed = [&](std::span<const std::byte> guard) {
      return std::ranges::any_of(guard, [](std::byte b) { return b != kGuardByte; });
    };
    if (changed(all.first(kGuard)) || changed(all.last(kGuard)))
      return absl::InternalError(Cat("the kernel stored outside of buffer ", slot, "\n", text));
    std::ranges::copy(inside, std::as_writable_bytes(std::span(memory[slot])).begin());
  }
  return absl::OkStatus();
}

}  // namespace uopd::tests
