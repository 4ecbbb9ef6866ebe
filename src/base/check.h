// SPDX-License-Identifier: MIT
// CHECK for our own bugs: always on, prints the place and the values, and aborts. Bad input is never a CHECK;
// see error.h.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#define KVASE_CHECK(condition, ...)                                                                         \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fmt::print(stderr, "kvase: internal check failed at {}:{}: {}: {}\n", __FILE__, __LINE__, #condition, \
                 fmt::format(__VA_ARGS__));                                                                 \
      std::abort();                                                                                         \
    }                                                                                                       \
  } while (false)
