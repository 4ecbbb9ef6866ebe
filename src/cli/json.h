// SPDX-License-Identifier: MIT
// The JSON that scripts read: field names are a contract. Infinities and NaN are null.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvase/engine.h"
#include "kvase/generate.h"
#include "kvase/plan.h"
#include "kvase/policy.h"
#include "kvase/score.h"

namespace kvase::cli {

using Json = nlohmann::ordered_json;

// One line on stdout.
void print_json(const Json& json);

// n / seconds, or null if nothing was timed.
Json rate(double n, double seconds);

Json json_of_run(const GenerateResult& result, const std::string& policy, const MemoryPlan& plan);
Json json_of_policy(const PolicyInfo& info);
Json json_of_plan_row(const std::string& policy, const MemoryPlan& plan, uint64_t max_sequences);
Json json_of_score(const ScoreResult& result);

}  // namespace kvase::cli
