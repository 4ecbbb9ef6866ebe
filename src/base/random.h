// SPDX-License-Identifier: MIT
// Counter-based noise: Philox4x32-10, keyed by what a number is for and never by when it is drawn.
//
// Source: Salmon et al. 2011 (Random123). A number depends on (seed, sequence, layer, head, event, index,
// stream) alone, so it is the same whatever the threads, the batch or the order of slots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kvase {

using PhiloxWords = std::array<uint32_t, 4>;

PhiloxWords philox4x32(PhiloxWords counter, std::array<uint32_t, 2> key);

enum class NoiseStream : uint32_t {
  race = 0x52414345,     // exponential race of sampling without replacement
  matrix = 0x47415553,   // Gaussian matrices
  reserve = 0x52455356,  // random reserve of the ablation
  token = 0x544F4B4E,    // the final draw of a token
};

inline constexpr uint32_t kSharedHead = 0xFFFF;  // objects that all KV heads share

struct NoiseKey {
  uint64_t seed = 0;
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint32_t head = kSharedHead;
  uint32_t event = 0;
};

// Counter (index, event, layer << 16 | head, sequence), key (low seed, high seed ^ stream).
PhiloxWords noise_words(const NoiseKey& key, NoiseStream stream, uint32_t index);

// 53 random bits in the open interval (0, 1), from two words.
double uniform53(uint32_t high_word, uint32_t low_word);

// uniform53 of words 0 and 1.
double noise_uniform(const NoiseKey& key, NoiseStream stream, uint32_t index);

// [rank, rows]: row `r`, column `c` is N(0, 1)/sqrt(rank) from index r * rank + c, Box-Muller's cosine
// branch.
std::vector<double> gaussian_matrix(const NoiseKey& key, uint32_t rows, uint32_t rank);

}  // namespace kvase
