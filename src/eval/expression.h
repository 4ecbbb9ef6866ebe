// SPDX-License-Identifier: MIT
// Values of expressions, from LaTeX or plain text, at given points: two expressions that agree at several
// points with numbers of no pattern for their variables are the same function.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvase::eval {

using Complex = std::complex<long double>;

struct Evaluation {
  Complex value;
  std::string unit;          // what stands behind the value, singular; empty: nothing
  bool percent = false;      // a % or "percent" stands behind it; not divided by 100
  bool has_letters = false;  // some variable occurs
};

// `text` as plain_math() writes it. `point` chooses the numbers that variables stand for; `plus_minus` is +1
// or -1, what \pm means. Nothing, where it is no expression (or one that is nested too deeply).
std::optional<Evaluation> evaluate(std::string_view text, uint32_t point, int plus_minus);

}  // namespace kvase::eval
