// SPDX-License-Identifier: MIT
// Many prompts: a JSON-lines file of them, and a JSON-lines file of answers that a stopped run takes up
// again.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/json.h"

namespace kvase::cli {

struct Job {
  std::string id;  // the file's "id", else the line's number
  std::string prompt;
  std::optional<uint64_t> seed;
};

// One object per line: {"prompt": "...", "id": text or number, "seed": number}; id and seed may be left out;
// empty lines and other fields are skipped. `source` is named in errors. Throws Error(invalid_argument) with
// the line's number: not JSON, no prompt, an id twice.
std::vector<Job> parse_jobs(std::string_view text, const std::string& source);

// The answers so far, appended line by line; each line is on disk before the next begins.
class AnswerFile {
 public:
  // Creates the file, or takes up one that is there: its ids count as done; a last line that was cut is
  // removed. Throws Error(invalid_argument): cannot be written, or a line that is no answer of ours.
  explicit AnswerFile(const std::string& path);

  bool has(const std::string& id) const { return done_.contains(id); }
  size_t size() const { return done_.size(); }
  void append(const std::string& id, const Json& row);  // throws Error(device)

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::set<std::string> done_;
  std::unique_ptr<FILE, Close> file_;
};

}  // namespace kvase::cli
