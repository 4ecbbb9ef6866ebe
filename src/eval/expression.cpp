// SPDX-License-Identifier: MIT
// A recursive-descent parser that computes as it reads. A failure sets failed_ and is found at the end.
#include "eval/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "eval/math_text.h"

namespace kvase::eval {
namespace {

constexpr size_t kMaxBytes = 1000;
constexpr int kMaxDepth = 60;  // of brackets
constexpr long double kMaxFactorial = 1000;

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)) != 0; }
bool is_letter(char character) { return std::isalpha(static_cast<unsigned char>(character)) != 0; }

// A number without a pattern for a variable's name, between 0.5 and 2.5 in size, of either sign.
long double number_for(std::string_view name, uint32_t point) {
  uint64_t hash = 1469598103934665603U + point;  // FNV-1a
  for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211U;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9U;
  hash ^= hash >> 32;
  const long double size = 0.5L + 2 * static_cast<long double>(hash >> 12) / 4503599627370496.0L;  // 2^52
  return (hash & 1) == 0 ? size : -size;
}

Complex power(Complex base, Complex exponent) {
  const long double whole = std::round(exponent.real());
  if (exponent.imag() == 0 && whole == exponent.real() && std::abs(whole) <= 4096) {
    Complex result = 1;
    Complex square = base;
    for (auto left = static_cast<uint32_t>(std::abs(whole)); left > 0; left >>= 1) {
      if ((left & 1) != 0) result *= square;
      square *= square;
    }
    return whole < 0 ? Complex(1) / result : result;
  }
  if (base == Complex(0)) return 0;
  return std::pow(base, exponent);
}

// The real root where there is one, else the principal one.
Complex root(Complex radicand, Complex degree) {
  const bool odd = degree.imag() == 0 && std::fmod(std::abs(degree.real()), 2.0L) == 1;
  if (odd && radicand.imag() == 0 && radicand.real() < 0)
    return -std::pow(-radicand.real(), 1 / degree.real());
  if (degree == Complex(2)) return std::sqrt(radicand);
  return power(radicand, Complex(1) / degree);
}

using Function = Complex (*)(Complex);
constexpr std::array kFunctions = std::to_array<std::pair<std::string_view, Function>>({
    {"arcsin", [](Complex x) { return std::asin(x); }},
    {"arccos", [](Complex x) { return std::acos(x); }},
    {"arctan", [](Complex x) { return std::atan(x); }},
    {"sqrt", [](Complex x) { return std::sqrt(x); }},
    {"sin", [](Complex x) { return std::sin(x); }},
    {"cos", [](Complex x) { return std::cos(x); }},
    {"tan", [](Complex x) { return std::tan(x); }},
    {"cot", [](Complex x) { return Complex(1) / std::tan(x); }},
    {"sec", [](Complex x) { return Complex(1) / std::cos(x); }},
    {"csc", [](Complex x) { return Complex(1) / std::sin(x); }},
    {"exp", [](Complex x) { return std::exp(x); }},
    {"log", [](Complex x) { return std::log10(x); }},
    {"ln", [](Complex x) { return std::log(x); }},
});

// Words behind a number that multiply it.
constexpr std::array kMultipliers = std::to_array<std::pair<std::string_view, long double>>({
    {"hundred", 1e2L},
    {"thousand", 1e3L},
    {"million", 1e6L},
    {"billion", 1e9L},
    {"trillion", 1e12L},
});

// Units that are shorter than words are.
constexpr std::array<std::string_view, 22> kShortUnits = {
    "cm",  "mm", "km", "nm",  "ft",  "in", "yd",  "mi",  "kg",   "mg",  "lb",
    "lbs", "oz", "ml", "mph", "kph", "hr", "hrs", "min", "mins", "sec", "secs"};

template <typename Table>
auto find_name(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
}

class Parser {
 public:
  Parser(std::string_view text, uint32_t point, int plus_minus)
      : text_(text), point_(point), plus_minus_(plus_minus) {}

  std::optional<Evaluation> run() {
    Evaluation evaluation;
    if (take('$')) evaluation.unit = "dollar";
    skip_spaces();
    if (peek() == '-' && peek(1) == '$') {  // -$5
      text_.remove_prefix(2);
      evaluation.unit = "dollar";
      evaluation.value = -expression();
    } else {
      evaluation.value = expression();
    }
    read_what_is_behind(evaluation);
    skip_spaces();
    evaluation.has_letters = has_letters_;
    if (failed_ || !text_.empty()) return std::nullopt;
    return evaluation;
  }

 private:
  char peek(size_t ahead = 0) const { return ahead < text_.size() ? text_[ahead] : '\0'; }
  void skip_spaces() {
    while (peek() == ' ') text_.remove_prefix(1);
  }
  bool take(char character) {
    skip_spaces();
    if (peek() != character) return false;
    text_.remove_prefix(1);
    return true;
  }
  Complex fail() {
    failed_ = true;
    text_ = {};
    return 0;
  }
  // A run of letters here, not taken.
  std::string_view word() const {
    size_t end = 0;
    while (is_letter(peek(end))) ++end;
    return text_.substr(0, end);
  }
  // "\name" here, not taken; without the backslash.
  std::string_view command() const {
    if (peek() != '\\') return {};
    size_t end = 1;
    while (is_letter(peek(end))) ++end;
    return text_.substr(1, end - 1);
  }
  bool take_command(std::string_view name) {
    skip_spaces();
    if (command() != name) return false;
    text_.remove_prefix(name.size() + 1);
    return true;
  }

  // sum := [sign] product (sign product)*
  Complex expression() {
    if (++depth_ > kMaxDepth) return fail();
    Complex sum = 0;
    int sign = 1;
    read_sign(sign);
    while (!failed_) {
      sum += static_cast<long double>(sign) * product();
      if (!read_sign(sign)) break;
    }
    --depth_;
    return sum;
  }

  bool read_sign(int& sign) {
    sign = 1;
    if (take('+')) return true;
    if (take('-')) {
      sign = -1;
      return true;
    }
    if (take_command("pm")) {
      sign = plus_minus_;
      return true;
    }
    if (take_command("mp")) {
      sign = -plus_minus_;
      return true;
    }
    return false;
  }

  // product := factor (('*' | '/' | nothing) factor)*
  Complex product() {
    Complex result = factor();
    while (!failed_) {
      if (take('*')) {
        result *= signed_factor();
      } else if (take('/')) {
        result /= signed_factor();
      } else if (starts_factor()) {
        result *= factor();
      } else {
        break;
      }
    }
    return result;
  }

  Complex signed_factor() {
    if (take('-')) return -factor();
    return factor();
  }

  // Something that is multiplied without a sign. Numbers are not ("2 3"), units are not.
  bool starts_factor() {
    skip_spaces();
    const char next = peek();
    if (next == '(' || next == '{') return true;
    if (next == '|') return depth_of_bars_ == 0;
    if (next == '[') return true;
    if (next == '\\') {
      const std::string_view name = command();
      return name != "text" && name != "pm" && name != "mp" && name != "cup" && !name.empty();
    }
    if (is_digit(next)) return after_group_;
    return is_letter(next) && !starts_unit();
  }

  // A word behind a value that names what was counted.
  bool starts_unit() const {
    const std::string_view name = word();
    if (find_name(kFunctions, name) != kFunctions.end() || name == "pi") return false;
    if (name.size() >= 4) return true;
    if (std::find(kShortUnits.begin(), kShortUnits.end(), name) != kShortUnits.end()) return true;
    return name.size() == 3 && space_before();
  }
  bool space_before() const { return !text_.empty() && text_.data() > start_ && *(text_.data() - 1) == ' '; }

  // factor := base ('^' exponent | '!')*
  Complex factor() {
    skip_spaces();
    Complex result = base();
    while (!failed_) {
      if (take('^')) {
        result = power(result, argument());
      } else if (take('!')) {
        result = factorial(result);
      } else {
        break;
      }
    }
    return result;
  }

  Complex factorial(Complex of) {
    const long double n = of.real();
    if (of.imag() != 0 || n < 0 || n > kMaxFactorial || n != std::floor(n)) return fail();
    return std::round(std::tgamma(n + 1));
  }

  Complex base() {
    skip_spaces();
    after_group_ = false;
    const char next = peek();
    if (is_digit(next) || next == '.') return number();
    if (next == '(') return group('(', ')');
    if (next == '[') return group('[', ']');
    if (next == '{') return group('{', '}');
    if (next == '|') return absolute();
    if (next == '\\') return from_command();
    if (is_letter(next)) return from_letters();
    return fail();
  }

  Complex group(char open, char close) {
    take(open);
    const int bars = std::exchange(depth_of_bars_, 0);
    const Complex value = expression();
    depth_of_bars_ = bars;
    if (!take(close)) return fail();
    after_group_ = true;
    return value;
  }

  Complex absolute() {
    take('|');
    ++depth_of_bars_;
    const Complex value = expression();
    --depth_of_bars_;
    if (!take('|')) return fail();
    return std::abs(value);
  }

  // 12, 1.5, .5, and mixed numbers: 1 1/2, 1\frac{1}{2}.
  Complex number() {
    size_t end = 0;
    while (is_digit(peek(end)) || (peek(end) == '.' && is_digit(peek(end + 1)))) ++end;
    long double value = 0;
    const auto [stop, error] = std::from_chars(text_.data(), text_.data() + end, value);
    if (error != std::errc() || stop != text_.data() + end) return fail();
    const bool whole = text_.substr(0, end).find('.') == std::string_view::npos;
    text_.remove_prefix(end);
    if (peek() == '.' && !is_digit(peek(1))) text_.remove_prefix(1);  // "18. "
    return whole ? Complex(value) + fraction_of_mixed_number() : Complex(value);
  }

  // What a whole number is followed by: nothing is taken if it is no fraction of two whole numbers.
  Complex fraction_of_mixed_number() {
    const std::string_view before = text_;
    const bool space = peek() == ' ';
    skip_spaces();
    if (command() == "frac") {
      text_.remove_prefix(5);
      const std::optional<long double> upper = whole_argument();
      const std::optional<long double> lower = whole_argument();
      if (upper && lower && *lower != 0) return *upper / *lower;
    } else if (space && is_digit(peek())) {
      const std::optional<long double> upper = whole_number();
      if (upper && take('/')) {
        const std::optional<long double> lower = whole_number();
        if (lower && *lower != 0) return *upper / *lower;
      }
    }
    text_ = before;
    return 0;
  }

  std::optional<long double> whole_number() {
    skip_spaces();
    size_t end = 0;
    while (is_digit(peek(end))) ++end;
    if (end == 0 || end > 18) return std::nullopt;
    uint64_t value = 0;
    std::from_chars(text_.data(), text_.data() + end, value);
    text_.remove_prefix(end);
    return static_cast<long double>(value);
  }

  // "{12}" or one digit.
  std::optional<long double> whole_argument() {
    skip_spaces();
    if (take('{')) {
      const std::optional<long double> value = whole_number();
      return take('}') ? value : std::nullopt;
    }
    if (!is_digit(peek())) return std::nullopt;
    const auto digit = static_cast<long double>(peek() - '0');
    text_.remove_prefix(1);
    return digit;
  }

  // LaTeX's argument: a group, a command, or one character.
  Complex argument() {
    skip_spaces();
    if (peek() == '{') return group('{', '}');
    if (peek() == '(') return group('(', ')');
    if (peek() == '\\') return base();
    if (peek() == '-') return signed_argument();
    if (is_digit(peek())) {
      const auto digit = static_cast<long double>(peek() - '0');
      text_.remove_prefix(1);
      after_group_ = true;
      return digit;
    }
    if (is_letter(peek())) return letter();
    return fail();
  }
  Complex signed_argument() {
    take('-');
    return -argument();
  }

  Complex letter() {
    const std::string_view name = text_.substr(0, 1);
    text_.remove_prefix(1);
    if (name == "i") return {0, 1};
    if (name == "e") return std::numbers::e_v<long double>;
    return variable(std::string(name));
  }

  Complex variable(std::string name) {
    has_letters_ = true;
    if (peek() == '_') {
      text_.remove_prefix(1);
      const size_t end = peek() == '{' ? group_end(text_, 0) : 1;
      if (end == std::string_view::npos || end > text_.size()) return fail();
      for (const char character : text_.substr(0, end)) {
        if (character != '{' && character != '}' && character != ' ') name += character;
      }
      text_.remove_prefix(end);
    }
    return number_for(name, point_);
  }

  Complex from_letters() {
    const std::string_view name = word();
    const auto function = find_name(kFunctions, name);
    if (function != kFunctions.end()) {
      text_.remove_prefix(name.size());
      return call(function->second);
    }
    if (name == "pi") {
      text_.remove_prefix(2);
      return std::numbers::pi_v<long double>;
    }
    if (name.size() >= 4) return fail();  // a word, not a product of variables
    return letter();
  }

  Complex from_command() {
    const std::string name(command());
    text_.remove_prefix(name.size() + 1);
    if (name == "frac") {
      const Complex upper = argument();
      const Complex lower = argument();
      after_group_ = true;
      return upper / lower;
    }
    if (name == "sqrt") return root_of_argument();
    if (name == "binom") {
      const Complex n = argument();
      const Complex k = argument();
      return factorial(n) / (factorial(k) * factorial(n - k));
    }
    if (name == "pi") return std::numbers::pi_v<long double>;
    if (name == "infty") return std::numeric_limits<long double>::infinity();
    if (name == "log" && peek() == '_') {
      text_.remove_prefix(1);
      const Complex base_of_log = argument();
      return std::log(function_argument()) / std::log(base_of_log);
    }
    const auto function = find_name(kFunctions, name);
    if (function != kFunctions.end()) return call(function->second);
    if (kGreek.find(" " + name + " ") != std::string_view::npos) return variable(name);
    return fail();
  }

  Complex root_of_argument() {
    skip_spaces();
    const Complex degree = peek() == '[' ? group('[', ']') : Complex(2);
    const Complex value = root(argument(), degree);
    after_group_ = true;
    return value;
  }

  // "\sin^2 x" is a power of the result.
  Complex call(Function function) {
    std::optional<Complex> exponent;
    if (take('^')) exponent = argument();
    const Complex value = function(function_argument());
    return exponent ? power(value, *exponent) : value;
  }

  // A group, or a product without signs: "\sin 2x".
  Complex function_argument() {
    skip_spaces();
    if (peek() == '(' || peek() == '{') return factor();
    Complex value = factor();
    while (!failed_ && starts_factor() && find_name(kFunctions, command()) == kFunctions.end() &&
           find_name(kFunctions, word()) == kFunctions.end()) {
      value *= factor();
    }
    return value;
  }

  // Percent signs, multipliers and units.
  void read_what_is_behind(Evaluation& evaluation) {
    std::string unit;
    while (!failed_ && !text_.empty()) {
      skip_spaces();
      if (take('%')) {
        evaluation.percent = true;
        continue;
      }
      std::string_view name;
      if (command() == "text") {
        const size_t end = group_end(text_, 5);
        if (end == std::string_view::npos) return;
        name = trimmed(text_.substr(6, end - 7));
        text_.remove_prefix(end);
      } else if (is_letter(peek()) && (!unit.empty() || starts_unit())) {
        name = word();
        text_.remove_prefix(name.size());
      } else if (!unit.empty() && take_power_of_unit(unit)) {
        continue;
      } else {
        break;
      }
      add_unit(name, evaluation, unit);
    }
    if (!unit.empty()) evaluation.unit = unit;
  }

  // "^2", "^{2}", or "/hour" up to its word.
  bool take_power_of_unit(std::string& unit) {
    if (peek() == '/' && is_letter(peek(1))) {
      text_.remove_prefix(1);
      unit += '/';
      return true;
    }
    if (peek() != '^') return false;
    const bool braces = peek(1) == '{';
    const char digit = peek(braces ? 2 : 1);
    if (!is_digit(digit) || (braces && peek(3) != '}')) return false;
    text_.remove_prefix(braces ? 4 : 2);
    unit += '^';
    unit += digit;
    return true;
  }

  static void add_unit(std::string_view name, Evaluation& evaluation, std::string& unit) {
    const auto multiplier = find_name(kMultipliers, name);
    if (multiplier != kMultipliers.end() && unit.empty()) {
      evaluation.value *= multiplier->second;
    } else if (name == "percent" || name == "%") {
      evaluation.percent = true;
    } else if (name == "square" || name == "sq" || name == "squared") {
      unit += "^2";
    } else if (name == "cubic" || name == "cubed") {
      unit += "^3";
    } else {
      unit += name;
    }
  }

  static constexpr std::string_view kGreek =
      " alpha beta gamma delta epsilon theta lambda mu phi varphi rho sigma tau omega ";

  std::string_view text_;
  const char* start_ = text_.data();
  uint32_t point_;
  int plus_minus_;
  int depth_ = 0;
  int depth_of_bars_ = 0;
  bool after_group_ = false;  // a digit that follows is a factor of its own: \sqrt23, \frac123
  bool has_letters_ = false;
  bool failed_ = false;
};

}  // namespace

std::optional<Evaluation> evaluate(std::string_view text, uint32_t point, int plus_minus) {
  if (text.size() > kMaxBytes) return std::nullopt;
  return Parser(text, point, plus_minus).run();
}

}  // namespace kvase::eval
