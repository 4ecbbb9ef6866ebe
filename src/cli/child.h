// SPDX-License-Identifier: MIT
// A second process of this program that is asked in JSON, one line a question, one line an answer.
//
// What is measured in a process of its own has a peak memory of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"

namespace kvase::cli {

class Child {
 public:
  // Starts this program with these arguments. `name` stands in the messages.
  // Throws Error(device) if the system gives no process.
  Child(std::string name, const Arguments& arguments);
  ~Child();  // the child sees the end of its questions and goes; waits for it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends the question and waits for the answer. Throws the Error that the child reported, or Error(device)
  // if it died; `doing` says in that message what it was asked for.
  nlohmann::json ask(const nlohmann::json& question, const std::string& doing);

 private:
  [[noreturn]] void report_death(const std::string& doing);

  std::string name_;
  int socket_ = -1;
  pid_t pid_ = -1;
  std::string received_;  // bytes after the last whole line
};

// The child's side: answers questions until they end. An Error from `answer` is the answer. Returns the exit
// status.
int serve_parent(const std::function<nlohmann::json(const nlohmann::json&)>& answer);

}  // namespace kvase::cli
