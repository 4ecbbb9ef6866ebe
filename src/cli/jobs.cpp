// SPDX-License-Identifier: MIT
// Reads jobs, and keeps the file of answers whole.
#include "cli/jobs.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/messages.h"
#include "kvase/error.h"

namespace kvase::cli {
namespace {

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

// Calls body(line, its number from 1) for every line that is not empty.
template <typename Body>
void for_each_line(std::string_view text, const Body& body) {
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    ++number;
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) body(line, number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// An id is a text or a whole number; both are kept as text.
std::optional<std::string> id_of(const Json& row) {
  if (!row.contains("id")) return std::nullopt;
  const Json& id = row["id"];
  if (id.is_string()) return id.get<std::string>();
  if (id.is_number_integer()) return id.dump();
  return std::nullopt;
}

Job parse_job(std::string_view line, size_t number, const std::string& source) {
  const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto here = [&] { return fmt::format("{}: line {}", source, number); };
  if (!row.is_object()) refuse("{}: found no JSON object, allowed: {{\"prompt\": \"...\"}}", here());
  if (!row.contains("prompt") || !row["prompt"].is_string() ||
      row["prompt"].get_ref<const std::string&>().empty()) {
    refuse("{}: found no prompt, allowed: \"prompt\" with at least one character", here());
  }
  Job job{.id = std::to_string(number), .prompt = row["prompt"].get<std::string>(), .seed = std::nullopt};
  if (row.contains("id")) {
    const auto id = id_of(row);
    if (!id) refuse("{}: found id {}, allowed: a text or a whole number", here(), one_line(row["id"].dump()));
    job.id = *id;
  }
  if (row.contains("seed")) {
    if (!row["seed"].is_number_unsigned())
      refuse("{}: found seed {}, allowed: 0 or more", here(), one_line(row["seed"].dump()));
    job.seed = row["seed"].get<uint64_t>();
  }
  return job;
}

}  // namespace

std::vector<Job> parse_jobs(std::string_view text, const std::string& source) {
  std::vector<Job> jobs;
  std::set<std::string> ids;
  for_each_line(text, [&](std::string_view line, size_t number) {
    jobs.push_back(parse_job(line, number, source));
    if (!ids.insert(jobs.back().id).second) {
      refuse("{}: line {}: found id \"{}\" a second time, allowed: each once", source, number,
             one_line(jobs.back().id));
    }
  });
  if (jobs.empty()) refuse("{}: found no prompts, allowed: one JSON object per line", source);
  return jobs;
}

AnswerFile::AnswerFile(const std::string& path) : path_(path) {
  std::ifstream existing(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(existing)), {});
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  for_each_line(std::string_view(text).substr(0, whole), [&](std::string_view line, size_t number) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto id = row.is_object() ? id_of(row) : std::nullopt;
    if (!id)
      refuse("--out {}: line {}: found no answer with an id, allowed: a new file, or one of an earlier run",
             path, number);
    done_.insert(*id);
  });
  existing.close();
  if (whole < text.size()) std::filesystem::resize_file(path, whole);
  file_.reset(std::fopen(path.c_str(), "ab"));
  if (!file_) refuse("--out {}: {}, allowed: a file that can be written", path, std::strerror(errno));
}

void AnswerFile::append(const std::string& id, const Json& row) {
  const std::string line = row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0) {
    throw Error(ErrorCode::device, fmt::format("--out {}: {}, the answer to \"{}\" was not written", path_,
                                               std::strerror(errno), one_line(id)));
  }
  done_.insert(id);
}

}  // namespace kvase::cli
