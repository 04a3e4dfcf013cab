// SPDX-License-Identifier: MIT
#include "tests/support/services/certificates.h"

#include <cstdlib>

#include "core/base/text.h"

namespace uopd::test {

absl::Status MakeCertificates(const std::string& folder) {
  const std::string line =
      Cat("cd '", folder,
          "' && exec >openssl.log 2>&1 && ec='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
          "-nodes' && ",
          "openssl req -x509 $ec -keyout ca.key -out ca.pem -days 2 -subj /CN=ca && ",
          "openssl req $ec -keyout key.pem -out cert.req -subj /CN=localhost && ",
          "printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\\n' > ext && ",
          "openssl x509 -req -in cert.req -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
          "-extfile ext -out cert.pem");
  if (std::system(line.c_str()) == 0) return absl::OkStatus();  // NOLINT(concurrency-mt-unsafe)
  return absl::UnavailableError("openssl cannot make certificates");
}

}  // namespace uopd::test
