// SPDX-License-Identifier: MIT
// Times one engine, on request.
#include "cli/bench_worker.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/bench_engine.h"
#include "cli/child.h"
#include "cli/peer.h"
#include "kvase/error.h"

namespace kvase::cli {
namespace {

using nlohmann::json;

constexpr uint32_t kWarmUpTokens = 64;  // reads the weights from the disk and makes the buffers

// The kernel's high-water mark of this process since exec; getrusage() would count the parent's.
json peak_rss_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return {};
}

// From here on the mark is that of what is still there. A kernel that cannot forget keeps the higher one.
void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

json json_of_times(const BenchTimes& before, const BenchTimes& after) {
  return {{"events_ms", after.events_ms - before.events_ms},
          {"statistics_ms", after.statistics_ms - before.statistics_ms},
          {"attention_ms", after.attention_ms - before.attention_ms},
          {"attention_bytes", after.attention_bytes - before.attention_bytes}};
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// ggml's pool spins for some tenths of a second after its last graph. It must not do so in the next engine's
// turn.
void wait_until_idle() {
  constexpr auto kPause = std::chrono::milliseconds(10);
  constexpr int kQuietPauses = 3;
  constexpr int kMostPauses = 300;
  int n_quiet = 0;
  for (int n_pauses = 0; n_quiet < kQuietPauses && n_pauses < kMostPauses; ++n_pauses) {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(kPause);
    n_quiet = cpu_seconds() - before < 0.0005 ? n_quiet + 1 : 0;
  }
}

// Seconds on the clock, and of processor time of all threads.
template <typename Work>
json time_of(const Work& work) {
  const double cpu_start = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return {{"seconds", taken.count()}, {"cpu_seconds", cpu_seconds() - cpu_start}};
}

template <typename Number>
json json_of(const std::optional<Number>& value) {
  return value ? json(*value) : json();
}

class Worker {
 public:
  json answer(const json& question) {
    const std::string& what = question.at("do").get_ref<const std::string&>();
    json reply = json::object();
    if (what == "start") reply = start(setup_of_json(question.at("setup")));
    if (what == "clear") engine_->clear();
    if (what == "fill") reply = fill(question.at("n"));
    if (what == "reach") reply = reach(question.at("n"));
    if (what == "decode") reply = decode(question.at("n"));
    if (what == "peak") reply = {{"peak_rss_bytes", peak_rss_bytes()}};
    wait_until_idle();
    return reply;
  }

 private:
  json start(const BenchSetup& setup) {
    engine_ = setup.peer ? make_peer(setup) : make_kvase_engine(setup);
    engine_->fill(std::min(kWarmUpTokens, *setup.engine.cache.n_ctx));
    engine_->clear();
    const BenchMemory memory = engine_->memory();
    return {{"kv_bytes", memory.kv_bytes},
            {"side_bytes", json_of(memory.side_bytes)},
            {"map_bytes", json_of(memory.map_bytes)},
            {"note", json_of(engine_->note())}};
  }

  json fill(uint32_t n) {
    return time_of([&] { engine_->fill(n); });
  }

  // Fills up to n tokens, as far as they have to be read.
  json reach(uint32_t n) {
    const uint32_t n_read = engine_->n_to_read(n);
    json reply = fill(n_read);
    reply["n_read"] = n_read;
    if (n_read < n) {
      engine_->pretend(n);
      forget_peak();
    }
    return reply;
  }

  json decode(uint32_t n) {
    std::vector<double> step_ms;
    const std::optional<BenchTimes> before = engine_->times();
    json reply = time_of([&] {
      for (uint32_t step = 0; step < n; ++step) {
        const auto start = std::chrono::steady_clock::now();
        engine_->step();
        step_ms.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      }
    });
    const std::optional<BenchTimes> after = engine_->times();
    reply["step_ms"] = step_ms;
    reply["times"] = before && after ? json_of_times(*before, *after) : json();
    return reply;
  }

  std::unique_ptr<BenchEngine> engine_;
};

}  // namespace

int run_bench_worker() {
  Worker worker;
  return serve_parent([&](const json& question) { return worker.answer(question); });
}

}  // namespace kvase::cli
