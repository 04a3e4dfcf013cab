// SPDX-License-Identifier: MIT
#include "server/rpc/call/calls.h"

#include <algorithm>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "core/ir/io/wire.h"
#include "server/engine/usage/tenant_usage.h"

namespace uopd::rpc {
namespace {

using Arguments = absl::InlinedVector<engine::Argument, 8>;

constexpr uint32_t kMaxDebug = 7;

// The result has views into the request, which outlives the call.
Arguments ToArguments(std::string_view tenant,
                      const google::protobuf::RepeatedPtrField<v1::Argument>& arguments) {
  Arguments out;
  uint64_t received = 0;
  for (const v1::Argument& argument : arguments) {
    engine::Argument& to = out.emplace_back();
    to.buffer = argument.buffer();
    if (argument.has_data()) {
      to.data = argument.data();
      received += argument.data().size();
    }
    to.return_data = argument.return_data();
  }
  if (received > 0) engine::CountReceived(tenant, received);
  return out;
}

double Us(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

void FillTimings(const engine::RequestContext& context, v1::Timings* out) {
  const PhaseTimings& t = context.timings;
  out->set_queue_us(Us(t[Phase::kQueue]));
  out->set_verify_us(Us(t[Phase::kVerify]));
  out->set_schedule_us(Us(t[Phase::kSchedule]));
  out->set_codegen_us(Us(t[Phase::kCodegen]));
  out->set_render_us(Us(t[Phase::kRender]));
  out->set_compile_us(Us(t[Phase::kCompile]));
  out->set_load_us(Us(t[Phase::kLoad]));
  out->set_tune_us(Us(t[Phase::kTune]));
  out->set_copy_us(Us(t[Phase::kCopy]));
  out->set_run_us(Us(t[Phase::kRun]));
  out->set_total_us(Us(NowNs() - context.start_ns));
}

v1::CacheResult ToProto(engine::CacheResult result) {
  switch (result) {
    case engine::CacheResult::kUnspecified:
      return v1::CACHE_RESULT_UNSPECIFIED;
    case engine::CacheResult::kMemory:
      return v1::CACHE_RESULT_MEMORY;
    case engine::CacheResult::kDisk:
      return v1::CACHE_RESULT_DISK;
    case engine::CacheResult::kCluster:
      return v1::CACHE_RESULT_CLUSTER;
    case engine::CacheResult::kMiss:
      return v1::CACHE_RESULT_MISS;
    case engine::CacheResult::kShared:
      return v1::CACHE_RESULT_SHARED;
  }
  UOPD_CHECK(false);
}

void FillOutcome(const engine::CacheOutcome& outcome, v1::CacheOutcome* out) {
  out->set_schedule(ToProto(outcome.schedule));
  out->set_kernels_memory(outcome.kernels_memory);
  out->set_kernels_disk(outcome.kernels_disk);
  out->set_kernels_cluster(outcome.kernels_cluster);
  out->set_kernels_shared(outcome.kernels_shared);
  out->set_kernels_compiled(outcome.kernels_compiled);
  out->set_kernels_tuned(outcome.kernels_tuned);
  out->set_kernels_draft(outcome.kernels_draft);
}

void FillProfile(const engine::RunReport& report, v1::Profile* out) {
  for (const engine::KernelReport& kernel : report.kernels) {
    v1::KernelProfile* to = out->add_kernels();
    to->set_name(kernel.kernel);
    to->set_device(kernel.device);
    to->set_opts(kernel.opts);
    to->set_us(kernel.ns * 1e-3);
    to->set_flops(kernel.flops);
    to->set_bytes(kernel.bytes);
    to->set_roof_us(kernel.roof_ns * 1e-3);
  }
  out->set_kernels_left_out(report.left_out);
  out->set_left_out_us(report.left_out_ns * 1e-3);
  out->set_kernels_us(report.kernels_ns * 1e-3);
  for (const auto& [device, roof] : report.roofs) {
    v1::DeviceRoof* to = out->add_roofs();
    to->set_device(device);
    for (const auto& [dtype, ops] : roof.ops_per_s) {
      v1::DtypeRoof* rate = to->add_dtypes();
      rate->set_dtype(static_cast<uint32_t>(dtype));
      rate->set_ops_per_s(ops);
    }
    to->set_memory_bytes_per_s(roof.memory_bytes_per_s);
    to->set_cache_bytes_per_s(roof.cache_bytes_per_s);
    to->set_cache_bytes(roof.cache_bytes);
  }
}

// Nothing if the request was answered from an earlier result.
template <class Response>
void FillReport(engine::RequestContext& context, Response* response) {
  engine::RunReport* const report = context.maybe_report.get();
  if (report == nullptr || !report->ran) return;
  response->set_debug_text(std::move(report->text));
  if (report->profile) FillProfile(*report, response->mutable_profile());
}

template <class Response>
void FillResult(engine::RequestContext& context, engine::ExecuteResult result, Response* response) {
  uint64_t sent = 0;
  for (std::string& data : result.data) {
    sent += data.size();
    *response->add_data() = std::move(data);
  }
  if (sent > 0) engine::CountSent(context.caller.tenant, sent);
  FillTimings(context, response->mutable_timings());
  FillOutcome(context.cache, response->mutable_cache());
  FillReport(context, response);
}

void FillSignature(const engine::Program& program, v1::Signature* out) {
  for (const engine::ProgramSlot& slot : program.slots) {
    v1::SlotInfo* info = out->add_slots();
    info->set_dtype(ir::Info(slot.info.dtype).wire);
    for (int64_t dim : slot.info.dims) info->add_dims(static_cast<uint64_t>(dim));
    info->set_bytes(static_cast<uint64_t>(slot.info.bytes));
    info->set_read(slot.info.read);
    info->set_written(slot.info.written);
    info->set_device(slot.device->name());
  }
  for (const schedule::Variable& variable : program.variables) {
    v1::VariableInfo* info = out->add_variables();
    info->set_name(variable.name);
    info->set_min(variable.min);
    info->set_max(variable.max);
    info->set_dtype(ir::Info(variable.dtype).wire);
  }
  uint32_t kernels = 0;
  for (const engine::Step& step : program.steps) kernels += step.kernel != nullptr ? 1 : 0;
  out->set_kernels(kernels);
  out->set_temporary_bytes(static_cast<uint64_t>(program.temporary_bytes));
  out->set_flops(static_cast<uint64_t>(program.flops));
  out->set_bytes(static_cast<uint64_t>(program.bytes));
}

template <class Request>
engine::GraphRef GraphOf(const Request& request) {
  return {request.digest(), request.graph()};
}

void AskForReport(const v1::Options& options, engine::ExecuteCall& call) {
  call.debug = static_cast<int>(std::min<uint32_t>(options.debug(), kMaxDebug));
  call.profile = options.profile();
}

// A report may take compiles and measurements.
bool WantsReport(const v1::Options& options) { return options.debug() > 0 || options.profile(); }

template <class Request>
engine::RunCall RunCallOf(const Request& request, const Arguments& arguments) {
  engine::RunCall out;
  out.arguments = arguments;
  out.variables = {request.variables().data(), static_cast<size_t>(request.variables().size())};
  return out;
}

absl::Status CheckChunk(uint64_t bytes) {
  if (bytes <= kMaxChunkBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("chunk has ", bytes, " bytes, more than ", kMaxChunkBytes));
}

engine::AreaRange RangeOf(const v1::AreaRange& range) {
  return {.area = range.area(), .offset = range.offset(), .bytes = range.bytes()};
}

// The series of a direction, looked up once.
struct SideCounters {
  explicit SideCounters(const char* direction)
      : transfers(metrics::SideTransfers({direction})), bytes(metrics::SideBytes({direction})) {}
  void Count(uint64_t n) {
    transfers.Increment();
    bytes.Increment(n);
  }
  Counter &transfers, &bytes;
};

absl::Status WriteArea(engine::Engine& engine, engine::Session& session, uint64_t handle,
                       uint64_t offset, const v1::AreaRange& range) {
  if (session.closed()) return absl::CancelledError("session was closed during the upload");
  UOPD_TRY(engine.buffers().WriteFromArea(session, handle, offset, RangeOf(range)));
  engine::CountReceived(session.tenant(), range.bytes());
  static SideCounters uploads("upload");
  uploads.Count(range.bytes());
  return absl::OkStatus();
}

// Whether copying the data of the arguments takes microseconds.
template <class Request>
bool HasLittleData(const Request& request) {
  constexpr size_t kLittle = 128 << 10;
  size_t bytes = 0;
  for (const v1::Argument& argument : request.arguments()) bytes += argument.data().size();
  return bytes <= kLittle;
}

}  // namespace

engine::CompileOptions ToCompileOptions(const v1::Options& options) {
  engine::CompileOptions out;
  out.noopt = options.noopt();
  out.fast_math = options.fast_math();
  out.allow_bf16 = options.allow_bf16();
  out.allow_f16 = options.allow_f16();
  out.allow_tf32 = options.allow_tf32();
  out.reproducible = options.reproducible();
  out.beam = static_cast<int>(std::min<uint32_t>(options.beam(), INT32_MAX));
  out.ignore_beam_cache = options.ignore_beam_cache();
  if (options.has_cache_level()) {
    out.cache_level = static_cast<int>(std::min<uint32_t>(options.cache_level(), INT32_MAX));
  }
  return out;
}

absl::Status Hello(engine::Engine& engine, const ServiceLimits& limits,
                   const v1::HelloRequest& request, v1::HelloResponse* response) {
  const uint32_t max = request.api_version_max();
  if (request.api_version_min() > kApiVersion || (max != 0 && max < kApiVersion)) {
    return absl::FailedPreconditionError(Cat("client speaks API versions ",
                                             request.api_version_min(), " to ", max,
                                             ", the daemon ", kApiVersion));
  }
  if (request.ir_version() != 0 && request.ir_version() != ir::kIrVersion) {
    return absl::FailedPreconditionError(
        Cat("client speaks IR version ", request.ir_version(), ", the daemon ", ir::kIrVersion));
  }
  response->set_api_version(kApiVersion);
  response->set_ir_version(ir::kIrVersion);
  response->set_server("uopd " UOPD_VERSION);
  response->set_instance(engine.instance());
  response->set_content_key(std::string(engine.content_store().key().view()));
  for (const devices::DeviceEntry& entry : engine.devices().List()) {
    v1::Device* out = response->add_devices();
    out->set_name(entry.name);
    if (!entry.status.ok()) out->set_unavailable_reason(StatusText(entry.status));
    if (entry.device != nullptr && entry.device->info().compiles_only)
      out->set_unavailable_reason(Cat(entry.device->target().arch,
                                      " is not in this machine: its kernels are only compiled"));
    if (entry.device == nullptr) continue;
    const Target& target = entry.device->target();
    const devices::MemoryStats memory = entry.device->memory();
    out->set_kind(target.kind);
    out->set_arch(target.arch);
    out->set_baseline(entry.device->info().baseline);
    out->set_memory_bytes(memory.limit_bytes);
    out->set_memory_used_bytes(memory.used_bytes);
    out->set_threads(static_cast<uint32_t>(target.threads));
  }
  v1::Limits* out = response->mutable_limits();
  out->set_max_message_bytes(limits.max_message_bytes);
  out->set_max_chunk_bytes(kMaxChunkBytes);
  out->set_max_graph_nodes(limits.max_graph_nodes);
  out->set_session_bytes(static_cast<uint64_t>(engine.settings().session_bytes()));
  return absl::OkStatus();
}

absl::Status OpenSession(engine::Engine& engine, const engine::Opener& opener, bool side,
                         const v1::OpenSessionRequest& request, v1::OpenSessionResponse* response) {
  const auto ttl =
      std::chrono::milliseconds(std::min<uint64_t>(request.ttl_ms(), uint64_t{1} << 40));
  UOPD_ASSIGN(engine::SessionUse session,
              request.resume_token().empty()
                  ? engine.sessions().Open(ttl, opener)
                  : engine.sessions().Resume(request.resume_token(), opener.tenant));
  const v1::ClientProcess& process = request.process();
  engine.sessions().SetProcess(*session,
                               engine::ClientProcess({.boot_id = process.boot_id(),
                                                      .pid_namespace = process.pid_namespace(),
                                                      .pid = process.pid(),
                                                      .start_time = process.start_time()}));
  response->set_session_id(session->id());
  response->set_resume_token(session->resume_token());
  response->set_last_sequence(session->last_sequence());
  response->set_ttl_ms(static_cast<uint64_t>(session->ttl().count()));
  if (!side) return absl::OkStatus();
  UOPD_ASSIGN(std::string token, engine.sessions().NewSideToken(*session));
  response->mutable_side()->set_suffix(kSideSuffix);
  response->mutable_side()->set_token(std::move(token));
  return absl::OkStatus();
}

absl::Status OpenContents(engine::Engine& engine, engine::Session& session,
                          const WorkLimits& limits, const v1::OpenContentsRequest& request,
                          v1::OpenContentsResponse* response) {
  std::vector<engine::NamedContent> contents;
  contents.reserve(static_cast<size_t>(request.contents_size()));
  for (const v1::NamedContent& content : request.contents()) {
    contents.push_back({.handle = content.buffer().handle(),
                        .bytes = content.buffer().bytes(),
                        .device = content.buffer().device(),
                        .sha256 = content.sha256(),
                        .proof = content.proof()});
  }
  UOPD_ASSIGN(const std::vector<uint32_t> needed,
              engine.contents().Open(session, contents, limits));
  response->mutable_needed()->Add(needed.begin(), needed.end());
  return absl::OkStatus();
}

absl::Status CreateBuffers(engine::Engine& engine, engine::Session& session,
                           const v1::CreateBuffersRequest& request) {
  std::vector<uint64_t> made;
  for (const v1::BufferSpec& spec : request.buffers()) {
    absl::Status status =
        engine.buffers().Create(session, spec.handle(), spec.bytes(), spec.device());
    if (!status.ok()) {
      session.buffers().Free(made);  // create all buffers or none
      return status;
    }
    made.push_back(spec.handle());
  }
  return absl::OkStatus();
}

void FreeBuffers(engine::Session& session, const v1::FreeBuffersRequest& request) {
  session.buffers().Free({request.handles().data(), static_cast<size_t>(request.handles().size())});
}

engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::PrepareRequest& request) {
  return engine.programs().Resolve(GraphOf(request), ToCompileOptions(request.options()));
}
engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::ExecuteRequest& request) {
  return engine.programs().Resolve(GraphOf(request), ToCompileOptions(request.options()));
}
engine::ResolvedRequest Resolve(engine::Engine& engine, const v1::RunRequest& request) {
  return engine.programs().Resolve({{}, request.graph()}, ToCompileOptions(request.options()));
}

void Prepare(engine::Engine& engine, PrepareCall call, Done done) {
  auto& [context, wanted, request, response] = call;
  if (!request.graph().empty())
    engine::CountReceived(context.caller.tenant, request.graph().size());
  engine.programs().Prepare(
      context, std::move(wanted),
      [&context = context, response = response, done = std::move(done)](
          absl::StatusOr<std::shared_ptr<const engine::Program>> program) mutable {
        if (!program.ok()) return done(program.status());
        response->set_digest(std::string((*program)->digest.view()));
        FillSignature(**program, response->mutable_signature());
        FillTimings(context, response->mutable_timings());
        FillOutcome(context.cache, response->mutable_cache());
        done(absl::OkStatus());
      });
}

void Execute(engine::Engine& engine, engine::Session& session, ExecuteCall wanted_call, Done done) {
  auto& [context, wanted, request, response] = wanted_call;
  auto arguments =
      std::make_unique<Arguments>(ToArguments(context.caller.tenant, request.arguments()));
  engine::ExecuteCall call;
  call.where = Where::kHere;  // in the turn of its session
  call.request_id = request.request_id();
  call.wanted = std::move(wanted);
  AskForReport(request.options(), call);
  call.run = RunCallOf(request, *arguments);
  call.run.free_buffers = {request.free_buffers().data(),
                           static_cast<size_t>(request.free_buffers().size())};
  engine.runs().Execute(
      context, session, call,
      [&context = context, response = response, arguments = std::move(arguments),
       done = std::move(done)](absl::StatusOr<engine::ExecuteResult> result) mutable {
        const absl::Status status = result.status();
        if (status.ok()) FillResult(context, *std::move(result), response);
        done(status);
      });
}

absl::Status CancelExecute(engine::Session& session, const v1::CancelExecuteRequest& request) {
  if (request.request_id() == 0) {
    return absl::InvalidArgumentError("request id (0) names no request");
  }
  constexpr uint32_t kMost = engine::CancelledIds::kMaxDone;
  if (request.more() >= kMost) {
    return absl::InvalidArgumentError(Cat("more (", request.more(), ") is above ", kMost - 1));
  }
  for (uint64_t i = 0; i <= request.more(); ++i)
    engine::RunCalls::Cancel(session, request.request_id() + i);
  return absl::OkStatus();
}

void Run(engine::Engine& engine, Where where, OneRunCall wanted_call, Done done) {
  auto& [context, wanted, request, response] = wanted_call;
  engine::CountReceived(context.caller.tenant, request.graph().size());
  // Keeps the digest that the engine finds.
  struct State {
    Arguments arguments;
    Digest digest;
  };
  auto state = std::make_unique<State>();
  state->arguments = ToArguments(context.caller.tenant, request.arguments());
  for (size_t i = 0; i < state->arguments.size(); ++i) {
    if (state->arguments[i].buffer == 0) continue;
    return done(absl::InvalidArgumentError(
        Cat("slot ", i, " has a buffer handle, and this call has no session")));
  }
  engine::ExecuteCall call;
  call.where = where;
  call.wanted = std::move(wanted);
  AskForReport(request.options(), call);
  call.run = RunCallOf(request, state->arguments);
  Digest* const digest = &state->digest;
  engine.runs().RunOnce(
      context, call, digest,
      [&context = context, response = response, state = std::move(state),
       done = std::move(done)](absl::StatusOr<engine::ExecuteResult> result) mutable {
        const absl::Status status = result.status();
        if (status.ok()) {
          FillResult(context, *std::move(result), response);
          response->set_digest(std::string(state->digest.view()));
        }
        done(status);
      });
}

absl::Status WriteChunk(engine::Engine& engine, engine::Session& session, uint64_t handle,
                        const std::string& data, uint64_t* expected) {
  UOPD_TRY(CheckChunk(data.size()));
  if (session.closed()) return absl::CancelledError("session was closed during the upload");
  UOPD_TRY(engine.buffers().Write(session, handle, *expected, data));
  *expected += data.size();
  engine::CountReceived(session.tenant(), data.size());
  return absl::OkStatus();
}

absl::Status ReadChunk(engine::Engine& engine, engine::Session& session,
                       const v1::DownloadRequest& request, std::string* data) {
  const auto buffer = session.buffers().Find(request.handle());
  if (buffer == nullptr) return session.buffers().Missing(request.handle());
  const uint64_t size = buffer->size(), offset = request.offset();
  if (offset > size || request.bytes() > size - offset) {
    return absl::InvalidArgumentError(Cat("bytes (", offset, " to ", offset, " + ", request.bytes(),
                                          ") are outside buffer ", request.handle(), " of ", size,
                                          " bytes"));
  }
  const uint64_t bytes = request.bytes() == 0 ? size - offset : request.bytes();
  UOPD_TRY(CheckChunk(bytes));
  if (request.has_area()) {
    const engine::AreaRange range = RangeOf(request.area());
    if (range.bytes != bytes) {
      return absl::InvalidArgumentError(
          Cat("shared area has ", range.bytes, " bytes for a download of ", bytes));
    }
    UOPD_TRY(engine.buffers().ReadToArea(session, request.handle(), offset, range));
    engine::CountSent(session.tenant(), bytes);
    static SideCounters downloads("download");
    downloads.Count(bytes);
    return absl::OkStatus();
  }
  data->resize(static_cast<size_t>(bytes));
  UOPD_TRY(engine.buffers().Read(session, request.handle(), offset, *data));
  engine::CountSent(session.tenant(), bytes);
  return absl::OkStatus();
}

absl::Status UploadChunk(engine::Engine& engine, engine::Session& session,
                         const v1::UploadRequest& request) {
  const v1::BufferSpec& spec = request.buffer();
  const uint64_t handle = spec.handle();
  if (request.has_area()) {
    UOPD_TRY(CheckChunk(request.area().bytes()));
    if (!request.data().empty())
      return absl::InvalidArgumentError("upload has data and names a shared area");
    // Before the buffer is made, so that the client can send the same call with data.
    UOPD_TRY(session.Area(request.area().area()).status());
  }
  UOPD_ASSIGN(const bool created,
              engine.buffers().OpenUpload(session, handle, spec.bytes(), spec.device()));
  uint64_t offset = request.offset();
  absl::Status status = request.has_area()
                            ? WriteArea(engine, session, handle, offset, request.area())
                            : WriteChunk(engine, session, handle, request.data(), &offset);
  if (!status.ok() && created) session.buffers().Free({&handle, 1});
  return status;
}

bool IsQuick(const engine::ResolvedRequest& wanted, const v1::ExecuteRequest& request) {
  return !WantsReport(request.options()) && HasLittleData(request) &&
         engine::ProgramCalls::IsQuick(wanted);
}

bool IsQuick(const engine::ResolvedRequest& wanted, const v1::RunRequest& request) {
  return !WantsReport(request.options()) && HasLittleData(request) &&
         engine::ProgramCalls::IsQuick(wanted);
}

bool IsQuick(const v1::CreateBuffersRequest& request) {
  uint64_t bytes = 0;
  for (const v1::BufferSpec& spec : request.buffers()) {
    bytes += std::min<uint64_t>(spec.bytes(), kMaxChunkBytes + 1);
  }
  return bytes <= kMaxChunkBytes;
}

bool IsQuick(const engine::Session& session, const v1::UploadRequest& request) {
  return session.buffers().OnlyCopies(request.buffer().handle(), request.offset(),
                                      request.buffer().bytes());
}

}  // namespace uopd::rpc
