// SPDX-License-Identifier: MIT
// Philox4x32-10 and the distributions drawn from it.
#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvase {

PhiloxWords philox4x32(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

PhiloxWords noise_words(const NoiseKey& key, NoiseStream stream, uint32_t index) {
  const uint32_t place = ((key.layer & 0xFFFF) << 16) | (key.head & 0xFFFF);
  return philox4x32({index, key.event, place, key.sequence},
                    {static_cast<uint32_t>(key.seed),
                     static_cast<uint32_t>(key.seed >> 32) ^ static_cast<uint32_t>(stream)});
}

double uniform53(uint32_t high_word, uint32_t low_word) {
  const double high = high_word >> 5;  // 27 bits
  const double low = low_word >> 6;    // 26 bits
  return std::min((high * 67108864.0 + low + 0.5) / 9007199254740992.0, 1.0 - 0x1p-53);
}

double noise_uniform(const NoiseKey& key, NoiseStream stream, uint32_t index) {
  const PhiloxWords words = noise_words(key, stream, index);
  return uniform53(words[0], words[1]);
}

std::vector<double> gaussian_matrix(const NoiseKey& key, uint32_t rows, uint32_t rank) {
  std::vector<double> matrix(size_t{rows} * rank);
  const double scale = 1.0 / std::sqrt(static_cast<double>(rank));
  for (uint32_t index = 0; index < matrix.size(); ++index) {
    const PhiloxWords words = noise_words(key, NoiseStream::matrix, index);
    const double u1 = uniform53(words[0], words[1]);
    const double u2 = uniform53(words[2], words[3]);
    matrix[index] = std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2) * scale;
  }
  return matrix;
}

}  // namespace kvase
