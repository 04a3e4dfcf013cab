// SPDX-License-Identifier: MIT
// Files of the data folder shrink and vanish under the daemon.
#include <filesystem>

#include "tests/chaos/actor.h"

namespace uopd::chaos::file_shrinker {
namespace {

void Act(World& world, int) {
  auto random = world.Random("file_shrinker", 0);
  while (world.Pause(1 + static_cast<double>(random() % 3000) / 1e3)) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(world.data_folder(), error)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    if (files.empty()) continue;
    const auto& file = files[random() % files.size()];
    world.SetDamaged(file);
    if (random() % 3 == 0) {
      std::filesystem::remove(file, error);
    } else {
      const auto size = std::filesystem::file_size(file, error);
      if (!error && size > 0) std::filesystem::resize_file(file, random() % size, error);
    }
    world.report().Count("files_shrunk");
  }
}

const Register kRegister({.name = "file_shrinker",
                          .doc = "files of the data folder shrink and vanish under the daemon",
                          .copies = 1,
                          .act = Act});

}  // namespace
}  // namespace uopd::chaos::file_shrinker
