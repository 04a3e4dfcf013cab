// SPDX-License-Identifier: MIT
// Files of the format GGUF, versions 2 and 3: values by key, then tensors, whose elements may be
// quantised in blocks (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Numbers are
// little-endian; files with big-endian numbers are refused.
//
// Files are not trusted. Every count, length, offset and alignment is checked, and a count is
// compared with the bytes that are left before anything is allocated for it: ParseGguf takes at
// most 4 KiB and kGgufMemoryFactor times the bytes of the header. Errors are INVALID_ARGUMENT
// unless a comment says otherwise; they name the value or the tensor, and their text is valid UTF-8
// without control characters.
//
// Objects of this header may be read by several threads at once.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "uopd/tensor.h"

namespace uopd::client {

inline constexpr uint64_t kMostGgufHeaderBytes = 100'000'000;
inline constexpr int kMostGgufAxes = 8;
inline constexpr int kMostGgufDepth = 8;                  // of arrays in arrays
inline constexpr uint64_t kMostGgufAlignment = 1u << 20;  // bytes
inline constexpr uint64_t kDefaultGgufAlignment = 32;     // bytes
inline constexpr uint64_t kGgufMemoryFactor = 8;

// A type of elements of tensors. Rows of quantised types are stored in blocks.
struct GgmlType {
  uint32_t number = 0;    // in files
  std::string_view name;  // that of GGML: "F32", "Q4_K"
  uint32_t block_elements = 1;
  uint32_t block_bytes = 0;
  std::optional<Dtype> dtype;  // of types that are not quantised
};
// The types that are known here, in the order of their numbers. They are constants.
std::span<const GgmlType> GgmlTypes();
// Nullptr: the number is not known here.
const GgmlType* FindGgmlType(uint32_t number);

// Types of values, with their numbers in files.
enum class GgufType : uint8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

// `count` elements of one type as they lie in the file; GgufElements reads them. The bytes belong
// to whoever owns those of the header.
struct GgufArray {
  GgufType type = GgufType::kUint8;
  uint64_t count = 0;
  std::string_view bytes;
};

// Unsigned integers, signed integers, floats, bools, strings, arrays, whatever their widths.
// Strings are the bytes of the file, which need not be UTF-8.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

// Reads the elements of an array of a parsed header one by one. It allocates nothing.
class GgufElements {
 public:
  explicit GgufElements(const GgufArray& array) : array_(array), left_(array.count) {}
  uint64_t left() const { return left_; }
  // The next element. REQUIRES: left() > 0.
  GgufValue Next();

 private:
  GgufArray array_;
  uint64_t left_;
  uint64_t at_ = 0;  // bytes
};

struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kUint8;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  Dims dims;                       // the outermost axis first; files have them the other way round
  const GgmlType* type = nullptr;  // of GgmlTypes(); never nullptr in a parsed header
  uint64_t begin = 0, end = 0;     // bytes, from GgufHeader::data_start
};

// Strings and arrays are views of the bytes that ParseGguf was given.
struct GgufHeader {
  uint32_t version = 0;
  std::vector<GgufEntry> values;    // in the order of the file
  std::vector<GgufTensor> tensors;  // in the order of the file
  uint64_t alignment = 0;           // bytes
  uint64_t data_start = 0;          // where the contents of tensors begin in the file, in bytes

  // The value of a key, or nullptr. It looks at one key after the other.
  const GgufValue* Find(std::string_view key) const;
};

// The header at the beginning of a file of `file_bytes` bytes. `start` has the first bytes of the
// file and must stay as it is while the header is used. OUT_OF_RANGE: the header goes on behind
// `start`, and no mistake was found up to there; the caller needs more bytes of the file. This is
// never the answer if `start` is the whole file or has kMostGgufHeaderBytes.
//
// Each tensor of the result has at most kMostGgufAxes axes, at most 2^48 - 1 elements, rows of
// whole blocks, an aligned beginning and an end within the file. No two tensors have a name or a
// byte in common.
absl::StatusOr<GgufHeader> ParseGguf(std::string_view start, uint64_t file_bytes);

// An open file with its header. Only regular files are opened; others are refused without waiting
// for their other end.
//
// The file is not mapped: a file that somebody makes shorter while it is mapped ends the process
// with SIGBUS. Instead the header is copied by pread, and Read copies the contents of a tensor
// once, from the system's cache of files into memory of the caller, from where they can be sent. So
// a file may be larger than memory, and one that becomes shorter is an error. The copy of the
// header has at most twice its bytes, or 256 KiB.
class GgufFile {
 public:
  static absl::StatusOr<GgufFile> Open(const std::string& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  // Its strings and arrays are views of what this object owns, and stay valid where it is moved to.
  const GgufHeader& header() const;
  // Copies the contents of one of the header's tensors. INVALID_ARGUMENT: `out` has not end - begin
  // bytes. DATA_LOSS: the file became shorter since Open.
  absl::Status Read(const GgufTensor& tensor, std::span<char> out) const;

 private:
  struct File;
  explicit GgufFile(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
};

}  // namespace uopd::client
