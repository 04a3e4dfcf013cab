// SPDX-License-Identifier: MIT
// Files: safetensors, and the examples of data sets.
#include "native/client.h"

#include <nanobind/stl/unique_ptr.h>

#include "client/data/idx.h"
#include "uopd/safetensors.h"

namespace uopd::python {
namespace {

using client::SafetensorsEntry;
using client::SafetensorsFile;
using client::SafetensorsMetadata;
using client::SafetensorsWriter;

nb::dict ToDict(const SafetensorsMetadata& metadata) {
  nb::dict out;
  for (const auto& [key, text] : metadata) out[nb::str(key.c_str(), key.size())] = text;
  return out;
}

nb::list ToList(const std::vector<SafetensorsEntry>& entries) {
  nb::list out;
  for (const SafetensorsEntry& e : entries) {
    out.append(nb::make_tuple(e.name, static_cast<int>(e.dtype),
                              std::vector(e.dims.begin(), e.dims.end()), e.begin, e.end));
  }
  return out;
}

std::string_view View(const nb::bytes& b) { return {b.c_str(), b.size()}; }

std::unique_ptr<SafetensorsFile> OpenReader(const std::string& path) {
  auto file = SafetensorsFile::Open(path);
  Check(file.status());
  return std::make_unique<SafetensorsFile>(*std::move(file));
}

std::unique_ptr<SafetensorsWriter> OpenWriter(
    const std::string& path, const std::vector<std::tuple<std::string, int, Dims>>& tensors,
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, dtype, dims] : tensors)
    entries.push_back({.name = name, .dtype = static_cast<Dtype>(dtype), .dims = dims});
  auto writer = SafetensorsWriter::Create(path, std::move(entries), metadata);
  Check(writer.status());
  return std::make_unique<SafetensorsWriter>(*std::move(writer));
}

// Images (count, rows, columns) and labels (count) of a folder, as u8.
std::pair<Handle, Handle> LoadExamples(const ClientHandle& c, const std::string& folder,
                                       const std::string& prefix) {
  auto& client = c.get();
  const Site site = CallerSite();
  auto data = [&] {
    nb::gil_scoped_release no_gil;
    return client::LoadExamples(folder, prefix);
  }();
  Check(data.status());
  auto [images, labels] = LockedWithoutGil([&] {
    return std::pair(
        client.FromBytes(Dtype::U8, {data->count, data->rows, data->columns}, data->images, site),
        client.FromBytes(Dtype::U8, {data->count}, data->labels, site));
  });
  return {Handle(std::move(images)), Handle(std::move(labels))};
}

}  // namespace

void BindFiles(nb::module_& m) {
  nb::class_<SafetensorsFile>(m, "SafetensorsFile")
      .def_prop_ro("entries", [](const SafetensorsFile& f) { return ToList(f.header().entries); })
      .def_prop_ro("metadata", [](const SafetensorsFile& f) { return ToDict(f.header().metadata); })
      .def_prop_ro("data_start", [](const SafetensorsFile& f) { return f.header().data_start; });
  m.def("safetensors_open", &OpenReader);
  m.def("safetensors_header_end", [](const nb::bytes& start, uint64_t size) {
    auto end = client::SafetensorsHeaderEnd(View(start), size);
    Check(end.status());
    return *end;
  });
  m.def("safetensors_parse", [](const nb::bytes& start, uint64_t size) {
    auto header = client::ParseSafetensors(View(start), size);
    Check(header.status());
    return std::pair(ToList(header->entries), ToDict(header->metadata));
  });
  nb::class_<SafetensorsWriter>(m, "SafetensorsWriter")
      .def_prop_ro("order", &SafetensorsWriter::order)
      .def("write",
           [](SafetensorsWriter& w, nb::handle object) {
             const Buffer buffer(object, false);
             const absl::Status status = [&] {
               nb::gil_scoped_release no_gil;
               return w.Write({buffer.bytes().data(), buffer.bytes().size()});
             }();
             Check(status);
           })
      .def("commit", [](SafetensorsWriter& w) {
        const absl::Status status = [&] {
          nb::gil_scoped_release no_gil;
          return w.Commit();
        }();
        Check(status);
      });
  m.def("safetensors_create", &OpenWriter);
  m.def("load_examples", &LoadExamples);
}

}  // namespace uopd::python
