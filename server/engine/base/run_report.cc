// SPDX-License-Identifier: MIT
#include "server/engine/base/run_report.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

// Cuts the text after a line so that it has at most `bytes` bytes, the note included.
void Cut(std::string& text, size_t bytes) {
  constexpr size_t kNote = 64;
  if (text.size() <= bytes) return;
  const size_t keep = bytes > kNote ? bytes - kNote : 0;
  const size_t line = keep == 0 ? std::string::npos : text.rfind('\n', keep - 1);
  const size_t end = line == std::string::npos ? 0 : line + 1;
  const size_t cut = text.size() - end;
  text.resize(end);
  if (bytes >= kNote) Append(text, "... ", cut, " more bytes of text\n");
}

size_t MessageBytes(const KernelReport& kernel) {
  constexpr size_t kNumbers = 64;
  return kernel.kernel.size() + kernel.device.size() + kernel.opts.size() + kNumbers;
}

}  // namespace

double Roof::LeastNs(DtypeNumber dtype, double flops, double bytes) const {
  const auto found = ops_per_s.find(dtype);
  const double ops = found == ops_per_s.end() ? 0 : found->second;
  const double rate =
      bytes <= cache_bytes ? std::max(cache_bytes_per_s, memory_bytes_per_s) : memory_bytes_per_s;
  return 1e9 * std::max(ops > 0 ? flops / ops : 0, rate > 0 ? bytes / rate : 0);
}

bool RunReport::AddText(std::string_view lines) {
  if (full_) return false;
  text += lines;
  if (text.size() <= kMaxTextBytes) return true;
  Cut(text, kMaxTextBytes);
  full_ = true;
  return false;
}

void RunReport::Shorten(size_t bytes) {
  Cut(text, bytes / 2);
  size_t left = bytes - std::min(bytes, text.size());
  size_t kept = 0;
  for (; kept < kernels.size(); ++kept) {
    const size_t size = MessageBytes(kernels[kept]);
    if (size > left) break;
    left -= size;
  }
  for (size_t i = kept; i < kernels.size(); ++i) {
    ++left_out;
    left_out_ns += kernels[i].ns;
  }
  kernels.resize(kept);
}

}  // namespace uopd::engine
