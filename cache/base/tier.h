// SPDX-License-Identifier: MIT
// A tier is one place in which a store keeps rows: blobs and their administration.
#pragma once
#include "cache/base/admin.h"
#include "cache/base/blobs.h"

namespace uopd::cache {

class Tier : public Blobs, public Admin {};

}  // namespace uopd::cache
