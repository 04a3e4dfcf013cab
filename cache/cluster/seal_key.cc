// SPDX-License-Identifier: MIT
#include "cache/cluster/seal_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "core/base/digest.h"
#include "core/base/secret_file.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr size_t kMinSecretBytes = 32;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string IdOf(SealKind kind, std::string_view key) {
  const Digest digest = HashBytes(Cat("uopd key id ", static_cast<int>(kind), ":", key));
  return std::string(digest.view().substr(0, SealKey::kIdBytes));
}

EVP_PKEY* ReadPem(const std::string& text, bool is_private) {
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (bio == nullptr) return nullptr;
  // An empty password: an encrypted key is refused. Without it OpenSSL would ask the terminal.
  std::string none;
  return is_private ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, none.data())
                    : PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, none.data());
}

bool IsHex(std::string_view text) {
  if (text.size() % 2 != 0) return false;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<SealKey> SealKey::Read(const std::string& path) {
  constexpr std::string_view kPublic = "-----BEGIN PUBLIC KEY-----";
  UOPD_ASSIGN(std::string text, ReadSecretFile(path, /*is_public=*/true));
  const bool is_public = text.starts_with(kPublic);
  if (!is_public) UOPD_TRY(ReadSecretFile(path).status());
  SealKey key;
  if (text.starts_with("-----BEGIN ")) {
    EVP_PKEY* pkey = ReadPem(text, !is_public);
    OPENSSL_cleanse(text.data(), text.size());
    if (pkey == nullptr) return Invalid(Cat("The file ", path, " holds no key that can be read"));
    key.pkey_ = {pkey, EVP_PKEY_free};
    std::array<unsigned char, 32> raw;
    size_t size = raw.size();
    if (EVP_PKEY_base_id(pkey) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(pkey, raw.data(), &size) != 1)
      return Invalid(Cat("The key in the file ", path, " is not an Ed25519 key"));
    key.id_ = IdOf(SealKind::kEd25519, {reinterpret_cast<const char*>(raw.data()), size});
    key.can_sign_ = !is_public;
    return key;
  }
  const bool fits = IsHex(text) && text.size() >= 2 * kMinSecretBytes;
  if (fits) key.secret_ = absl::HexStringToBytes(text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!fits) {
    return Invalid(Cat("The file ", path,
                       " is neither a PEM of an Ed25519 key nor a secret of at least ",
                       kMinSecretBytes, " bytes in hexadecimal digits"));
  }
  key.id_ = IdOf(SealKind::kHmacSha256, key.secret_);
  key.can_sign_ = true;
  return key;
}

std::string SealKey::Sign(std::string_view bytes) const {
  UOPD_CHECK(can_sign_);
  std::array<unsigned char, EVP_MAX_MD_SIZE> out;
  size_t size = out.size();
  if (pkey_ == nullptr) {
    unsigned int length = 0;
    UOPD_CHECK(HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()), Bytes(bytes),
                    bytes.size(), out.data(), &length) != nullptr);
    size = length;
  } else {
    const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
    UOPD_CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, pkey_.get()) == 1);
    UOPD_CHECK(EVP_DigestSign(context.get(), out.data(), &size, Bytes(bytes), bytes.size()) == 1);
  }
  return {reinterpret_cast<const char*>(out.data()), size};
}

bool SealKey::Verify(std::string_view bytes, std::string_view signature) const {
  if (id_.empty()) return false;
  if (pkey_ == nullptr) {
    const std::string right = Sign(bytes);
    return signature.size() == right.size() &&
           CRYPTO_memcmp(signature.data(), right.data(), right.size()) == 0;
  }
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, pkey_.get()) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(bytes),
                          bytes.size()) == 1;
}

const SealKey* FindKey(const std::vector<SealKey>& keys, SealKind kind, std::string_view id) {
  for (const SealKey& key : keys) {
    if (key.kind() == kind && key.id() == id) return &key;
  }
  return nullptr;
}

}  // namespace uopd::cache
