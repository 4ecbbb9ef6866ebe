// SPDX-License-Identifier: MIT
// Once it runs, an engine's memory does not grow by a byte, and its steps allocate nothing of their own:
// every call of malloc and its kin in this process is counted, ggml's and OpenMP's too.
//
// ggml makes and frees two small objects whenever it runs a graph. At an event a policy's verdict and what
// led to it live in vectors that go away with the event.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "system/policies.h"
#include "tensor/compute.h"

// glibc's own, under the names by which it lets them be replaced.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* p);
}

namespace {

std::atomic<int64_t> n_allocations = 0;
std::atomic<int64_t> n_frees = 0;

}  // namespace

extern "C" {
void* malloc(size_t size) {
  ++n_allocations;
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  ++n_allocations;
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  ++n_allocations;
  if (p != nullptr) ++n_frees;
  return __libc_realloc(p, size);
}
void* memalign(size_t alignment, size_t size) {
  ++n_allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** p, size_t alignment, size_t size) {
  *p = memalign(alignment, size);
  return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) {
  if (p != nullptr) ++n_frees;
  __libc_free(p);
}
}

namespace kvase {
namespace {

int64_t n_live() { return n_allocations - n_frees; }

// What ggml allocates by itself to run a graph.
int64_t allocations_of_a_graph() {
  Compute compute(1);
  const GgmlContext context(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph,
                            ggml_dup(context.get(), ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1)));
  compute.run(graph);
  const int64_t before = n_allocations;
  compute.run(graph);
  return n_allocations - before;
}

// Tokens `first` to `last`.
void expect_no_allocation(const std::string& policy, uint32_t first, uint32_t last) {
  Engine engine(toy_model(), options_for(policy, {40, 16}));
  const SequenceId sequence = engine.open({.seed = 1});
  const std::vector<Token> tokens = random_tokens(last, engine.model().info().n_vocab, 2);
  const int64_t allocations_of_ggml = allocations_of_a_graph();
  int64_t live = 0;
  double events_ms = 0;
  for (uint32_t pos = 0; pos < last; ++pos) {
    if (pos == first) live = n_live();
    const int64_t before = n_allocations;
    const Feed one{.sequence = sequence, .tokens = std::span(tokens).subspan(pos, 1)};
    ASSERT_EQ(engine.advance({&one, 1}, {}), Advance::done);
    const double events_ms_before = events_ms;
    events_ms = engine.times().events_ms;
    if (pos < first) continue;
    if (events_ms == events_ms_before) {
      ASSERT_EQ(n_allocations - before, allocations_of_ggml) << "token " << pos;
    }
    ASSERT_EQ(n_live(), live) << "token " << pos;
  }
  EXPECT_GT(engine.state(sequence).n_evictions, (last - 60) / 16);
}

TEST(Allocation, NothingBetweenTokens100And10000) { expect_no_allocation("vase-attnv", 100, 10'000); }

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, AllocatesNothingOnceItRuns) { expect_no_allocation(GetParam(), 100, 500); }

INSTANTIATE_TEST_SUITE_P(Table, EveryPolicy, testing::ValuesIn(evicting_policies()), test_name);

TEST(Counting, SeesAnAllocation) {
  const int64_t before = n_allocations;
  const auto number = std::make_unique<volatile int>(1);
  EXPECT_EQ(n_allocations - before, 1) << *number;
}

}  // namespace
}  // namespace kvase
