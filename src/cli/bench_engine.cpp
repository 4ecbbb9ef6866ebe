// SPDX-License-Identifier: MIT
// kvase itself under measurement, and how a setup travels to its process.
#include "cli/bench_engine.h"

#include <algorithm>
#include <vector>

#include "kvase/kvase.h"

namespace kvase::cli {
namespace {

using nlohmann::json;

class KvaseEngine : public BenchEngine {
 public:
  explicit KvaseEngine(const BenchSetup& setup)
      : model_(Model::load(setup.model)),
        engine_(model_, setup.engine),
        n_fill_(setup.n_fill),
        tokens_(setup.engine.n_sequences),
        feeds_(setup.engine.n_sequences) {
    open_all();
  }

  void clear() override {
    for (const Feed& feed : feeds_) engine_.close(feed.sequence);
    open_all();
  }

  void fill(uint32_t n) override {
    for (uint32_t sequence = 0; sequence < feeds_.size(); ++sequence) {
      tokens_[sequence].resize(n);
      for (uint32_t offset = 0; offset < n; ++offset) {
        tokens_[sequence][offset] = bench_token(sequence, n_seen_ + offset, model_.info().n_vocab);
      }
      feeds_[sequence].tokens = tokens_[sequence];
    }
    if (engine_.advance(feeds_, {}) != Advance::done) {
      throw Error(ErrorCode::internal, "bench: a sequence is full, please report it");
    }
    n_seen_ += n;
  }

  void step() override { fill(1); }

  BenchMemory memory() const override {
    const MemoryPlan& plan = engine_.plan();
    return {.kv_bytes = plan.kv_bytes, .side_bytes = plan.side_bytes, .map_bytes = plan.map_bytes};
  }

  std::optional<BenchTimes> times() const override {
    const EngineTimes times = engine_.times();
    return BenchTimes{.events_ms = times.events_ms,
                      .statistics_ms = times.statistics_ms + times.mass_ms,
                      .attention_ms = times.attention_ms,
                      .attention_bytes = static_cast<double>(times.attention_bytes)};
  }

  // A cache that evicts has to have evicted once.
  uint32_t n_to_read(uint32_t n) const override {
    const MemoryPlan& plan = engine_.plan();
    const uint32_t least = plan.evicts ? plan.capacity + plan.shape.interval : 1;
    return std::min(n, std::max(n_fill_, least));
  }

  void pretend(uint32_t n) override {
    for (const Feed& feed : feeds_) engine_.pretend_seen(feed.sequence, n);
    n_seen_ = n;
  }

 private:
  void open_all() {
    n_seen_ = 0;
    for (uint32_t sequence = 0; sequence < feeds_.size(); ++sequence) {
      feeds_[sequence].sequence = engine_.open({.sample = sequence});
    }
  }

  Model model_;
  Engine engine_;
  uint32_t n_fill_;
  std::vector<std::vector<Token>> tokens_;  // of each sequence, what feeds_ points to
  std::vector<Feed> feeds_;
  uint32_t n_seen_ = 0;
};

template <typename Number>
json json_of(const std::optional<Number>& number) {
  return number ? json(*number) : json();
}

std::optional<uint32_t> number_of(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<uint32_t>());
}

}  // namespace

std::unique_ptr<BenchEngine> make_kvase_engine(const BenchSetup& setup) {
  return std::make_unique<KvaseEngine>(setup);
}

int32_t bench_token(uint32_t sequence, uint32_t pos, uint32_t n_vocab) {
  // Knuth's multiplicative hash: 2^32 divided by the golden ratio.
  const uint32_t mixed = (pos * 1009 + sequence + 1) * 2654435769U;
  return static_cast<int32_t>((mixed >> 4) % n_vocab);
}

json json_of_setup(const BenchSetup& setup) {
  const CacheOptions& cache = setup.engine.cache;
  const json budget = cache.budget ? json{{"bytes", cache.budget->unit == Budget::Unit::bytes},
                                          {"amount", cache.budget->amount}}
                                   : json();
  return {{"peer", setup.peer},
          {"path", setup.model.path},
          {"repack", setup.model.repack},
          {"n_threads", setup.engine.n_threads},
          {"n_ubatch", setup.engine.n_ubatch},
          {"n_sequences", setup.engine.n_sequences},
          {"policy", cache.policy},
          {"budget", budget},
          {"interval", json_of(cache.interval)},
          {"n_sink", json_of(cache.n_sink)},
          {"n_ctx", json_of(cache.n_ctx)},
          {"n_fill", setup.n_fill}};
}

BenchSetup setup_of_json(const json& json) {
  BenchSetup setup;
  setup.peer = json.at("peer");
  setup.model = {.path = json.at("path"), .repack = json.at("repack")};
  setup.engine.n_threads = json.at("n_threads");
  setup.engine.n_ubatch = json.at("n_ubatch");
  setup.engine.n_sequences = json.at("n_sequences");
  CacheOptions& cache = setup.engine.cache;
  cache.policy = json.at("policy");
  if (!json.at("budget").is_null()) {
    const bool in_bytes = json.at("budget").at("bytes");
    cache.budget = {.unit = in_bytes ? Budget::Unit::bytes : Budget::Unit::tokens,
                    .amount = json.at("budget").at("amount")};
  }
  cache.interval = number_of(json.at("interval"));
  cache.n_sink = number_of(json.at("n_sink"));
  cache.n_ctx = number_of(json.at("n_ctx"));
  setup.n_fill = json.at("n_fill");
  return setup;
}

}  // namespace kvase::cli
