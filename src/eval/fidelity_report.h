// SPDX-License-Identifier: MIT
// What `kvase eval fidelity` found, for people: tables, charts, paired differences.
#pragma once

#include <string>
#include <vector>

#include "eval/statistics.h"
#include "eval/work.h"
#include "report/page.h"
#include "report/table.h"

namespace kvase::eval {

// KL and -log p of a policy less those of the reference, over the pieces of all texts that both have read,
// seeds averaged first.
struct FidelityDifference {
  std::string policy, budget;
  Estimate kl, nll;  // nats per token
};

// By memory, largest first, then by KL. Empty if the reference was not measured.
std::vector<FidelityDifference> fidelity_differences(const JsonLines& lines, const std::string& reference);

// The measured policies, best first: by KL, over all budgets and texts.
std::vector<std::string> fidelity_policies(const JsonLines& lines);

// The policy that others are compared with where nobody named one: vase-attnv if it was measured, else the
// best. Empty if there are no rows.
std::string default_reference(const JsonLines& lines);

// Every policy and budget on one text, seeds averaged; by memory, largest first, then by KL.
report::Table fidelity_table(const JsonLines& lines, const std::string& text);

std::vector<std::string> fidelity_texts(const JsonLines& lines);

// `command`: how the rows were made. The order of the rows makes no difference.
report::Document fidelity_report(const JsonLines& lines, const std::string& reference,
                                 const std::string& command);

}  // namespace kvase::eval
