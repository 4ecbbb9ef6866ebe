// SPDX-License-Identifier: MIT
// A child that is none: its death is one clear error. The living ones are tested through `kvase bench`.
#include "cli/child.h"

#include <gtest/gtest.h>

#include <string>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

TEST(Child, DeathIsReportedWithWhatItWasDoing) {
  // This program's own --help: it ends without an answer.
  Child child("window", {"--help"});
  try {
    child.ask({{"do", "start"}}, "loading the model");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_EQ(std::string(error.what()),
              "window: its process ended with status 0 while loading the model, allowed: one that finishes");
  }
}

}  // namespace
}  // namespace kvase::cli
