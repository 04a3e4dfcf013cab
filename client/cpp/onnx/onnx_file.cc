// SPDX-License-Identifier: MIT
// Reading ONNX files.
#include <fcntl.h>

#include <cerrno>
#include <filesystem>

#include "client/cpp/onnx/reader.h"
#include "client/cpp/state/model_folder.h"
#include "client/cpp/state/shown_name.h"
#include "core/base/text.h"
#include "uopd/onnx.h"

namespace uopd::client {
namespace {

// The folder of a file, whatever its path names later.
absl::StatusOr<UniqueFd> OpenOnnxFolder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  UniqueFd out(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!out) return absl::ErrnoToStatus(errno, Cat("opening ", folder));
  return out;
}

// The file that has the contents, with all of them.
absl::StatusOr<RegularFile> OpenOnnxExternal(const UniqueFd& folder, const OnnxTensor& tensor) {
  const OnnxExternal& external = *tensor.external;
  UOPD_ASSIGN(RegularFile file,
              OpenInModelFolder(folder, external.location, ShownName(external.location)));
  if (external.offset > file.bytes() || tensor.bytes() > file.bytes() - external.offset) {
    return Invalid(Cat(file.path(), " has ", file.bytes(), " bytes; needed are ", tensor.bytes(),
                       " from byte ", external.offset));
  }
  return file;
}

}  // namespace

struct OnnxFile::File {
  RegularFile file;
  UniqueFd folder;
  Arena kept;  // the model's strings
  OnnxModel model;
};

OnnxFile::OnnxFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
OnnxFile::OnnxFile(OnnxFile&&) noexcept = default;
OnnxFile& OnnxFile::operator=(OnnxFile&&) noexcept = default;
OnnxFile::~OnnxFile() = default;

absl::StatusOr<OnnxFile> OnnxFile::Open(const std::string& path) {
  OnnxFile out(std::make_unique<File>());
  File& file = *out.file_;
  UOPD_ASSIGN(file.folder, OpenOnnxFolder(path));
  UOPD_ASSIGN(file.file, RegularFile::Open(path));
  onnx::WireSource source(file.file, &file.kept);
  onnx::Reading reading{.source = &source};
  const absl::Status status = onnx::ReadModel(onnx::Fields(reading, 0, source.bytes()), file.model);
  if (!status.ok()) return WithFrame(status, Cat("reading ", path));
  return out;
}

const OnnxModel& OnnxFile::model() const { return file_->model; }

absl::Status OnnxFile::Read(const OnnxTensor& tensor, std::span<char> out) const {
  const auto read = [&]() -> absl::Status {
    UOPD_TRY(onnx::CheckRead(tensor, out));
    if (tensor.external != nullptr) {
      UOPD_ASSIGN(const RegularFile file, OpenOnnxExternal(file_->folder, tensor));
      return file.ReadAt(tensor.external->offset, out);
    }
    onnx::WireSource source(file_->file, nullptr);
    return onnx::CopyParts(source, tensor, out);
  };
  return onnx::InFrame(read(), [&] { return onnx::Shown("tensor", tensor.name, 0); });
}

absl::StatusOr<std::string> OnnxFile::Read(const OnnxTensor& tensor) const {
  // The sizes of contents elsewhere are what a small file says: the memory comes after the check.
  if (tensor.external != nullptr) {
    UOPD_TRY(onnx::InFrame(OpenOnnxExternal(file_->folder, tensor).status(),
                           [&] { return onnx::Shown("tensor", tensor.name, 0); }));
  }
  std::string out(tensor.bytes(), '\0');
  UOPD_TRY(Read(tensor, out));
  return out;
}

}  // namespace uopd::client
