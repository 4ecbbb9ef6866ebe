// SPDX-License-Identifier: MIT
// A policy from outside the library: registers it, reads it from a string, and answers a prompt with it.
//
// usage: own_policy MODEL     exits with 0 if all is as expected, else says what was not
#include <kvase/kvase.h>

#include <cstdio>
#include <memory>
#include <vector>

namespace {

// Keeps every `step`-th position, the newest of those first, and the window.
class Stride : public kvase::Policy {
 public:
  explicit Stride(int64_t step) : step_(step) {}

  kvase::Scores score(const kvase::LayerView& layer, const kvase::EventContext&) const override {
    kvase::Scores scores;
    for (const kvase::HeadView& head : layer.heads) {
      std::vector<double>& row = scores.emplace_back();
      for (const int32_t pos : head.pos) row.push_back(pos % step_ == 0 ? pos : pos - kFar);
    }
    return scores;
  }

 private:
  static constexpr double kFar = 4294967296.0;  // more than any position
  int64_t step_;
};

kvase::PolicyInfo stride_info() {
  kvase::PolicyInfo info;
  info.name = "stride";
  info.summary = "Every step-th token.";
  info.params = {{.name = "step",
                  .kind = kvase::ParamInfo::Kind::integer,
                  .default_value = "2",
                  .min = 1,
                  .max = 1024,
                  .choices = {},
                  .help = "distance of the kept tokens"}};
  info.make = [](const kvase::Params& params) { return std::make_unique<Stride>(params.integer("step")); };
  return info;
}

bool expect(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "not as expected: %s\n", what);
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  kvase::register_policy(stride_info());

  const kvase::Model model = kvase::Model::load({.path = argv[1]});
  kvase::EngineOptions options;
  options.n_threads = 1;
  options.cache.policy = "stride:step=3,budget=48,interval=16";
  kvase::Engine engine(model, options);
  bool good = expect(engine.plan().policy == "stride", "the plan names the policy");
  good &= expect(engine.plan().capacity == 64, "capacity is budget + interval");

  kvase::GenerateRequest request;
  request.prompt = model.tokenize("Once upon a time there was a small engine", true, true);
  request.n_predict = 100;
  request.sampling.temperature = 0;
  const kvase::GenerateResult result = kvase::generate(engine, request);
  good &= expect(!result.text.empty(), "there is an answer");
  good &= expect(result.cache.n_kept <= 64, "no more slots in use than capacity");
  good &= expect(result.cache.n_evictions > 0 || result.tokens.size() < 40, "the policy was asked");
  return good ? 0 : 1;
}
