// SPDX-License-Identifier: MIT
#include "client/data/npy.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "core/base/text.h"

namespace uopd::client {
namespace {

using ir::Dtype;

constexpr std::string_view kMagic = "\x93NUMPY";

constexpr struct {
  std::string_view code;
  Dtype dtype;
} kCodes[] = {{"b1", Dtype::Bool}, {"i1", Dtype::I8},  {"u1", Dtype::U8},  {"i2", Dtype::I16},
              {"u2", Dtype::U16},  {"i4", Dtype::I32}, {"u4", Dtype::U32}, {"i8", Dtype::I64},
              {"u8", Dtype::U64},  {"f2", Dtype::F16}, {"f4", Dtype::F32}, {"f8", Dtype::F64}};

absl::Status BadNpy(std::string message) {
  return absl::InvalidArgumentError(Cat("npy: ", message));
}

// Reads the header, a Python dict literal with three known keys, and no other syntax.
class Header {
 public:
  explicit Header(std::string_view text) : rest_(text) {}

  bool Eat(char c) {
    Skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> Quoted() {
    Skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return out;
  }
  bool Word(std::string_view word) {
    Skip();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<int64_t> Number() {
    Skip();
    int64_t v = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), v);
    if (error != std::errc() || v < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return v;
  }

 private:
  void Skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t'))
      rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

absl::Status ReadDtype(std::string_view text, NpyArray& out) {
  if (text.size() < 2) return BadNpy(Cat("dtype `", text, "` is unknown"));
  const char order = text[0];
  for (const auto& entry : kCodes) {
    if (entry.code != text.substr(1)) continue;
    if (order == '>' && ir::ByteSize(entry.dtype) > 1)
      return BadNpy(Cat("dtype `", text, "` is big-endian"));
    if (order != '<' && order != '|' && order != '=' && order != '>') break;
    out.dtype = entry.dtype;
    return absl::OkStatus();
  }
  return BadNpy(Cat("dtype `", text, "` is not supported"));
}

absl::Status ReadHeader(std::string_view text, NpyArray& out) {
  Header h(text);
  bool has_dtype = false, has_order = false, has_shape = false;
  if (!h.Eat('{')) return BadNpy("the header is no dictionary");
  while (!h.Eat('}')) {
    const auto key = h.Quoted();
    if (!key || !h.Eat(':')) return BadNpy("the header is malformed");
    if (*key == "descr") {
      const auto dtype = h.Quoted();
      if (!dtype) return BadNpy("structured dtypes are not supported");
      UOPD_TRY(ReadDtype(*dtype, out));
      has_dtype = true;
    } else if (*key == "fortran_order") {
      if (h.Word("True")) return BadNpy("the array is in Fortran order");
      if (!h.Word("False")) return BadNpy("the header is malformed");
      has_order = true;
    } else if (*key == "shape") {
      if (!h.Eat('(')) return BadNpy("the shape is malformed");
      while (!h.Eat(')')) {
        const auto d = h.Number();
        if (!d || out.dims.size() == ir::kMaxRank) return BadNpy("the shape is malformed");
        out.dims.push_back(*d);
        h.Eat(',');
      }
      has_shape = true;
    } else {
      return BadNpy(Cat("the header has an unknown key `", *key, "`"));
    }
    h.Eat(',');
  }
  return has_dtype && has_order && has_shape ? absl::OkStatus() : BadNpy("the header lacks a key");
}

}  // namespace

absl::StatusOr<NpyArray> ParseNpy(std::string_view file) {
  if (!file.starts_with(kMagic) || file.size() < 10) return BadNpy("this is no npy file");
  const int version = static_cast<unsigned char>(file[6]);
  if (version < 1 || version > 3) return BadNpy(Cat("version ", version, " is unknown"));
  const size_t length_bytes = version == 1 ? 2 : 4, start = 8 + length_bytes;
  if (file.size() < start) return BadNpy("the file is cut off in its header");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(file[8 + i])) << (8 * i);
  if (length > file.size() - start) return BadNpy("the file is cut off in its header");
  NpyArray out;
  UOPD_TRY(ReadHeader(file.substr(start, length), out));
  __int128 bytes = ir::ByteSize(out.dtype);
  for (int64_t d : out.dims) bytes = std::min<__int128>(bytes * d, __int128{1} << 62);
  const std::string_view data = file.substr(start + length);
  if (bytes != static_cast<__int128>(data.size()))
    return BadNpy(Cat("the shape takes ", bytes, " bytes; the file has ", data.size()));
  out.bytes = data;
  if (out.dtype == Dtype::Bool) {  // kernels need bools to be 0 or 1
    for (char& c : out.bytes) c = c != 0;
  }
  return out;
}

absl::StatusOr<std::string> FormatNpy(const NpyArray& array) {
  std::string_view code;
  for (const auto& entry : kCodes) {
    if (entry.dtype == array.dtype) code = entry.code;
  }
  if (code.empty()) return BadNpy(Cat("NumPy has no ", ir::Name(array.dtype)));
  std::string header = Cat("{'descr': '", ir::ByteSize(array.dtype) == 1 ? "|" : "<", code,
                           "', 'fortran_order': False, 'shape': (");
  for (int64_t d : array.dims) Append(header, d, ",");
  header += "), }";
  // Padded so that the data starts at a multiple of 64.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header + array.bytes;
}

}  // namespace uopd::client
