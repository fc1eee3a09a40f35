#include "app/top_terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace weir::app {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

bool WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd out = {STDOUT_FILENO, POLLOUT, 0};
      ::poll(&out, 1, -1);
      continue;
    }
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

TopTerminal::TopTerminal() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  full_screen_ = ::isatty(STDOUT_FILENO) == 1 && !dumb;
  keys_ = full_screen_ && ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // ISIG stays: Ctrl-C is a signal
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  if (full_screen_) WriteAll(kEnter);
}

TopTerminal::~TopTerminal() {
  if (full_screen_) WriteAll(kLeave);
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  if (signals_ >= 0) ::close(signals_);
}

bool TopTerminal::color() const { return full_screen_ && std::getenv("NO_COLOR") == nullptr; }

bool TopTerminal::Show(const std::string& text) {
  if (!full_screen_) return WriteAll(text);
  // Each line is cleared behind its text: no flicker as from clearing everything first.
  std::string screen = "\x1b[H";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool last = i + 1 == text.size();
    if (text[i] == '\n') {
      screen += last ? "\x1b[K" : "\x1b[K\r\n";
    } else {
      screen += text[i];
    }
  }
  return WriteAll(screen + "\x1b[J");
}

int TopTerminal::ReadKey() {
  unsigned char keys[8] = {};
  const ssize_t n = ::read(STDIN_FILENO, keys, sizeof keys);
  if (n <= 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(keys), static_cast<size_t>(n));
  if (text == "\x1b[A" || text == "\x1bOA") return kUp;
  if (text == "\x1b[B" || text == "\x1bOB") return kDown;
  if (text == "\x1b[5~") return kPageUp;
  if (text == "\x1b[6~") return kPageDown;
  return keys[0] == kEscape && n > 1 ? 0 : keys[0];
}

TopTerminal::Event TopTerminal::Wait(Duration at_most) {
  pollfd watch[2] = {{signals_, POLLIN, 0}, {keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
  const int64_t ms = std::clamp<int64_t>(at_most.count() / 1'000'000, 0, 3'600'000);
  const int ready = ::poll(watch, 2, static_cast<int>(ms));
  if (ready <= 0) return {};
  if ((watch[0].revents & POLLIN) != 0) {
    signalfd_siginfo info = {};
    if (::read(signals_, &info, sizeof info) != sizeof info) return {};
    if (info.ssi_signo == SIGWINCH) return {Event::Kind::kResize, 0, 0};
    return {Event::Kind::kStop, 0, static_cast<int>(info.ssi_signo)};
  }
  if ((watch[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
    return {Event::Kind::kStop, 0, SIGHUP};
  }
  return {Event::Kind::kKey, ReadKey(), 0};
}

TerminalSize SizeOfTerminal() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return {size.ws_col, size.ws_row};
  }
  TerminalSize result;
  if (const char* columns = std::getenv("COLUMNS")) {
    result.columns = std::clamp(std::atoi(columns), 80, 1000);
  }
  return result;
}

}  // namespace weir::app
