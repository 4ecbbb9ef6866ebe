// SPDX-License-Identifier: MIT
// Options of a method: how they are declared, how a value is checked, and how an error names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvase/policy.h"

namespace kvase {

ParamInfo integer_param(std::string name, std::string default_value, int64_t min, int64_t max,
                        std::string help);
ParamInfo real_param(std::string name, std::string default_value, double min, double max, std::string help);
// A text as given, not empty; `,` and `+` end it.
ParamInfo text_param(std::string name, std::string help);

ParamInfo choice_param(std::string name, std::string default_value, std::vector<std::string> choices,
                       std::string help);

// What an option allows, as in a message: "0..63", "0..1.5" or "none|avg|max".
std::string allowed_values(const ParamInfo& param);

// The value in its one spelling ("007" gives "7", "1e-1" gives "0.1"). Throws Error(invalid_argument) naming
// method, option, value and range.
std::string checked_value(std::string_view method, const ParamInfo& param, std::string_view value);

// A decimal integer, or nothing if `text` is anything else or does not fit.
std::optional<int64_t> parse_integer(std::string_view text);

// A decimal number, or nothing. Infinities and NaN are read: a range refuses them.
std::optional<double> parse_real(std::string_view text);

// Throws Error(invalid_argument) if the user gave option `name` although the other options leave it without
// effect. `condition` says with what it has one: "smooth=avg or smooth=max".
void require_effect(std::string_view method, const Params& params, const std::string& name, bool has_effect,
                    std::string_view condition);

}  // namespace kvase
