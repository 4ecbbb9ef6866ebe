// SPDX-License-Identifier: MIT
// The JSON that scripts read.
#include "cli/json.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvase::cli {
namespace {

Json json_of_param(const ParamInfo& param) {
  Json json = {{"name", param.name}};
  if (param.kind == ParamInfo::Kind::integer) {
    json["kind"] = "integer";
    json["min"] = param.min;
    json["max"] = param.max;
  } else if (param.kind == ParamInfo::Kind::real) {
    json["kind"] = "real";
    json["min"] = param.real_min;
    json["max"] = param.real_max;
  } else if (param.kind == ParamInfo::Kind::text) {
    json["kind"] = "text";
  } else {
    json["kind"] = "choice";
    json["choices"] = param.choices;
  }
  json["default"] = param.default_value.empty() ? Json() : Json(param.default_value);
  json["help"] = param.help;
  return json;
}

}  // namespace

// nlohmann writes infinities and NaN as null. Names from a model file may hold any bytes: those that are not
// UTF-8 become U+FFFD instead of an exception.
void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json rate(double n, double seconds) { return n > 0 && seconds > 0 ? Json(n / seconds) : Json(); }

Json json_of_run(const GenerateResult& result, const std::string& policy, const MemoryPlan& plan) {
  // A cancelled run may have seen only part of its prompt.
  const double n_prefilled =
      std::min(static_cast<double>(result.cache.n_seen), static_cast<double>(result.n_prompt));
  const double n_decoded = static_cast<double>(result.cache.n_seen) - n_prefilled;
  return {{"text", result.text},
          {"thinking", result.thinking},
          {"n_prompt", result.n_prompt},
          {"n_generated", result.tokens.size()},
          {"finish_reason", finish_reason_name(result.finish_reason)},
          {"seed", result.seed},
          {"prefill_tps", rate(n_prefilled, result.prefill_seconds)},
          {"decode_tps", rate(n_decoded, result.decode_seconds)},
          {"kv",
           {{"policy", policy},
            {"budget", plan.shape.budget},
            {"capacity", plan.capacity},
            {"bytes", plan.kv_bytes},
            {"side_bytes", plan.side_bytes},
            {"map_bytes", plan.map_bytes},
            {"n_seen", result.cache.n_seen},
            {"n_kept", result.cache.n_kept},
            {"n_evictions", result.cache.n_evictions},
            {"evict_ms", result.cache.evict_ms}}}};
}

Json json_of_policy(const PolicyInfo& info) {
  Json needs = Json::array();
  for (const Statistic statistic : parse_policy(info.name).policy->needs().statistics) {
    needs.push_back(statistic_name(statistic));
  }
  Json params = Json::array();
  for (const ParamInfo& param : info.params) params.push_back(json_of_param(param));
  return {{"name", info.name},
          {"summary", info.summary},
          {"paper", info.paper},
          {"needs", std::move(needs)},
          {"deterministic", info.deterministic},
          {"default_sinks", info.default_sinks},
          {"params", std::move(params)},
          {"notes", info.notes}};
}

Json json_of_plan_row(const std::string& policy, const MemoryPlan& plan, uint64_t max_sequences) {
  return {{"policy", policy},
          {"kv_bytes", plan.kv_bytes},
          {"side_bytes", plan.side_bytes},
          {"map_bytes", plan.map_bytes},
          {"bytes_per_token", plan.bytes_per_token},
          {"max_sequences", max_sequences},
          {"budget", plan.shape.budget},
          {"capacity", plan.capacity}};
}

Json json_of_score(const ScoreResult& result) {
  return {
      {"policy", result.policy}, {"scores", result.scores}, {"keep", result.keep}, {"approx", result.approx}};
}

}  // namespace kvase::cli
