// Goal: any bytes are a request or an error of one line; what is written is what is read.
#include "control/protocol.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/text.h"

namespace weir::control {
namespace {

constexpr std::string_view kGood =
    R"({"id":"a\n7","op":"set","args":{"target":"tp","values":{"max_iops":40000,"burst":"1s"}}})";

Result<Request> Parse(std::string_view line) {
  std::string id;
  return ParseRequest(line, &id);
}

TEST(Protocol, ARequestIsAsWritten) {
  const auto request = Parse(kGood);
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->id, R"("a\n7")");
  EXPECT_EQ(request->op, "set");
  ArgsReader args("set", request->args);
  EXPECT_EQ(args.RequiredText("target"), "tp");
  const auto values = args.Values("values");
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0], std::make_pair(std::string("burst"), std::string("1s")));
  EXPECT_EQ(values[1], std::make_pair(std::string("max_iops"), std::string("40000")));
  EXPECT_TRUE(args.Finish().has_value());
  EXPECT_EQ(Parse(R"({"op":"ping"})")->id, "null");
}

TEST(Protocol, ErrorsSayWhatIsWrong) {
  struct Case {
    const char* line;
    const char* message;
  };
  const Case cases[] = {
      {"hello", "not valid JSON; a request is one line like {\"id\":1,\"op\":\"ping\"}"},
      {"[]", "a request is a JSON object: {\"id\":1,\"op\":\"ping\"}"},
      {"{}", "op is missing; say what to do, for example \"ping\""},
      {R"({"op":7})", "op: it must be a text"},
      {R"({"op":"a","args":[]})", "args: it must be an object"},
      {R"({"op":"a","id":{}})", "id: it must be a whole number or a text of at most 256 bytes"},
      {R"({"op":"a","arg":{}})", "unknown key \"arg\"; known: id, op, args"},
  };
  for (const Case& c : cases) {
    const auto request = Parse(c.line);
    ASSERT_FALSE(request.has_value()) << c.line;
    EXPECT_EQ(request.error().message, c.message);
  }
}

TEST(Protocol, ArgsAreReadStrictly) {
  ArgsReader args("set", R"({"target":7,"valuess":{},"n":99})");
  args.Text("target");
  EXPECT_EQ(args.Finish().error().message, "set: target = 7: it must be a text");
  ArgsReader unknown("set", R"({"valuess":{}})");
  static_cast<void>(unknown.Has("values"));
  EXPECT_EQ(unknown.Finish().error().message,
            "set: unknown key \"valuess\"; did you mean \"values\"?");
  ArgsReader range("attach", R"({"pid":99})");
  range.Integer("pid", 1, 10, -1);
  EXPECT_EQ(range.Finish().error().message,
            "attach: pid = 99: it must be a whole number between 1 and 10");
  ArgsReader wide("attach", R"({"pid":18446744073709551615})");
  wide.Integer("pid", 1, INT64_MAX, -1);
  EXPECT_FALSE(wide.Finish().has_value());
  ArgsReader nested("set", R"({"values":{"a":[1]}})");
  nested.Values("values");
  EXPECT_EQ(nested.Finish().error().message, "set: \"a\" = [1]: it must be a text or a number");
}

TEST(Protocol, AnswersAreReadBack) {
  EXPECT_EQ(ParseAnswer(OkLine("7", R"({"a":1})")).value(), R"({"a":1})");
  const auto error =
      ParseAnswer(ErrorLine("null", {ErrorCode::kNotFound, "no \"x\"\n\xff", 2})).error();
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.sys_errno, 2);
  EXPECT_NE(error.message.find("no \"x\"\n"), std::string::npos);
  for (const char* strange : {"", "x", "[]", "{}", R"({"ok":1})", R"({"ok":false,"error":7})",
                              R"({"ok":false,"error":{"code":7}})"}) {
    EXPECT_EQ(ParseAnswer(strange).error().code, ErrorCode::kInternal) << strange;
  }
}

TEST(Protocol, EveryPrefixAndDamagedCopyIsReadOrRefused) {
  const auto survive = [](std::string_view line) {
    std::string id;
    const auto request = ParseRequest(line, &id);
    const std::string answer = request ? OkLine(request->id, "{}") : ErrorLine(id, request.error());
    EXPECT_TRUE(IsUtf8(answer));
    EXPECT_EQ(answer.find('\n'), answer.size() - 1);
  };
  for (size_t n = 0; n <= kGood.size(); ++n) survive(kGood.substr(0, n));
  Random random(9);
  for (int i = 0; i < 20'000; ++i) {
    std::string line(kGood);
    for (int64_t n = random.Range(1, 4); n > 0; --n) {
      line[static_cast<size_t>(random.Range(0, static_cast<int64_t>(line.size()) - 1))] =
          static_cast<char>(random.Next());
    }
    survive(line);
  }
}

TEST(Protocol, BombsAreRefusedByName) {
  EXPECT_EQ(Parse(std::string(1'000'000, '[')).error().message,
            "the request nests deeper than 16 levels");
  std::string wide = R"({"op":"a","args":{"a":[)";
  for (size_t i = 0; i <= kMaxJsonValues; ++i) wide += "1,";
  EXPECT_EQ(Parse(wide + "1]}}").error().message, "the request has more than 100000 values");
  EXPECT_EQ(Parse(std::string(kMaxLineBytes + 1, ' ')).error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace weir::control
