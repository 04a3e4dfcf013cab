// SPDX-License-Identifier: MIT
// ContentCalls: the call by which a session binds its handles to constants that the daemon keeps by
// their contents.
//
// Each call is made on the strand of its session. Thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/work_limits.h"
#include "server/engine/buffer_calls.h"
#include "server/engine/content/content_store.h"

namespace uopd::engine {

// What a client names: views into its request.
struct NamedContent {
  uint64_t handle = 0, bytes = 0;
  std::string_view device, sha256, proof;
};

class ContentCalls {
 public:
  static constexpr size_t kMostContents = 4096;  // of one call

  // The arguments outlive this object.
  ContentCalls(ContentStore& store, DeviceSet& devices, BufferCalls& buffers)
      : store_(store), devices_(devices), buffers_(buffers) {}

  // Returns the positions of those that the client has to upload. Errors name the content; those
  // before it are bound. A handle that is bound already stays so, and is no error.
  absl::StatusOr<std::vector<uint32_t>> Open(Session& session,
                                             std::span<const NamedContent> contents,
                                             const WorkLimits& limits);

 private:
  // True: the handle is bound.
  absl::StatusOr<bool> Bind(Session& session, const NamedContent& content,
                            const WorkLimits& limits);
  // For a buffer that the session has.
  absl::Status Seal(Session& session, const NamedContent& content, const Digest& sha256,
                    DeviceState& device, const WorkLimits& limits);

  ContentStore& store_;
  DeviceSet& devices_;
  BufferCalls& buffers_;
};

}  // namespace uopd::engine
