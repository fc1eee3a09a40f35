// The terminal of `weir top`: full screen, keys as they are pressed, and everything back as it was
// at the end, also after a signal.
//
// Threads: one, the only one of the process while it lives (signals are blocked in it).
#pragma once

#include <termios.h>

#include <string>

#include "base/time.h"

namespace weir::app {

class TopTerminal {
 public:
  // Takes the screen if standard output is a terminal, the keyboard if standard input is one.
  // SIGINT, SIGTERM, SIGHUP and SIGWINCH arrive in Wait from here on.
  TopTerminal();
  ~TopTerminal();
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;

  [[nodiscard]] bool full_screen() const { return full_screen_; }
  [[nodiscard]] bool color() const;

  // Replaces the whole screen. Without a full screen: prints. False: nobody reads it any more.
  bool Show(const std::string& text);

  struct Event {
    enum class Kind { kTimeout, kKey, kStop, kResize };
    Kind kind = Kind::kTimeout;
    int key = 0;     // a byte, or one of the below
    int signal = 0;  // kStop
  };
  static constexpr int kUp = 1000, kDown = 1001, kPageUp = 1002, kPageDown = 1003;
  static constexpr int kEscape = 27;
  [[nodiscard]] Event Wait(Duration at_most);

 private:
  [[nodiscard]] int ReadKey();
  bool full_screen_ = false;
  bool keys_ = false;
  int signals_ = -1;
  termios before_{};
};

// Of standard output; 80 by 0 where it is none and COLUMNS is not set.
struct TerminalSize {
  int columns = 80;
  int lines = 0;
};
[[nodiscard]] TerminalSize SizeOfTerminal();

}  // namespace weir::app
