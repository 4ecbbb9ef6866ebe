// SPDX-License-Identifier: MIT
// A socket pair, the child's end as its standard input; its standard output and error go nowhere.
#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kvase/error.h"

namespace kvase::cli {
namespace {

using nlohmann::json;

// False if the other side is gone. MSG_NOSIGNAL: which must not end this process.
bool send_line(int socket, const json& value) {
  const std::string line = value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Nothing if the other side is gone. `received` keeps what came after the line.
std::optional<json> receive_line(int socket, std::string& received) {
  std::array<char, 4096> buffer;
  size_t end = received.find('\n');
  while (end == std::string::npos) {
    const ssize_t n = recv(socket, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    received.append(buffer.data(), static_cast<size_t>(n));
    end = received.find('\n');
  }
  json value = json::parse(received.substr(0, end));
  received.erase(0, end + 1);
  return value;
}

// The program's path, its arguments, and a null pointer.
std::vector<char*> argv_of(Arguments& arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

Child::Child(std::string name, const Arguments& arguments) : name_(std::move(name)) {
  std::array<int, 2> ends;
  // Close on exec: a child that held another one's socket would keep it from seeing the end of its questions.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(ErrorCode::device, fmt::format("{}: cannot make a socket: {}", name_, std::strerror(errno)));
  }
  Arguments with_program = arguments;
  with_program.insert(with_program.begin(), "/proc/self/exe");
  const std::vector<char*> argv = argv_of(with_program);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const int error = posix_spawn(&pid_, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (error != 0) {
    close(socket_);
    throw Error(ErrorCode::device,
                fmt::format("{}: cannot start a process: {}", name_, std::strerror(error)));
  }
}

Child::~Child() {
  close(socket_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

json Child::ask(const json& question, const std::string& doing) {
  if (!send_line(socket_, question)) report_death(doing);
  std::optional<json> answer = receive_line(socket_, received_);
  if (!answer) report_death(doing);
  if (answer->contains("error")) {
    throw Error(answer->at("code").get<ErrorCode>(), answer->at("error").get<std::string>());
  }
  return std::move(*answer);
}

void Child::report_death(const std::string& doing) {
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  throw Error(ErrorCode::device, fmt::format("{}: its process {} while {}, allowed: one that finishes", name_,
                                             end_text(status), doing));
}

int serve_parent(const std::function<json(const json&)>& answer) {
  std::string received;
  while (const std::optional<json> question = receive_line(STDIN_FILENO, received)) {
    json reply;
    try {
      reply = answer(*question);
    } catch (const Error& error) {
      reply = {{"error", error.what()}, {"code", error.code()}};
    } catch (const std::bad_alloc&) {
      reply = {{"error", "out of memory, allowed: a smaller context, budget or interval"},
               {"code", ErrorCode::out_of_memory}};
    } catch (const std::exception& error) {
      reply = {{"error", fmt::format("internal: {}, please report it", error.what())},
               {"code", ErrorCode::internal}};
    }
    if (!send_line(STDIN_FILENO, reply)) break;
  }
  return kExitOk;
}

}  // namespace kvase::cli
