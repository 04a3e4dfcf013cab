// SPDX-License-Identifier: MIT
// A temporary folder with keys of both kinds.
#pragma once
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "cache/cluster/seal_key.h"

namespace uopd::cache {

class KeyFiles : public ::testing::Test {
 protected:
  KeyFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-keys-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    hmac_ = *SealKey::Read(Secret("hmac1", std::string(64, '1')));
    other_hmac_ = *SealKey::Read(Secret("hmac2", std::string(64, '2')));
    ed25519_ = *SealKey::Read(Pem("ed1", false, 1));
    public_ed25519_ = *SealKey::Read(Pem("ed1.public", true, 1));
    other_ed25519_ = *SealKey::Read(Pem("ed2", false, 2));
  }
  ~KeyFiles() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::trunc) << text;
    chmod(path.c_str(), 0600);
    return path;
  }
  std::string Secret(const std::string& name, const std::string& hex) {
    return Write(name, hex + "\n");
  }

  // The file of a key of Ed25519 whose seed is 32 times `seed`.
  std::string Pem(const std::string& name, bool is_public, char seed) {
    const std::string raw(32, seed);
    EVP_PKEY* key = EVP_PKEY_new_raw_private_key(
        EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(raw.data()), raw.size());
    BIO* bio = BIO_new(BIO_s_mem());
    if (is_public) {
      PEM_write_bio_PUBKEY(bio, key);
    } else {
      PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);  // NOLINT(google-runtime-int)
    std::string text(data, static_cast<size_t>(size));
    BIO_free(bio);
    EVP_PKEY_free(key);
    return is_public ? Secret(name, text) : Write(name, text);
  }

  std::string folder_;
  SealKey hmac_, other_hmac_, ed25519_, public_ed25519_, other_ed25519_;
};

}  // namespace uopd::cache
