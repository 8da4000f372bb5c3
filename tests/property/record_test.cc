// SPDX-License-Identifier: Apache-2.0
// A recorded manager under random operations, and its log: the replay has every status, every result and the
// same digest, on a manager with another hash seed. Without arguments about 100,000 calls on managers of many
// shapes.
//   --operations N    calls of all managers    --seed S    of the first manager (default 1)
//   --write FILE      one log of 3,000 operations, and its digest, for other programs
#include <kvcache/record.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "property/generator.h"

namespace {

using Log = std::vector<unsigned char>;

struct Recorded {
  Log log;
  uint64_t digest = 0;
  std::string error;
};

// Random operations on one recorded manager; its log is taken now and then.
Recorded record(uint64_t seed, uint64_t operations) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  Setup setup = random_setup(random);
  setup.record_bytes = 1 << 20;
  setup.config.near = model::Config{}.near;  // a replay has no hook
  World world(setup, 1, ~uint64_t{0});
  Generator generator(random, setup);
  Recorded out;
  for (uint64_t i = 0; i < operations && out.error.empty(); ++i) {
    out.error = world.apply(generator.next(world), i % 64 == 0).error;
    if (random.chance(2)) world.take_log(0, out.log);
  }
  out.digest = world.digest(0);
  world.take_log(0, out.log);
  return out;
}

bool replays(const Recorded& recorded, uint64_t* calls) {
  kvc_replay_info info{};
  info.struct_size = sizeof info;
  if (!recorded.error.empty()) {
    std::printf("%s\n", recorded.error.c_str());
  } else if (kvc_log_replay(recorded.log.data(), recorded.log.size(), &info) != KVC_OK) {
    std::printf("%s\n", kvc_last_error());
  } else if (info.mismatches != 0 || info.lost_calls != 0) {
    std::printf("%llu mismatches, %llu lost calls: %s\n", static_cast<unsigned long long>(info.mismatches),
                static_cast<unsigned long long>(info.lost_calls), info.text);
  } else if (info.digest != recorded.digest) {
    std::printf("the digest is %016llx, that of the recorded manager %016llx\n",
                static_cast<unsigned long long>(info.digest),
                static_cast<unsigned long long>(recorded.digest));
  } else {
    *calls += info.calls;
    return true;
  }
  return false;
}

int write_log(const char* path, uint64_t seed) {
  const Recorded recorded = record(seed, 3000);
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr || !recorded.error.empty()) return 1;
  std::fwrite(recorded.log.data(), 1, recorded.log.size(), file);
  std::printf("%016llx\n", static_cast<unsigned long long>(recorded.digest));
  return std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t operations = 100000, seed = 1, calls = 0, bytes = 0;
  const char* path = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--operations") == 0) operations = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--write") == 0) path = argv[i + 1];
  }
  if (path != nullptr) return write_log(path, seed);
  constexpr uint64_t kEpisode = 1000;
  for (uint64_t done = 0; done < operations; done += kEpisode, ++seed) {
    const Recorded recorded = record(seed, kEpisode);
    bytes += recorded.log.size();
    if (replays(recorded, &calls)) continue;
    std::printf("FAILED with --seed %llu\n", static_cast<unsigned long long>(seed));
    return 1;
  }
  std::printf("%llu calls, %.1f bytes each: all replayed\n", static_cast<unsigned long long>(calls),
              static_cast<double>(bytes) / static_cast<double>(calls));
  return calls < operations / 2;
}
