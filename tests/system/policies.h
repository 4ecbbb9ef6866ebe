// SPDX-License-Identifier: MIT
// Every evicting policy, a toy model to run it on, and engines of a given shape.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "system/toy.h"

namespace kvase {

// Policies as the table has them, and the variants whose data flow differs.
inline std::vector<std::string> evicting_policies() {
  std::vector<std::string> policies;
  for (const PolicyInfo& info : list_policies()) {
    if (parse_policy(info.name).policy->evicts()) policies.push_back(info.name);
  }
  for (const char* variant : {"snapkv:domain=all,smooth=avg",
                              "snapkv:smooth=max",
                              "snapkv:group=max-logit",
                              "snapkv:smooth=avg,axis=slot",
                              "vase-attnv:smooth=avg,axis=slot",
                              "vase-attnv:fill=topk",
                              "vase-attnv:reserve=random",
                              "vase-attnv:reserve=none",
                              "vase-attnv:magnitude=var",
                              "vase-attnv:magnitude=l2",
                              "vase-attnv:magnitude=absmax",
                              "vase-attnv:n_large=0",
                              "vase-dkv:rank=5",
                              "lagkv:lag=8",
                              "snapkv+pyramid:beta=2",
                              "vase-attnv+pyramid:beta=2",
                              "rkv:axis=slot",
                              "rkv-vase:smooth=max",
                              "h2o:recent=8,window=8",
                              "h2o+pyramid:beta=2",
                              "vase-attnv+zero",
                              "vase-dkv+zero",
                              "keydiff+zero",
                              "leverage+zero",
                              "lagkv:lag=8+zero",
                              "snapkv:smooth=max+pyramid:beta=2+zero",
                              "snapkv:smooth=avg,axis=slot+zero:route=plain",
                              "random+zero"}) {
    policies.emplace_back(variant);
  }
  return policies;
}

struct Shape {
  uint32_t budget, interval;
};

inline EngineOptions options_for(const std::string& policy, Shape shape, uint32_t n_sequences = 1) {
  EngineOptions options;
  options.cache.policy = policy;
  options.cache.budget = Budget{.unit = Budget::Unit::tokens, .amount = shape.budget};
  options.cache.interval = shape.interval;
  options.n_threads = 1;
  options.n_sequences = n_sequences;
  return options;
}

inline EngineOptions full_cache(uint32_t n_ctx) {
  EngineOptions options;
  options.cache.policy = "full";
  options.cache.n_ctx = n_ctx;
  options.n_threads = 1;
  return options;
}

inline const ToyFile& toy() {
  // Q8_0: a matmul row does not depend on how many rows there are, so steps of other sizes give the same
  // bits.
  static const ToyFile file(
      {.n_layers = 2, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32, .weight_type = GGML_TYPE_Q8_0});
  return file;
}

inline const Model& toy_model() {
  static const Model model = toy().load();
  return model;
}

// The same in f32: no activation is rounded, so sums in another order stay close.
inline const Model& exact_model() {
  static const ToyFile file({.n_layers = 2, .n_heads = 6, .n_kv_heads = 2, .head_dim = 32});
  static const Model model = file.load();
  return model;
}

inline std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
}  // namespace kvase
