// A small, fast, seeded random source for simulations, loads and tests: the same seed gives the
// same numbers on every machine (std::uniform_int_distribution does not promise that).
// Source: Blackman and Vigna, xoshiro256** 1.0 (public domain); seeded by splitmix64.
#pragma once

#include <cmath>
#include <cstdint>

namespace weir {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15u;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
      word = z ^ (z >> 31);
    }
  }
  uint64_t Next() {
    const uint64_t result = Rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }
  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Uniform in [low, high], both inclusive. Requires: low <= high.
  int64_t Range(int64_t low, int64_t high) {
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    if (span == 0) return static_cast<int64_t>(Next());
    return static_cast<int64_t>(
        static_cast<uint64_t>(low) +
        static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * span) >> 64));
  }
  bool Chance(double probability) { return Uniform() < probability; }
  // Exponentially distributed with the given mean.
  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace weir
