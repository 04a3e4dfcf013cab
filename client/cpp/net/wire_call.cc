// SPDX-License-Identifier: MIT
#include "client/cpp/net/wire_call.h"

namespace uopd::client {

v1::Options ToWire(const ExecutionOptions& options) {
  v1::Options out;
  out.set_beam(options.beam);
  out.set_debug(options.debug);
  out.set_noopt(options.noopt);
  out.set_fast_math(options.fast_math);
  out.set_ignore_beam_cache(options.ignore_beam_cache);
  out.set_profile(options.profile);
  out.set_allow_bf16(options.allow_bf16);
  out.set_allow_f16(options.allow_f16);
  out.set_allow_tf32(options.allow_tf32);
  out.set_reproducible(options.reproducible);
  if (options.cache_level) out.set_cache_level(*options.cache_level);
  return out;
}

v1::ExecuteRequest ToWire(const Call& call) {
  v1::ExecuteRequest out;
  out.set_digest(call.digest);
  for (const Argument& argument : call.arguments) {
    v1::Argument& a = *out.add_arguments();
    a.set_buffer(argument.handle);
    if (argument.data != nullptr) a.set_data(*argument.data);
    a.set_return_data(argument.return_data);
  }
  out.mutable_variables()->Add(call.variables.begin(), call.variables.end());
  out.mutable_free_buffers()->Add(call.free_buffers.begin(), call.free_buffers.end());
  if (call.options != ExecutionOptions()) *out.mutable_options() = ToWire(call.options);
  return out;
}

v1::RepeatRequest ToWire(const Loop& loop) {
  v1::RepeatRequest out;
  out.set_steps(loop.steps);
  out.mutable_strides()->Add(loop.strides.begin(), loop.strides.end());
  out.set_unless_stopped(loop.unless_stopped);
  if (loop.stop) out.set_stop(static_cast<uint32_t>(*loop.stop));
  return out;
}

CallResult FromWire(v1::ExecuteResponse& response) {
  CallResult out;
  for (std::string& data : *response.mutable_data()) out.data.push_back(std::move(data));
  CallReport& r = out.report;
  const v1::CacheOutcome& cache = response.cache();
  r.schedule_miss = cache.schedule() == v1::CACHE_RESULT_MISS;
  r.schedule_memory = cache.schedule() == v1::CACHE_RESULT_MEMORY;
  r.kernels_memory = cache.kernels_memory();
  r.kernels_disk = cache.kernels_disk();
  r.kernels_cluster = cache.kernels_cluster();
  r.kernels_shared = cache.kernels_shared();
  r.kernels_compiled = cache.kernels_compiled();
  r.kernels_tuned = cache.kernels_tuned();
  r.kernels_draft = cache.kernels_draft();
  const v1::Timings& t = response.timings();
  r.queue_us = t.queue_us();
  r.verify_us = t.verify_us();
  r.schedule_us = t.schedule_us();
  r.codegen_us = t.codegen_us();
  r.render_us = t.render_us();
  r.compile_us = t.compile_us();
  r.load_us = t.load_us();
  r.tune_us = t.tune_us();
  r.copy_us = t.copy_us();
  r.run_us = t.run_us();
  r.total_us = t.total_us();
  r.kernels_us = response.profile().kernels_us();
  return out;
}

}  // namespace uopd::client
