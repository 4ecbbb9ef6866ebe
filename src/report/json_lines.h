// SPDX-License-Identifier: MIT
// Rows of measurements in a JSON-lines file that a stopped run takes up again.
//
// The first line is {"definition": {...}}: all that rows must share to be compared, such as model, text and
// lengths. Every other line is one row, an object with a "key" that is there once. A line is appended whole;
// what a killed process left of its last line is dropped when the file is opened again.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace kvase::report {

using Json = nlohmann::ordered_json;

struct JsonLines {
  Json definition;
  std::vector<Json> rows;  // in the file's order
};

// Reads a file without touching it; a torn last line is left out. Throws Error(invalid_argument): no such
// file, no definition, a line that is no row.
JsonLines read_json_lines(const std::string& path);

// Throws Error(invalid_argument) unless the two are equal, naming the first field that differs.
void check_same_definition(const std::string& path, const Json& found, const Json& wanted);

class JsonLinesFile {
 public:
  // Creates the file and its folder, or takes up one that is there. One process at a time: the file is
  // locked. Throws Error(invalid_argument): another definition, not such a file, in use, cannot be written.
  JsonLinesFile(const std::string& path, const Json& definition);

  bool has(const std::string& key) const { return keys_.contains(key); }
  const std::vector<Json>& rows() const { return rows_; }  // those found and those appended

  // The row is in the file, for every reader, when this returns; "key" becomes its first field. REQUIRES: a
  // new key. Throws Error(device).
  void append(const std::string& key, const Json& row);

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  void write_line(const Json& line);

  std::string path_;
  std::vector<Json> rows_;
  std::set<std::string> keys_;
  std::unique_ptr<FILE, Close> file_;  // holds the lock
};

}  // namespace kvase::report
