// SPDX-License-Identifier: MIT
// What `run` and `chat` say about their cache.
#include "cli/run_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/format.h"
#include "cli/messages.h"

namespace kvase::cli {
namespace {

std::string length_promise(const MemoryPlan& plan) {
  if (!plan.evicts) return fmt::format("for up to {} tokens", plan.shape.budget);
  if (plan.prefill == Prefill::whole)
    return fmt::format("for any answer to a prompt of up to {} tokens", plan.capacity - plan.shape.interval);
  return "for any length";
}

}  // namespace

std::string shape_text(const MemoryPlan& plan) {
  if (!plan.evicts) return fmt::format("{} slots per head, nothing evicted", plan.capacity);
  return fmt::format("{} slots per head: budget {} + interval {}, window {}, sinks {}", plan.capacity,
                     plan.shape.budget, plan.shape.interval, plan.shape.window, plan.shape.n_sink);
}

void print_memory_line(const MemoryPlan& plan) {
  fmt::print(stderr, "KV cache: {} bytes ({}) {}: {}, {}\n", with_commas(plan.kv_bytes),
             human_bytes(plan.kv_bytes), length_promise(plan), plan.policy, shape_text(plan));
}

void warn_about_options(const CacheOptions& cache, const MemoryPlan& plan) {
  if (!plan.evicts &&
      (cache.budget || cache.interval || cache.window || cache.n_sink || parse_policy(cache.policy).budget)) {
    print_warning("full ignores budget, interval, window and sinks: it keeps everything up to -c tokens");
  }
  if (plan.evicts && plan.prefill == Prefill::bounded && cache.n_ctx) {
    print_warning(fmt::format("-c {} has no effect: {} needs no context, its cache never grows", *cache.n_ctx,
                              plan.policy));
  }
}

}  // namespace kvase::cli
