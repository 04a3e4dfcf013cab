// SPDX-License-Identifier: MIT
// A decode step of Llama-3.2-1B's shape with bf16 weights on a device of a daemon: token sent, next
// token received. The first device of --device is the one that it runs on.
#include "core/base/text.h"
#include "tests/perf/models/decode_session.h"
#include "tests/perf/perf.h"
#include "uopd/jit.h"

namespace uopd::perf::gpu_decode {
namespace {

absl::StatusOr<std::vector<Measurement>> RunGpuDecode(const Options& options) {
  // Where the driver compiles PTX, a worker's address space has no room for it under the usual
  // limit.
  UOPD_ASSIGN(const auto session,
              DecodeSession::Start(
                  options, {Cat("--device-list=", options.device.empty() ? "CPU" : options.device),
                            "--compile-worker-bytes=0"}));
  Subject* const subject = session->subject.get();
  std::vector<double> seconds;
  const double until = NowSeconds() + 5 * options.scale;
  while (seconds.size() < 4 || NowSeconds() < until) {
    const double start = NowSeconds();
    UOPD_ASSIGN(const std::string token, subject->Run());
    seconds.push_back(NowSeconds() - start);
    UOPD_TRY(session->CheckToken(token));
  }
  const double step = Percentile(seconds, 0.5);
  // Without building the graph in each step.
  client::Jit jit(*session->client,
                  [&](std::span<const client::Tensor>) { return subject->Step(); });
  std::vector<double> replays;
  const double jit_until = NowSeconds() + 5 * options.scale;
  while (replays.size() < 6 || NowSeconds() < jit_until) {
    const double start = NowSeconds();
    UOPD_ASSIGN(const std::vector<client::Tensor> out, jit({}));
    UOPD_ASSIGN(const std::string token, out[0].ToBytes());
    replays.push_back(NowSeconds() - start);
    UOPD_TRY(session->CheckToken(token));
  }
  const double replay = Percentile(replays, 0.5);
  return std::vector<Measurement>{{"gpu.decode.step", "ms", 1e3 * step},
                                  {"gpu.decode.replay", "ms", 1e3 * replay},
                                  {"gpu.decode.bandwidth", "GB/s",
                                   1e-9 * static_cast<double>(subject->weight_bytes()) / replay}};
}

const Register kRegisterDecode("gpu-decode",
                               "a token of Llama-3.2-1B's shape in bf16, on a daemon with --device",
                               RunGpuDecode);

}  // namespace
}  // namespace uopd::perf::gpu_decode
