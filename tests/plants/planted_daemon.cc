// SPDX-License-Identifier: MIT
// The daemon, with workers whose compiler plants bad kernels (plant.h). Their jobs are the standard
// ones otherwise.
//
// The folder UOPD_PLANTS tells workers and the tool apart what happened:
//
//   MARKER/texts/DIGEST   a text of a candidate of the kernel was compiled
//   MARKER/spoiled        the digest of the text that gets the plant
//   MARKER/jobs/DIGEST    the plant ran, or began to: the job's name in the quarantine
//
// A search begins with the heuristic's choice and the kernel without opts, which is the reference.
// So the third text is the one to spoil.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "core/base/unique_fd.h"
#include "server/run_daemon.h"
#include "server/worker/job/compile_job.h"
#include "server/worker/job/measure_job.h"
#include "server/worker/standard_jobs.h"
#include "tests/plants/plant.h"

namespace {

using namespace uopd;  // NOLINT: a main of a test
using plants::Plant;

constexpr int kSpoiledText = 3;

std::string FolderOf(const Plant& plant) {
  const char* folder = std::getenv("UOPD_PLANTS");
  return Cat(folder != nullptr ? folder : "/nonexistent", "/", plants::MarkerOf(plant));
}

void Note(const std::string& folder, const std::string& name) {
  std::filesystem::create_directories(folder);
  const UniqueFd file(open(Cat(folder, "/", name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

// Whether this text is the one that gets the plant.
bool Choose(const Plant& plant, const std::string& digest) {
  const std::string folder = FolderOf(plant), spoiled = folder + "/spoiled";
  Note(folder + "/texts", digest);
  if (!std::filesystem::exists(spoiled)) {
    int texts = 0;
    for ([[maybe_unused]] const auto& text : std::filesystem::directory_iterator(folder + "/texts"))
      ++texts;
    if (texts < kSpoiledText) return false;
    std::ofstream(spoiled) << digest;
  }
  std::string chosen;
  std::ifstream(spoiled) >> chosen;
  return chosen == digest;
}

absl::StatusOr<std::string> CompileSpoiled(worker::WorkerState& state, std::string_view payload) {
  auto request = worker::CompileRequest::Decode(payload);
  if (request.ok() && state.setup().name == "uopd-tune") {
    const auto plant = plants::PlantOfText(request->source);
    if (plant && plant->kind != plants::Kind::kNone &&
        Choose(*plant, HashBytes(request->source).Hex())) {
      auto text = plants::Spoil(request->source, *plant);
      if (!text) return absl::InternalError("the text of a candidate has no place for a plant");
      request->source = *std::move(text);
      return worker::RunCompileJob(state, request->Encode());
    }
  }
  return worker::RunCompileJob(state, payload);
}

absl::StatusOr<std::string> MeasureSpoiled(worker::WorkerState& state, std::string_view payload) {
  const auto request = worker::MeasureRequest::Decode(payload);
  if (const auto plant = request.ok() ? plants::PlantOfObject(request->object) : std::nullopt)
    Note(FolderOf(*plant) + "/jobs", JobDigest(request->ToJob({})).Hex());
  return worker::RunMeasureJob(state, payload);
}

}  // namespace

int main(int argc, char** argv) {
  return RunDaemon(argc, argv,
                   {{worker::CompileRequest::kJob, CompileSpoiled},
                    {worker::CompileRequest::kDraftJob, worker::RunDraftJob},
                    {worker::MeasureRequest::kJob, MeasureSpoiled}});
}
