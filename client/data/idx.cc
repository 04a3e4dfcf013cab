// SPDX-License-Identifier: MIT
#include "client/data/idx.h"

#include <zlib.h>

#include <filesystem>
#include <sstream>

#include "client/data/files.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr size_t kMaxArray = size_t{1} << 30;

absl::StatusOr<std::string> Gunzip(std::string_view in, size_t max_bytes) {
  z_stream z{};
  if (inflateInit2(&z, 15 + 16) != Z_OK) return absl::InternalError("zlib cannot be initialised");
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK && out.size() <= max_bytes) {
    const size_t at = out.size(), step = std::max<size_t>(size_t{1} << 16, at);
    out.resize(at + step);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + at);
    z.avail_out = static_cast<uInt>(step);
    result = inflate(&z, Z_NO_FLUSH);
    out.resize(at + step - z.avail_out);
    if (result == Z_OK && z.avail_in == 0 && z.avail_out > 0) break;  // no end, no more input
  }
  inflateEnd(&z);
  if (out.size() > max_bytes)
    return Invalid(Cat("the unpacked file is over ", max_bytes, " bytes"));
  if (result != Z_STREAM_END)
    return Invalid(result == Z_OK || result == Z_BUF_ERROR ? "the gzip data is cut off"
                                                           : "the gzip data is damaged");
  return out;
}

uint32_t BigEndian(std::string_view bytes) {
  uint32_t v = 0;
  for (int i = 0; i < 4; ++i)
    v = v << 8 | static_cast<unsigned char>(bytes[static_cast<size_t>(i)]);
  return v;
}

absl::StatusOr<IdxArray> LoadIdx(const std::string& folder, const std::string& stem,
                                 const std::string& kind, size_t rank) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const std::string path = Cat(folder, "/", stem, separator, kind, "-ubyte", suffix);
      std::error_code error;
      if (!std::filesystem::exists(path, error)) continue;
      UOPD_ASSIGN(std::string file, ReadFile(path));
      auto array = ParseIdx(file, kMaxArray);
      if (!array.ok()) return WithFrame(array.status(), Cat("reading ", path));
      if (array->dims.size() != rank)
        return Invalid(Cat(path, " has ", array->dims.size(), " dimensions, not ", rank));
      return array;
    }
  }
  return absl::NotFoundError(Cat("no ", stem, "-", kind, "-ubyte[.gz] in ", folder));
}

}  // namespace

absl::StatusOr<IdxArray> ParseIdx(std::string_view file, size_t max_bytes) {
  std::string unpacked;
  if (file.starts_with("\x1f\x8b")) {
    UOPD_ASSIGN(unpacked, Gunzip(file, max_bytes));
    file = unpacked;
  }
  if (file.size() < 4) return Invalid("the IDX file is cut off in its header");
  if (file[0] != 0 || file[1] != 0)
    return Invalid("this is no IDX file: its first two bytes are not zero");
  if (file[2] != 0x08)
    return Invalid(Cat("the IDX file holds elements of type ",
                       static_cast<int>(static_cast<unsigned char>(file[2])),
                       ", not unsigned bytes (8)"));
  const auto rank = static_cast<size_t>(static_cast<unsigned char>(file[3]));
  if (rank == 0 || rank > 8) return Invalid(Cat("the IDX file has ", rank, " dimensions"));
  if (file.size() < 4 + 4 * rank) return Invalid("the IDX file is cut off in its header");
  IdxArray out;
  __int128 size = 1;
  for (size_t i = 0; i < rank; ++i) {
    out.dims.push_back(BigEndian(file.substr(4 + 4 * i)));
    size = std::min<__int128>(size * out.dims.back(), __int128{1} << 62);
  }
  const std::string_view data = file.substr(4 + 4 * rank);
  if (size != static_cast<__int128>(data.size()))
    return Invalid(Cat("the IDX file announces ", size, " bytes and has ", data.size()));
  out.bytes = data;
  return out;
}

absl::StatusOr<Examples> LoadExamples(const std::string& folder, const std::string& prefix) {
  UOPD_ASSIGN(IdxArray images, LoadIdx(folder, prefix + "-images", "idx3", 3));
  UOPD_ASSIGN(IdxArray labels, LoadIdx(folder, prefix + "-labels", "idx1", 1));
  if (images.dims[0] != labels.dims[0]) {
    return Invalid(Cat(prefix, " has ", images.dims[0], " images and ", labels.dims[0], " labels"));
  }
  if (images.bytes.empty()) return Invalid(Cat(prefix, " has no images"));
  return Examples{images.dims[0], images.dims[1], images.dims[2], std::move(images.bytes),
                  std::move(labels.bytes)};
}

}  // namespace uopd::client
