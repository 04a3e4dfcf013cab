// SPDX-License-Identifier: MIT
// What the calls about the cache share: messages to types of the cache.
#pragma once
#include <string>
#include <string_view>

#include "cache/base/row/entries.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::rpc {

// Nothing is checked here. `unused_s` is counted from now.
cache::EntryFilter ToFilter(const v1::CacheFilter& filter);

// Text for a message: bytes that are no printable ASCII become question marks, and what is above
// `most` bytes is cut. Keys of damaged rows may be anything.
std::string Printable(std::string_view text, size_t most = 4096);

}  // namespace uopd::rpc
