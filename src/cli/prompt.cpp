// SPDX-License-Identifier: MIT
// The prompt: from the command line or from a file, checked.
#include "cli/prompt.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "kvase/error.h"
#include "kvase/text.h"

namespace kvase::cli {
namespace {

constexpr size_t kMaxBytes = size_t{256}
                             << 20;  // far beyond any context; keeps an endless file from filling the memory

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

std::string read_text(const std::string& path, const std::string& flag) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) refuse("{} {}: {}, allowed: a text file", flag, path, std::strerror(errno));
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (const size_t n = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    text.append(chunk.data(), n);
    if (text.size() > kMaxBytes)
      refuse("{} {}: more than {} bytes, allowed: up to that", flag, path, kMaxBytes);
  }
  if (std::ferror(file.get()) != 0)
    refuse("{} {}: {}, allowed: a text file", flag, path, std::strerror(errno));
  return text;
}

std::string read_prompt(const std::optional<std::string>& text, const std::optional<std::string>& path) {
  if (text && path) refuse("--prompt and --file both given, allowed: one of them");
  if (!text && !path) refuse("no prompt given, allowed: -p TEXT or -f FILE");
  const std::string source = path ? "--file " + *path : "--prompt";
  std::string prompt = path ? read_text(*path, "--file") : *text;
  if (path && prompt.ends_with('\n')) prompt.pop_back();
  if (prompt.empty()) refuse("{}: empty prompt, allowed: at least one character", source);
  if (const auto offset = find_invalid_utf8(prompt)) {
    refuse("{}: byte {} at offset {} is not UTF-8, allowed: UTF-8 text", source,
           fmt::format("0x{:02x}", static_cast<unsigned char>(prompt[*offset])), *offset);
  }
  return prompt;
}

}  // namespace kvase::cli
