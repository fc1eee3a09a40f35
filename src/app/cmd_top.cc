// weir top: what every group of a running volume gets, and what holds it back.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/commands.h"
#include "app/top_frame.h"
#include "app/top_render.h"
#include "app/top_terminal.h"
#include "base/monotonic_clock.h"
#include "base/units.h"
#include "control/client.h"

namespace weir::app {
namespace {

constexpr Duration kLeastInterval = std::chrono::milliseconds(100);
constexpr char kHelp[] =
    "q quit  s sort  r reverse  / filter  space pause  arrows, PgUp, PgDn scroll";

struct TopArguments {
  std::string socket;
  std::string interval = "1s";
  std::string sort = "plan";
  std::string filter;
  bool reverse = false;
  bool once = false;
  bool json = false;
  uint64_t count = 0;
};

int Complain(const Error& error) {
  fmt::print(stderr, "weir top: {}\n", error.message);
  return error.code == ErrorCode::kInvalidArgument ? 2 : 1;
}

Result<std::string> AskStats(control::Client* client, uint64_t since) {
  return client->Call("stats", fmt::format("{{\"since\":{}}}", since));
}

class Top {
 public:
  Top(control::Client client, std::string socket, const TopArguments& arguments, Duration interval,
      TopSort sort)
      : client_(std::move(client)), arguments_(arguments), interval_(interval) {
    view_.title = "weir top - " + socket;
    view_.sort = sort;
    view_.reverse = arguments.reverse;
    view_.filter = arguments.filter;
  }

  // The counters are there since the first answer; rates need a second one.
  Result<int> Run() {
    if (Result<void> first = Sample(); !first) return tl::unexpected(first.error());
    TopTerminal terminal;
    terminal_ = &terminal;
    view_.color = terminal.color();
    const bool interactive = terminal.full_screen() && !arguments_.once && !arguments_.json;
    uint64_t shown = 0;
    TimePoint next = MonotonicNow() + (interactive ? kLeastInterval : interval_);
    while (true) {
      const TopTerminal::Event event = terminal.Wait(next - MonotonicNow());
      if (event.kind == TopTerminal::Event::Kind::kStop)
        return interactive ? 0 : 128 + event.signal;
      if (event.kind == TopTerminal::Event::Kind::kKey && !Press(event.key)) return 0;
      if (MonotonicNow() >= next) {
        next = MonotonicNow() + interval_;
        if (paused_) continue;
        if (Result<void> sampled = Sample(); !sampled) return tl::unexpected(sampled.error());
        if (!Show()) return 0;
        ++shown;
        if (arguments_.once || (arguments_.count > 0 && shown >= arguments_.count)) return 0;
      } else if (interactive && !Show()) {
        return 0;
      }
    }
  }

 private:
  Result<void> Sample() {
    Result<std::string> answer = AskStats(&client_, frame_.sequence);
    if (!answer) return tl::unexpected(std::move(answer.error()));
    json_ = std::move(*answer);
    Result<TopFrame> frame = ParseTopFrame(json_);
    if (!frame) return tl::unexpected(std::move(frame.error()));
    frame_ = std::move(*frame);
    return {};
  }

  bool Show() {
    if (arguments_.json) return terminal_->Show(json_ + "\n");
    const TerminalSize size = SizeOfTerminal();
    view_.columns = size.columns;
    const bool screen = terminal_->full_screen() && !arguments_.once;
    view_.lines = screen ? size.lines : 0;
    view_.status = !screen ? "" : typing_ ? "filter: " + view_.filter + "_" : Status();
    return terminal_->Show(RenderTop(frame_, view_));
  }

  [[nodiscard]] std::string Status() const {
    return fmt::format("{}  [{}{}{}]", kHelp, TopSortNames()[static_cast<size_t>(view_.sort)],
                       view_.reverse ? ", reversed" : "", paused_ ? ", paused" : "");
  }

  // False: quit.
  bool Press(int key) {
    if (typing_) return TypeFilter(key);
    const int page = std::max(1, view_.lines - 5);
    switch (key) {
      case 'q':
        return false;
      case 's':
        view_.sort =
            static_cast<TopSort>((static_cast<size_t>(view_.sort) + 1) % TopSortNames().size());
        break;
      case 'r':
        view_.reverse = !view_.reverse;
        break;
      case '/':
        typing_ = true;
        view_.filter.clear();
        break;
      case ' ':
        paused_ = !paused_;
        break;
      case TopTerminal::kUp:
      case TopTerminal::kPageUp:
        view_.first_row = std::max(0, view_.first_row - (key == TopTerminal::kUp ? 1 : page));
        break;
      case TopTerminal::kDown:
      case TopTerminal::kPageDown:
        view_.first_row = std::min(view_.first_row + (key == TopTerminal::kDown ? 1 : page),
                                   static_cast<int>(frame_.rows.size()));
        break;
      default:
        break;
    }
    return true;
  }
  bool TypeFilter(int key) {
    if (key == '\n' || key == '\r') typing_ = false;
    if (key == TopTerminal::kEscape) typing_ = false, view_.filter.clear();
    if ((key == 127 || key == 8) && !view_.filter.empty()) view_.filter.pop_back();
    if (key >= 32 && key < 127 && view_.filter.size() < 64) view_.filter += static_cast<char>(key);
    view_.first_row = 0;
    return true;
  }

  control::Client client_;
  const TopArguments& arguments_;
  const Duration interval_;
  TopTerminal* terminal_ = nullptr;
  TopView view_;
  TopFrame frame_;
  std::string json_;
  bool paused_ = false;
  bool typing_ = false;
};

int RunTop(TopArguments arguments) {
  const Result<Duration> interval = ParseDuration(arguments.interval);
  if (!interval) return Complain(interval.error());
  if (*interval < kLeastInterval) {
    return Complain({ErrorCode::kInvalidArgument,
                     fmt::format("--interval {}: it is at least {}", arguments.interval,
                                 FormatDuration(kLeastInterval)),
                     0});
  }
  const Result<TopSort> sort = ParseTopSort(arguments.sort);
  if (!sort) return Complain({sort.error().code, "--sort: " + sort.error().message, 0});
  Result<std::string> socket = std::string(arguments.socket);
  if (arguments.socket.empty())
    socket = control::FindSocket(std::string(control::kSocketDirectory));
  if (!socket) return Complain(socket.error());
  Result<control::Client> client = control::Client::Connect(*socket);
  if (!client) return Complain(client.error());
  // Errors are told when the terminal is as it was.
  const Result<int> done = Top(std::move(*client), *socket, arguments, *interval, *sort).Run();
  return done ? *done : Complain(done.error());
}

}  // namespace

void AddTop(CLI::App* app, int* status) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* top = app->add_subcommand("top", "Show what every group of a running volume gets");
  top->add_option("--socket", arguments->socket,
                  "Control socket (default: the only one in /run/weir)");
  top->add_option("-i,--interval", arguments->interval, "Time between two looks, at least 100ms")
      ->capture_default_str();
  top->add_option("-s,--sort", arguments->sort,
                  "Order of siblings: plan, name, norm, raw, bytes, queue, wait, service")
      ->capture_default_str();
  top->add_option("-f,--filter", arguments->filter, "Only groups with this in their path");
  top->add_flag("-r,--reverse", arguments->reverse, "Reverse the order");
  top->add_flag("-1,--once", arguments->once, "Look for one interval, print, end");
  top->add_option("-n,--count", arguments->count, "End after so many looks");
  top->add_flag("--json", arguments->json, "The daemon's answers, a line each; docs/control.md");
  top->footer(
      "NORM: normalised IOPS, RAW: operations; QUE: waiting; W50, W99: time in the queue, S50, "
      "S99:\n"
      "in the device (u: us, m: ms); R/W/L %: served by reservation, weight, leftover; BLOCKED BY: "
      "the\n"
      "limit that held it back and how much of the time, '^' that of a node above.\n"
      "Keys: q quit, s sort, r reverse, / filter, space pause, arrows and page keys scroll.");
  top->callback([arguments, status] { *status = RunTop(*arguments); });
}

}  // namespace weir::app
