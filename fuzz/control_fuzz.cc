// Any bytes are a control request or an error of one line; an answer is one line of JSON that the
// client reads back. A saved plan is read back as it was written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "control/plan_state.h"
#include "control/protocol.h"
#include "control/server.h"

namespace {

// Reads the args of every operation, as a daemon does.
class Reader : public weir::control::Handler {
 public:
  weir::Result<std::string> Handle(const weir::control::Request& request) override {
    weir::control::ArgsReader args(request.op, request.args);
    const std::string target = args.Text("target", "none");
    static_cast<void>(args.Flag("dry_run", false));
    const int64_t pid = args.Integer("pid", 1, INT32_MAX, -1);
    WEIR_CHECK(pid == -1 || (pid >= 1 && pid <= INT32_MAX));
    const int64_t since = args.Integer("since", 0, INT64_MAX, 0);
    WEIR_CHECK(since >= 0);
    if (args.Has("values")) static_cast<void>(args.Values("values"));
    if (auto done = args.Finish(); !done) {
      WEIR_CHECK(done.error().message.find('\n') == std::string::npos);
      return tl::unexpected(done.error());
    }
    return request.args;
  }
};

void CheckAnswer(std::string_view line) {
  Reader reader;
  const std::string answer = weir::control::AnswerLine(line, &reader);
  WEIR_CHECK(weir::IsUtf8(answer));
  WEIR_CHECK(answer.find('\n') == answer.size() - 1);
  const auto read =
      weir::control::ParseAnswer(std::string_view(answer).substr(0, answer.size() - 1));
  WEIR_CHECK(read || read.error().code != weir::ErrorCode::kInternal);
}

void CheckState(std::string_view text) {
  const auto state = weir::control::ParsePlanState(text);
  if (!state) return;
  const auto again = weir::control::ParsePlanState(weir::control::PlanStateJson(*state));
  WEIR_CHECK(again.has_value());
  WEIR_CHECK(again->toml == state->toml && again->sets == state->sets);
  WEIR_CHECK(again->attached.size() == state->attached.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckState(text);
  while (!text.empty()) {
    const size_t end = text.find('\n');
    CheckAnswer(text.substr(0, end));
    static_cast<void>(weir::control::ParseAnswer(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return 0;
}
