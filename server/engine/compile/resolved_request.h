// SPDX-License-Identifier: MIT
// What a request asks for, found out once. rpc makes a ResolvedRequest when a call comes in
// (ProgramCalls::Resolve) and hands it on to the launch. Who asks is in RequestContext::caller.
//
// Invariants
//   (1) Nobody behind Resolve fills in options, and the bytes of a graph are hashed at most once.
//   (2) After a wait the program may be there that was not, or be gone with its device. So whoever
//       goes on after a wait calls CompileService::Find again, which is one lookup in a table.
//
// Used by one thread at a time.
#pragma once
#include <memory>
#include <optional>

#include "core/base/digest.h"
#include "core/base/status.h"
#include "server/engine/base/compile_options.h"
#include "server/engine/compile/schedule/graph.h"

namespace uopd::engine {

class ProgramHandle;

struct ResolvedRequest {
  GraphRef graph;          // refers to the message of the request
  CompileOptions options;  // with the daemon's own choice for what the request leaves open
  absl::Status refused;    // not OK: an option that the daemon does not take
  // Of the bytes; without bytes, the one that the request names. nullopt: not hashed yet, or no
  // digest.
  std::optional<Digest> digest;
  std::shared_ptr<ProgramHandle> program;  // null: not prepared
};

}  // namespace uopd::engine
