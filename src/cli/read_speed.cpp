// SPDX-License-Identifier: MIT
// Sums over more memory than any cache holds.
#include "cli/read_speed.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace kvase::cli {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;
constexpr size_t kBytesPerThread = size_t{128} << 20;
constexpr int kTries = 8;
constexpr size_t kLanes = 16;  // independent sums, which fit into the registers of any machine

uint64_t sum(std::span<const uint64_t> numbers) {
  std::array<uint64_t, kLanes> sums{};
  for (size_t first = 0; first + kLanes <= numbers.size(); first += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += numbers[first + lane];
  }
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

}  // namespace

double read_bytes_per_second(uint32_t n_threads) {
  const size_t n_each = std::min(kBytesPerThread, kMostBytes / n_threads) / sizeof(uint64_t);
  const std::vector<uint64_t> numbers(n_each * n_threads, 1);
  std::vector<uint64_t> sums(n_threads);
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (uint32_t thread = 0; thread < n_threads; ++thread) {
        threads.emplace_back(
            [&, thread] { sums[thread] += sum(std::span(numbers).subspan(thread * n_each, n_each)); });
      }
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(numbers.size() * sizeof(uint64_t)) / taken.count());
  }
  // The sums are looked at, so that they are made.
  const bool is_right = std::ranges::all_of(sums, [&](uint64_t total) { return total >= n_each / kLanes; });
  return is_right ? best : 0;
}

}  // namespace kvase::cli
