// SPDX-License-Identifier: MIT
// Every error that the library reports, and the one exception type that carries it.
//
// Thrown where something cannot be made: a model, an engine, a policy, a plan. Expected outcomes (cancelled,
// length reached) are ordinary values. A message is one line: what, found, allowed.
#pragma once

#include <stdexcept>
#include <string>

namespace kvase {

enum class ErrorCode {
  invalid_argument,  // an option, a policy string or an input out of its range
  bad_model_file,    // a model file that cannot be what it says
  unsupported,       // a valid request that this build or this model cannot serve
  out_of_memory,     // an allocation failed; nothing was kept
  device,            // a backend reported failure while computing
  internal,          // our own fault; please report it
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace kvase
