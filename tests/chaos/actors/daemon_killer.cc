// SPDX-License-Identifier: MIT
// Kills the daemon (SIGKILL) and starts a new one on its folder. Sometimes files of the cache are
// damaged in between.
#include <filesystem>
#include <fstream>

#include "tests/chaos/actor.h"

namespace uopd::chaos::daemon_killer {
namespace {

// Cuts a file of the folder, or overwrites a part of it.
void Damage(World& world, const std::string& folder, std::mt19937_64& random) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  if (files.empty()) return;
  const auto& file = files[random() % files.size()];
  world.SetDamaged(file);
  const auto size = std::filesystem::file_size(file, error);
  if (random() % 2 == 0) {
    std::filesystem::resize_file(file, random() % size, error);
  } else {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(random() % size));
    for (int i = 0; i < 64; ++i) out.put(static_cast<char>(random()));
  }
}

void Kill(World& world, int) {
  auto random = world.Random("daemon_killer", 0);
  while (world.Pause(2 + static_cast<double>(random() % 6000) / 1e3)) world.WishRestart({});
}

void KillAndDamage(World& world, int) {
  auto random = world.Random("cache_damager", 0);
  while (world.Pause(4 + static_cast<double>(random() % 8000) / 1e3)) {
    world.WishRestart([&world, seed = random()](const std::string& folder) {
      std::mt19937_64 own(seed);
      Damage(world, folder, own);
      world.report().Count("files_damaged");
    });
  }
}

const Register kKiller({.name = "daemon_killer",
                        .doc = "kill -9 of the daemon every 2 to 8 seconds",
                        .copies = 1,
                        .act = Kill});
const Register kDamager({.name = "cache_damager",
                         .doc = "kill -9 with a file of the cache cut or overwritten meanwhile",
                         .copies = 1,
                         .act = KillAndDamage});

}  // namespace
}  // namespace uopd::chaos::daemon_killer
