// SPDX-License-Identifier: MIT
// The whole public interface. A program that thinks in 1,024 slots per head, whatever the length of its
// thoughts:
//
//   #include <kvase/kvase.h>
//   #include <cstdio>
//
//   int main(int argc, char** argv) {
//     if (argc != 3) return 2;
//     const kvase::Model model = kvase::Model::load({.path = argv[1]});
//     kvase::EngineOptions options;
//     options.cache.policy = "vase-attnv:budget=1024";
//     kvase::Engine engine(model, options);
//     std::printf("KV cache: %zu bytes, for ever\n", engine.plan().kv_bytes);
//
//     kvase::GenerateRequest request;
//     request.prompt = model.tokenize(argv[2], /*add_special=*/true, /*parse_special=*/true);
//     kvase::generate(engine, request, {.on_text = [](std::string_view text) {
//       std::fwrite(text.data(), 1, text.size(), stdout);
//     }});
//   }
#pragma once

#include "kvase/calibrate.h"
#include "kvase/chat.h"
#include "kvase/engine.h"
#include "kvase/error.h"
#include "kvase/generate.h"
#include "kvase/model.h"
#include "kvase/options.h"
#include "kvase/plan.h"
#include "kvase/policy.h"
#include "kvase/score.h"
#include "kvase/text.h"
