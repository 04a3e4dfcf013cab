// SPDX-License-Identifier: MIT
// Certificates for a server of a test.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace uopd::test {

// Writes into the folder: ca.pem, and cert.pem and key.pem of a server at localhost and 127.0.0.1
// that ca.pem has signed.
absl::Status MakeCertificates(const std::string& folder);

}  // namespace uopd::test
