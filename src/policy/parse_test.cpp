// SPDX-License-Identifier: MIT
// Policy strings and budgets: what is read, and the one line that refuses the rest.
#include <gtest/gtest.h>

#include "kvase/policy.h"
#include "policy/params.h"

namespace kvase {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_policy(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::string budget_message_of(const std::string& text) {
  try {
    parse_budget(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(ParsePolicy, ReadsNameAndShape) {
  const ParsedPolicy plain = parse_policy("snapkv");
  EXPECT_EQ(plain.info.name, "snapkv");
  EXPECT_EQ(plain.text, "snapkv");
  EXPECT_FALSE(plain.budget || plain.interval || plain.window || plain.n_sink);

  const ParsedPolicy shaped = parse_policy("streaming-llm:budget=512MiB,interval=32,window=16,sinks=0");
  EXPECT_EQ(shaped.budget, (Budget{Budget::Unit::bytes, 512ULL << 20}));
  EXPECT_EQ(shaped.interval, 32U);
  EXPECT_EQ(shaped.window, 16U);
  EXPECT_EQ(shaped.n_sink, 0U);
}

TEST(ParsePolicy, EveryMethodTakesTheShapeKeys) {
  for (const PolicyInfo& info : list_policies()) {
    const ParsedPolicy parsed = parse_policy(info.name + ":budget=100,interval=8,window=8,sinks=1");
    EXPECT_EQ(parsed.budget, (Budget{Budget::Unit::tokens, 100})) << info.name;
  }
}

TEST(ParsePolicy, OptionsReachTheMethod) {
  EXPECT_EQ(parse_policy("snapkv:domain=all").policy->needs().mass.domain, MassSpec::Domain::all);
  EXPECT_EQ(parse_policy("curdkv:rank=007").policy->needs().sketch.rank, 7U);
  EXPECT_EQ(parse_policy("lagkv:lag=32").policy->needs().lag, (LagSpec{.lag = 32}));
  EXPECT_EQ(parse_policy("vase-attnv:magnitude=l2").policy->needs().statistics.back(), Statistic::v_l2);
}

TEST(ParsePolicy, RealsAreReadInAnySpelling) {
  const ParamInfo share = real_param("share", "0.5", 0, 1.5, "of nothing");
  EXPECT_EQ(checked_value("m", share, "0.50"), "0.5");
  EXPECT_EQ(checked_value("m", share, "1"), "1");
  EXPECT_EQ(checked_value("m", share, "25e-2"), "0.25");
  EXPECT_EQ(Params(std::map<std::string, std::string>{{"share", "0.1"}}).real("share"), 0.1);
  EXPECT_EQ(allowed_values(share), "0..1.5");
  for (const char* text : {"", "1.6", "-0.1", "inf", "nan", "1..2", " 1", "1 ", "0x1"})
    EXPECT_THROW(checked_value("m", share, text), Error) << text;
}

TEST(ParsePolicy, ReadsModifiers) {
  EXPECT_FALSE(parse_policy("snapkv").pyramid);
  EXPECT_EQ(parse_policy("snapkv+pyramid").pyramid, PyramidOptions{.beta = 20});
  const ParsedPolicy parsed = parse_policy("snapkv:smooth=max,budget=99+pyramid:beta=7");
  EXPECT_EQ(parsed.pyramid, PyramidOptions{.beta = 7});
  EXPECT_EQ(parsed.info.name, "snapkv");
  EXPECT_EQ(parsed.budget->amount, 99U);
  EXPECT_EQ(parsed.text, "snapkv:smooth=max,budget=99+pyramid:beta=7");
}

TEST(ParsePolicy, RefusesInOneLine) {
  const std::string vase_keys =
      "n_large, magnitude, reserve, fill, smooth, kernel, axis, budget, interval, window, sinks";
  const std::pair<std::string, std::string> refused[] = {
      {"", "policy: \"\" names no method, allowed: name[:key=value,...]"},
      {":budget=3", "policy: \":budget=3\" names no method, allowed: name[:key=value,...]"},
      {"foo",
       "policy: unknown method \"foo\", allowed: full, window, streaming-llm, random, snapkv, vase-attnv, "
       "vase-dkv, "
       "curdkv, cur-norms, evict-large, knorm, keydiff, lagkv, rkv, rkv-vase, cur-exact, leverage, "
       "h2o, tova"},
      {"vase-attnv:n_larg=3", "vase-attnv: unknown key \"n_larg\", allowed: " + vase_keys},
      {"full:kernel=3", "full: unknown key \"kernel\", allowed: budget, interval, window, sinks"},
      {"vase-attnv:n_large=-3", "vase-attnv: n_large=-3, allowed: 0..2147483647"},
      {"vase-attnv:n_large=1e3", "vase-attnv: n_large=1e3, allowed: 0..2147483647"},
      {"vase-attnv:n_large=99999999999999999999",
       "vase-attnv: n_large=99999999999999999999, allowed: 0..2147483647"},
      {"vase-attnv:n_large=", "vase-attnv: n_large= has an empty value, allowed: key=value"},
      {"vase-attnv:n_large=3,n_large=3", "vase-attnv: n_large given twice, allowed: once"},
      {"vase-attnv:sinks=3,sinks=3", "vase-attnv: sinks given twice, allowed: once"},
      {"snapkv:smooth=gauss", "snapkv: smooth=gauss, allowed: none|avg|max"},
      {"snapkv:smooth=avg,kernel=4", "snapkv: kernel=4, allowed: odd numbers 1..63"},
      {"snapkv:smooth=avg,kernel=65", "snapkv: kernel=65, allowed: 1..63"},
      {"snapkv:", "snapkv: option \"\" without a value, allowed: key=value"},
      {"snapkv:domain=all,", "snapkv: option \"\" without a value, allowed: key=value"},
      {"snapkv:kernel", "snapkv: option \"kernel\" without a value, allowed: key=value"},
      {"snapkv:=3",
       "snapkv: unknown key \"\", allowed: domain, group, smooth, kernel, axis, smooth_on, budget, "
       "interval, window, sinks"},
      {"snapkv:smooth=a\nb", "snapkv: smooth=a?b, allowed: none|avg|max"},
      {"snapkv:interval=0", "snapkv: interval=0, allowed: 1..65536"},
      {"snapkv:window=-1", "snapkv: window=-1, allowed: 0..65536"},
      {"snapkv:budget=2GiB",
       "budget: \"2GiB\", allowed: tokens 1..2147483647 such as 2048, or whole MiB such as 512MiB"},
      {"snapkv+pyramide", "policy: unknown modifier \"pyramide\", allowed: pyramid, zero, vector"},
      {"snapkv+", "policy: unknown modifier \"\", allowed: pyramid, zero, vector"},
      {"snapkv+:beta=2", "policy: unknown modifier \"\", allowed: pyramid, zero, vector"},
      {"snapkv+pyramid:min=3", "pyramid: unknown key \"min\", allowed: beta"},
      {"snapkv+pyramid:budget=3", "pyramid: unknown key \"budget\", allowed: beta"},
      {"snapkv+pyramid:beta=0", "pyramid: beta=0, allowed: 1..1000"},
      {"snapkv+pyramid:beta=2,beta=2", "pyramid: beta given twice, allowed: once"},
      {"snapkv+pyramid:", "pyramid: option \"\" without a value, allowed: key=value"},
      {"snapkv+pyramid+pyramid:beta=2",
       "snapkv: +pyramid behind another, allowed: +pyramid once, +zero or +vector once"},
      {"snapkv+zero+pyramid+zero",
       "snapkv: +zero behind another, allowed: +pyramid once, +zero or +vector once"},
      {"snapkv+vector", "+vector: found no map, allowed: map=FILE, made by `kvase calibrate`"},
      {"snapkv+vector:map=", "vector: map= has an empty value, allowed: key=value"},
      {"snapkv+zero:route=best", "zero: route=best, allowed: plain|weighted"},
      {"keydiff+zero:route=weighted",
       "zero: route=weighted would have no effect, allowed: only with a method that takes attention mass"},
      {"full+zero", "full+zero: nothing to modify, allowed: methods that evict"},
      {"full+pyramid", "full+pyramid: nothing to modify, allowed: methods that evict"},
      {"rkv:lambda=1.5", "rkv: lambda=1.5, allowed: 0..1"},
      {"rkv:lambda=nan", "rkv: lambda=nan, allowed: 0..1"},
      {"rkv:lambda=0.5x", "rkv: lambda=0.5x, allowed: 0..1"},
      {"rkv:lambda=0,5", "rkv: option \"5\" without a value, allowed: key=value"},
      {"rkv-vase:smooth_on=group",
       "rkv-vase: smooth_on=group would have no effect, allowed: only with smooth=max"},
      {"curdkv:rank=257", "curdkv: rank=257, allowed: 1..256"},
  };
  for (const auto& [text, message] : refused) EXPECT_EQ(message_of(text), message) << text;
}

TEST(ParsePolicy, RefusesOptionsWithoutEffect) {
  const std::pair<std::string, std::string> refused[] = {
      {"snapkv:kernel=7",
       "snapkv: kernel=7 would have no effect, allowed: only with smooth=avg or smooth=max"},
      {"snapkv:smooth=none,kernel=5",
       "snapkv: kernel=5 would have no effect, allowed: only with smooth=avg or smooth=max"},
      {"vase-attnv:axis=slot",
       "vase-attnv: axis=slot would have no effect, allowed: only with smooth=avg or smooth=max"},
      {"snapkv:smooth=avg,smooth_on=group",
       "snapkv: smooth_on=group would have no effect, allowed: only with smooth=max and group=mean"},
      {"snapkv:smooth=max,group=max-logit,smooth_on=heads",
       "snapkv: smooth_on=heads would have no effect, allowed: only with smooth=max and group=mean"},
      {"vase-attnv:reserve=random,magnitude=var",
       "vase-attnv: magnitude=var would have no effect, allowed: only with reserve=value"},
      {"vase-attnv:reserve=none,magnitude=range",
       "vase-attnv: magnitude=range would have no effect, allowed: only with reserve=value"},
      {"vase-attnv:reserve=none,n_large=3",
       "vase-attnv: n_large=3 would have no effect, allowed: only with reserve=value or reserve=random"},
  };
  for (const auto& [text, message] : refused) EXPECT_EQ(message_of(text), message) << text;
}

TEST(ParsePolicy, CutsLongTextInMessages) {
  const std::string message = message_of(std::string(10000, 'x'));
  EXPECT_LT(message.size(), 300U);
  EXPECT_NE(message.find("xxx...\""), std::string::npos);
}

TEST(ParseBudget, ReadsTokensAndMebibytes) {
  EXPECT_EQ(parse_budget("1"), (Budget{Budget::Unit::tokens, 1}));
  EXPECT_EQ(parse_budget("2048"), (Budget{Budget::Unit::tokens, 2048}));
  EXPECT_EQ(parse_budget("2147483647"), (Budget{Budget::Unit::tokens, 2147483647}));
  EXPECT_EQ(parse_budget("512MiB"), (Budget{Budget::Unit::bytes, 536870912}));
  EXPECT_EQ(parse_budget("8796093022207MiB"), (Budget{Budget::Unit::bytes, 8796093022207ULL << 20}));
}

TEST(ParseBudget, RefusesTheRest) {
  for (const std::string text :
       {"", "0", "-1", "+5", "1.5", "2147483648", "2 MiB", "MiB", "0MiB", "-1MiB", "1GiB", "1KiB", "1MB",
        "1mib", "8796093022208MiB", "99999999999999999999", " 5", "5 ", "0x10"}) {
    EXPECT_EQ(
        budget_message_of(text),
        "budget: \"" + text + "\", allowed: tokens 1..2147483647 such as 2048, or whole MiB such as 512MiB");
  }
}

}  // namespace
}  // namespace kvase
