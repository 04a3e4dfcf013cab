// SPDX-License-Identifier: MIT
// Reading and writing safetensors files.
#include <algorithm>
#include <numeric>

#include "client/cpp/state/regular_file.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "uopd/safetensors.h"

namespace uopd::client {

struct SafetensorsFile::File {
  RegularFile file;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  UOPD_ASSIGN(RegularFile file, RegularFile::Open(path));
  SafetensorsFile out(std::make_unique<File>(std::move(file)));
  const uint64_t bytes = out.file_->file.bytes();
  const std::string frame = Cat("reading ", path);
  std::string start(std::min<uint64_t>(bytes, 8), '\0');
  UOPD_TRY(out.file_->file.ReadAt(0, start));
  const auto end = SafetensorsHeaderEnd(start, bytes);
  if (!end.ok()) return WithFrame(end.status(), frame);
  start.resize(*end);
  UOPD_TRY(out.file_->file.ReadAt(8, std::span(start).subspan(8)));
  auto header = ParseSafetensors(start, bytes);
  if (!header.ok()) return WithFrame(header.status(), frame);
  out.header_ = *std::move(header);
  return out;
}

absl::StatusOr<std::string> SafetensorsFile::Read(const SafetensorsEntry& entry) const {
  std::string bytes(entry.end - entry.begin, '\0');
  UOPD_TRY(file_->file.ReadAt(header_.data_start + entry.begin, bytes));
  if (entry.dtype == Dtype::Bool) {  // kernels need bools to be 0 or 1
    for (char& c : bytes) c = c != 0;
  }
  return bytes;
}

struct SafetensorsWriter::File {
  OutputFile out;
};

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(const std::string& path,
                                                            std::vector<SafetensorsEntry> entries,
                                                            const SafetensorsMetadata& metadata) {
  UOPD_ASSIGN(const std::string start, FormatSafetensors(entries, metadata));
  UOPD_ASSIGN(OutputFile made, OutputFile::Create(path, {.own_links = true, .durable = true}));
  UOPD_TRY(made.Write(start));
  SafetensorsWriter out(std::make_unique<File>(std::move(made)));
  out.order_.resize(entries.size());
  std::iota(out.order_.begin(), out.order_.end(), 0);
  std::sort(out.order_.begin(), out.order_.end(), [&](size_t a, size_t b) {
    return std::tuple(entries[a].begin, entries[a].end, a) <
           std::tuple(entries[b].begin, entries[b].end, b);
  });
  for (const size_t i : out.order_) out.sizes_.push_back(entries[i].end - entries[i].begin);
  return out;
}

absl::Status SafetensorsWriter::Write(std::string_view contents) {
  if (file_ == nullptr || next_ == sizes_.size())
    return absl::FailedPreconditionError("every tensor of the file was written");
  if (contents.size() != sizes_[next_]) {
    return Invalid(Cat("the tensor takes ", sizes_[next_], " bytes, not ", contents.size()));
  }
  UOPD_TRY(file_->out.Write(contents));
  ++next_;
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Commit() {
  if (file_ == nullptr || next_ != sizes_.size())
    return absl::FailedPreconditionError("not every tensor of the file was written");
  UOPD_TRY(file_->out.Keep());
  file_.reset();
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsContents> LoadSafetensors(Client& client, const std::string& path) {
  UOPD_ASSIGN(const SafetensorsFile file, SafetensorsFile::Open(path));
  SafetensorsContents out;
  out.metadata = file.header().metadata;
  Future sent;  // the contents of the tensor before
  for (const SafetensorsEntry& e : file.header().entries) {
    UOPD_ASSIGN(const std::string bytes, file.Read(e));
    UOPD_TRY(WithFrame(sent.Wait(), "uploading a tensor"));
    out.tensors.emplace_back(e.name, client.FromBytes(e.dtype, e.dims, bytes));
    UOPD_TRY(out.tensors.back().second.status());
    sent = out.tensors.back().second.Upload();
  }
  UOPD_TRY(WithFrame(sent.Wait(), "uploading a tensor"));
  return out;
}

absl::Status SaveSafetensors(const std::string& path, const StateDict& tensors,
                             const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsEntry> entries;
  std::vector<Tensor> all;
  for (const auto& [name, tensor] : tensors) {
    UOPD_TRY(WithFrame(tensor.status(), Cat("saving `", name, "`")));
    if (tensor.is_symbolic()) return Invalid(Cat("`", name, "` has a symbolic dimension"));
    entries.push_back({.name = name, .dtype = tensor.dtype(), .dims = tensor.dims()});
    all.push_back(tensor);
  }
  UOPD_ASSIGN(SafetensorsWriter writer, SafetensorsWriter::Create(path, entries, metadata));
  UOPD_TRY(Submit(all));
  for (const size_t i : writer.order()) {
    UOPD_ASSIGN(const std::string bytes, all[i].ToBytes());
    UOPD_TRY(writer.Write(bytes));
  }
  return writer.Commit();
}

}  // namespace uopd::client
