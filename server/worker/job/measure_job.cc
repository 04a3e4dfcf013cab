// SPDX-License-Identifier: MIT
#include "server/worker/job/measure_job.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/base/bytes.h"
#include "devices/api/device.h"

namespace uopd::worker {
namespace {

bool ReadBool(ByteReader& reader, bool& out) {
  uint64_t v;
  if (!reader.Varint(v) || v > 1) return false;
  out = v == 1;
  return true;
}

// One measurement. The steps are in the order of the header.
class Measurement {
 public:
  Measurement(const MeasureRequest& request, devices::Device& device, MeasureBuffers& buffers)
      : request_(request), device_(device), buffers_(buffers) {}

  absl::Status Load() {
    devices::KernelCode kernel_code;
    kernel_code.format = CodeFormat::kObject;
    kernel_code.entry = request_.entry;
    kernel_code.bytes = request_.object;
    kernel_code.args = {static_cast<int>(request_.buffers.size()),
                        static_cast<int>(request_.variables.size())};
    UOPD_ASSIGN(executable_, device_.Load(kernel_code));
    UOPD_ASSIGN(stream_, device_.NewStream());
    UOPD_TRY(buffers_.Take(device_.shared_from_this(), request_.buffers, request_.want_outputs,
                           *stream_));
    for (const auto& buffer : buffers_.buffers()) args_.push_back({buffer.get(), 0});
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> RunOnce(bool refill) {
    for (size_t slot = 0; refill && slot < request_.buffers.size(); ++slot) {
      const MeasureBuffer& buffer = request_.buffers[slot];
      if (buffer.read && buffer.written) UOPD_TRY(buffers_.Fill(slot, *stream_));
    }
    int64_t ns = 0;
    UOPD_TRY(stream_->Launch(*executable_, request_.shape, args_, request_.variables, &ns));
    UOPD_TRY(stream_->Synchronize());
    return ns;
  }

  absl::Status CheckGuards() { return buffers_.CheckGuards(*stream_); }

  absl::Status Outputs(std::vector<std::string>& out) {
    for (size_t slot = 0; slot < request_.buffers.size(); ++slot) {
      if (!request_.buffers[slot].written) continue;
      std::string& bytes = out.emplace_back(request_.buffers[slot].bytes, '\0');
      UOPD_TRY(
          stream_->CopyOut(*buffers_.buffers()[slot], 0, std::as_writable_bytes(std::span(bytes))));
      UOPD_TRY(stream_->Synchronize());
    }
    return absl::OkStatus();
  }

 private:
  const MeasureRequest& request_;
  devices::Device& device_;
  MeasureBuffers& buffers_;
  std::shared_ptr<devices::Executable> executable_;
  std::unique_ptr<devices::Stream> stream_;
  std::vector<devices::BufferArg> args_;
};

absl::StatusOr<std::string> Measure(const MeasureRequest& request, devices::Device& device,
                                    MeasureBuffers& buffers) {
  Measurement measurement(request, device, buffers);
  UOPD_TRY(measurement.Load());

  MeasureAnswer answer;
  UOPD_ASSIGN(const int64_t first, measurement.RunOnce(false));
  UOPD_TRY(measurement.CheckGuards());
  if (request.want_outputs) UOPD_TRY(measurement.Outputs(answer.outputs));
  answer.runs = 1;

  std::vector<int64_t> times;
  int64_t spent = first;
  while (static_cast<int>(times.size()) < request.runs) {
    if (IsClearlySlower(request.best_ns, first, times)) break;
    if (request.budget_ns > 0 && spent > request.budget_ns) break;
    UOPD_ASSIGN(const int64_t latest, measurement.RunOnce(true));
    spent += latest;
    times.push_back(latest);
  }
  answer.runs += static_cast<int>(times.size());
  if (times.empty()) times.push_back(first);
  std::sort(times.begin(), times.end());
  answer.min_ns = times.front();
  answer.median_ns = times[times.size() / 2];
  return answer.Encode();
}

}  // namespace

bool IsClearlySlower(int64_t best_ns, int64_t first_ns, std::span<const int64_t> timed) {
  constexpr double kOne = 3, kTwo = 1.3;
  if (best_ns <= 0) return false;
  const auto best = static_cast<double>(best_ns);
  const int64_t latest = timed.empty() ? first_ns : timed.back();
  if (static_cast<double>(latest) > kOne * best) return true;
  return timed.size() > 1 && static_cast<double>(std::ranges::min(timed)) > kTwo * best;
}

std::string MeasureRequest::Encode() const {
  std::string out;
  PutString(out, device);
  PutString(out, object);
  PutString(out, entry);
  PutVarint(out, buffers.size());
  for (const MeasureBuffer& buffer : buffers) {
    PutVarint(out, ir::Info(buffer.dtype).wire);
    PutVarint(out, buffer.bytes);
    PutVarint(out, buffer.read);
    PutVarint(out, buffer.written);
  }
  PutVarint(out, variables.size());
  for (int64_t v : variables) PutSigned(out, v);
  for (int64_t v : shape.grid) PutSigned(out, v);
  for (int64_t v : shape.block) PutSigned(out, v);
  PutSigned(out, shape.shared_bytes);
  EncodeTensorMaps(shape.maps, out);
  PutSigned(out, runs);
  PutSigned(out, best_ns);
  PutSigned(out, budget_ns);
  PutVarint(out, want_outputs);
  return out;
}

Job MeasureRequest::ToJob(std::chrono::milliseconds time_limit) const {
  MeasureRequest kernel = *this;
  kernel.runs = 0;
  kernel.best_ns = 0;
  kernel.budget_ns = 0;
  kernel.want_outputs = false;
  return {kJob, Encode(), time_limit, kernel.Encode()};
}

absl::StatusOr<MeasureRequest> MeasureRequest::Decode(std::string_view bytes) {
  MeasureRequest out;
  ByteReader reader(bytes);
  absl::Status malformed = absl::DataLossError("malformed measure request");
  uint64_t n;
  if (!reader.String(out.device) || !reader.String(out.object) || !reader.String(out.entry) ||
      !reader.Varint(n) || n > reader.left()) {
    return malformed;
  }
  for (uint64_t i = 0; i < n; ++i) {
    MeasureBuffer buffer;
    uint64_t wire;
    if (!reader.Varint(wire) || !reader.Varint(buffer.bytes) || !ReadBool(reader, buffer.read) ||
        !ReadBool(reader, buffer.written)) {
      return malformed;
    }
    const auto dtype = ir::DtypeByWire(wire);
    if (!dtype || ir::ByteSize(*dtype) == 0 || *dtype == ir::Dtype::Index) return malformed;
    buffer.dtype = *dtype;
    out.buffers.push_back(buffer);
  }
  if (!reader.Varint(n) || n > reader.left()) return malformed;
  out.variables.resize(n);
  for (int64_t& v : out.variables) {
    if (!reader.Signed(v)) return malformed;
  }
  for (int64_t& v : out.shape.grid) {
    if (!reader.Signed(v)) return malformed;
  }
  for (int64_t& v : out.shape.block) {
    if (!reader.Signed(v)) return malformed;
  }
  int64_t runs;
  if (!reader.Signed(out.shape.shared_bytes) || !DecodeTensorMaps(reader, out.shape.maps) ||
      !reader.Signed(runs) || runs < 0 || runs > 1'000'000 || !reader.Signed(out.best_ns) ||
      !reader.Signed(out.budget_ns) || !ReadBool(reader, out.want_outputs) || !reader.done()) {
    return malformed;
  }
  out.runs = static_cast<int>(runs);
  return out;
}

std::string MeasureAnswer::Encode() const {
  std::string out;
  PutSigned(out, min_ns);
  PutSigned(out, median_ns);
  PutSigned(out, runs);
  PutVarint(out, outputs.size());
  for (const std::string& bytes : outputs) PutString(out, bytes);
  return out;
}

absl::StatusOr<MeasureAnswer> MeasureAnswer::Decode(std::string_view bytes) {
  MeasureAnswer out;
  ByteReader reader(bytes);
  int64_t runs;
  uint64_t n;
  if (!reader.Signed(out.min_ns) || !reader.Signed(out.median_ns) || !reader.Signed(runs) ||
      !reader.Varint(n) || n > reader.left()) {
    return absl::DataLossError("malformed measure answer");
  }
  out.runs = static_cast<int>(runs);
  for (uint64_t i = 0; i < n; ++i) {
    if (!reader.String(out.outputs.emplace_back())) {
      return absl::DataLossError("malformed measure answer");
    }
  }
  if (!reader.done()) return absl::DataLossError("malformed measure answer");
  return out;
}

absl::StatusOr<std::string> RunMeasureJob(WorkerState& state, std::string_view payload) {
  UOPD_ASSIGN(const MeasureRequest request, MeasureRequest::Decode(payload));
  UOPD_ASSIGN(const auto device, state.Device(request.device));
  auto answer = Measure(request, *device, state.measure_buffers());
  if (!answer.ok()) state.measure_buffers().Drop();
  // A kernel that faults takes the context of a GPU with it.
  if (!device->status().ok()) state.SetBroken();
  return answer;
}

}  // namespace uopd::worker
