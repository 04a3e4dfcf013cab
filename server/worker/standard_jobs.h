// SPDX-License-Identifier: MIT
// The jobs that the daemon's workers know. main gives them to ForkServer::Start. To add a kind of
// job, add a line here.
#pragma once
#include <vector>

#include "server/worker/job/compile_job.h"
#include "server/worker/job/measure_job.h"
#include "server/worker/worker_process.h"

namespace uopd::worker {

inline std::vector<JobHandler> StandardJobs() {
  return {{CompileRequest::kJob, RunCompileJob},
          {CompileRequest::kDraftJob, RunDraftJob},
          {MeasureRequest::kJob, RunMeasureJob}};
}

}  // namespace uopd::worker
