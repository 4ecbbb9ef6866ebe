// SPDX-License-Identifier: MIT
// vase-attnv: reserve slots for the values of largest range, sample the rest in proportion to attention.
//
// Paper: VaSE 2026, arXiv:2606.03928; the options magnitude, reserve and fill are its ablations.
// Differs from the paper:
// - no smoothing unless asked for; smooth=avg,axis=slot gives the published numbers;
// - sinks are those of the text, pos < n_sink, not the first slots of the cache;
// - a reserved slot is out of the race, so it cannot be kept twice; when too few slots have any mass, the
//   most recent of the others stay.
// Needs: mass over candidates, one magnitude of the exact value row.
// Cost: one Philox block and two logarithms per slot, KV head and event. Deterministic given the seed.
#include <algorithm>
#include <limits>

#include "base/errors.h"
#include "policy/methods.h"
#include "policy/params.h"
#include "policy/select.h"
#include "policy/smooth.h"

namespace kvase {
namespace {

enum class Reserve { value, random, none };

struct VaseOptions {
  std::optional<uint32_t> n_large;  // reserved per KV head, sinks included; default a quarter of the budget
  Statistic magnitude = Statistic::v_range;
  Reserve reserve = Reserve::value;
  bool sample = true;  // false: the best by mass instead of a draw
  Smoothing smoothing;
};

class VaseAttnv final : public Policy {
 public:
  explicit VaseAttnv(const VaseOptions& options) : options_(options) {}

  Needs needs() const override {
    Needs needs;
    needs.statistics = {Statistic::mass};
    if (options_.reserve == Reserve::value) needs.statistics.push_back(options_.magnitude);
    needs.rank = options_.smoothing.needs_rank();
    return needs;
  }

  void check(const CacheShape& shape) const override {
    const uint32_t most = shape.budget - std::min(shape.window, shape.budget);
    if (options_.n_large && *options_.n_large > most) {
      invalid("vase-attnv: n_large={}, allowed: 0..{} (budget {} - window {})", *options_.n_large, most,
              shape.budget, shape.window);
    }
  }

  uint32_t n_protected(const CacheShape& shape) const override {
    return options_.reserve == Reserve::none ? 0 : n_reserved(shape.budget, shape.window);
  }

  Scores score(const LayerView& layer, const EventContext& event) const override {
    Scores scores;
    for (uint32_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      scores.push_back(fill(layer, kv_head, event, reserve(layer, kv_head, event)));
    }
    return scores;
  }

  Verdict decide(const LayerView& layer, const EventContext& event) const override {
    Verdict verdict;
    for (uint32_t kv_head = 0; kv_head < layer.heads.size(); ++kv_head) {
      const HeadView& head = layer.heads[kv_head];
      const std::vector<uint32_t> reserved = reserve(layer, kv_head, event);
      const std::vector<double> scores = fill(layer, kv_head, event, reserved);
      HeadVerdict keep = keep_best(scores, head, event, layer.budget);
      if (options_.smoothing.needs_rank()) {
        keep.order = layout_order(scores, head, event, keep.drop, reserved);
      }
      verdict.heads.push_back(std::move(keep));
    }
    return verdict;
  }

 private:
  uint32_t n_reserved(uint32_t budget, uint32_t window) const {
    return std::min(options_.n_large.value_or(budget / 4), budget - std::min(window, budget));
  }

  // The n_large candidates of largest magnitude, best first, of those that still have their value. Sinks
  // count as the largest, in text order.
  std::vector<uint32_t> reserve(const LayerView& layer, uint32_t kv_head, const EventContext& event) const {
    if (options_.reserve == Reserve::none) return {};
    const HeadView& head = layer.heads[kv_head];
    std::vector<double> magnitude(head.length());
    for (size_t slot = 0; slot < head.length(); ++slot) {
      magnitude[slot] = options_.reserve == Reserve::value
                            ? static_cast<double>(head[options_.magnitude][slot])
                            : noise_uniform(noise_key(event, kv_head), NoiseStream::reserve,
                                            static_cast<uint32_t>(head.pos[slot]));
    }
    protect_sinks(magnitude, head, event);
    std::vector<uint32_t> slots = candidate_slots(head, event);
    std::erase_if(slots, [&](uint32_t slot) { return slot < head.n_approximate; });
    return best_first(slots, magnitude, head.pos, n_reserved(layer.budget, event.window));
  }

  // Race keys (or mass) of the candidates that are not reserved; +inf for those that are, and for the window.
  // Reserved slots take part in smoothing but not in the race.
  std::vector<double> fill(const LayerView& layer, uint32_t kv_head, const EventContext& event,
                           const std::vector<uint32_t>& reserved) const {
    const HeadView& head = layer.heads[kv_head];
    std::vector<double> scores = smoothed_mass(head, layer.n_mass_rows, event, options_.smoothing);
    for (const uint32_t slot : reserved) scores[slot] = std::numeric_limits<double>::infinity();
    protect_window(scores, head, event);
    if (!options_.sample) return scores;

    const NoiseKey key = noise_key(event, kv_head);
    for (size_t slot = 0; slot < head.length(); ++slot) {
      if (scores[slot] == std::numeric_limits<double>::infinity()) continue;
      const double u = noise_uniform(key, NoiseStream::race, static_cast<uint32_t>(head.pos[slot]));
      scores[slot] = race_key(scores[slot], u, head.pos[slot]);
    }
    return scores;
  }

  VaseOptions options_;
};

std::unique_ptr<Policy> make_vase_attnv(const Params& params) {
  VaseOptions options;
  options.smoothing = make_smoothing("vase-attnv", params);
  if (params.has("n_large")) options.n_large = static_cast<uint32_t>(params.integer("n_large"));
  if (params.text("reserve") == "random") options.reserve = Reserve::random;
  if (params.text("reserve") == "none") options.reserve = Reserve::none;
  options.sample = params.text("fill") == "sample";
  const std::string& magnitude = params.text("magnitude");
  if (magnitude == "var") options.magnitude = Statistic::v_var;
  if (magnitude == "l2") options.magnitude = Statistic::v_l2;
  if (magnitude == "absmax") options.magnitude = Statistic::v_absmax;

  require_effect("vase-attnv", params, "n_large", options.reserve != Reserve::none,
                 "reserve=value or reserve=random");
  require_effect("vase-attnv", params, "magnitude", options.reserve == Reserve::value, "reserve=value");
  return std::make_unique<VaseAttnv>(options);
}

}  // namespace

PolicyInfo vase_attnv_info() {
  PolicyInfo info;
  info.name = "vase-attnv";
  info.summary = "reserve the values of largest range, sample the rest by attention";
  info.paper = "VaSE 2026, arXiv:2606.03928";
  info.deterministic = false;
  info.default_sinks = 4;
  info.params = {
      integer_param("n_large", "", 0, 2147483647,
                    "slots reserved per KV head, sinks included, at most budget - window; default a quarter "
                    "of the budget"),
      choice_param("magnitude", "range", {"range", "var", "l2", "absmax"},
                   "what makes a value large: range, variance, length, largest channel"),
      choice_param("reserve", "value", {"value", "random", "none"},
                   "reserved slots: the largest values, random ones (a control), or none, not even sinks"),
      choice_param("fill", "sample", {"sample", "topk"},
                   "the rest: drawn in proportion to mass, or the largest mass"),
  };
  for (ParamInfo& param : smoothing_params()) info.params.push_back(std::move(param));
  info.notes = {
      "sinks are part of n_large: n_large=0 and reserve=none protect none",
      "smooth=avg,axis=slot is what the paper's numbers were made with",
      "reserve=random is the control that the paper leaves out: compare before crediting the values",
  };
  info.make = make_vase_attnv;
  return info;
}

}  // namespace kvase
