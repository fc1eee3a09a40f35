// The lines of the control socket: one JSON object a line, requests one way, answers the other.
// docs/control.md is the reference.
//
//   -> {"id":1,"op":"set","args":{"target":"tp","values":{"max_iops":"40000"}}}
//   <- {"id":1,"ok":true,"result":{...}}
//   <- {"id":1,"ok":false,"error":{"code":"invalid argument","message":"..."}}
//
// PURE. JSON is passed on as text, so that no JSON library is in a header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::control {

inline constexpr int kProtocolVersion = 1;

// Named maxima; beyond one is an error that names it.
inline constexpr size_t kMaxLineBytes = 16 * 1024 * 1024;  // a whole weir.toml, escaped
inline constexpr int kMaxJsonDepth = 16;
inline constexpr size_t kMaxJsonValues = 100'000;  // of a request

struct Request {
  std::string id = "null";  // JSON: a number, a text, or null; echoed
  std::string op;
  std::string args = "{}";  // a JSON object
};

// Errors: kInvalidArgument, kResourceExhausted. Where the id could be read it is in *id all the
// same. Never throws, whatever the bytes.
[[nodiscard]] Result<Request> ParseRequest(std::string_view line, std::string* id);

// With the '\n'. `result` is JSON.
[[nodiscard]] std::string OkLine(std::string_view id, std::string_view result);
[[nodiscard]] std::string ErrorLine(std::string_view id, const Error& error);
[[nodiscard]] std::string RequestLine(uint64_t id, std::string_view op, std::string_view args);

// The result, or the error that the other side sent. Errors also: kInternal: not an answer.
[[nodiscard]] Result<std::string> ParseAnswer(std::string_view line);

// Reads the args of a request strictly: every key has to be asked for, the first thing wrong is
// kept. As catalog::TableReader.
class ArgsReader {
 public:
  // `op` opens the messages.
  ArgsReader(std::string op, std::string_view args);
  ~ArgsReader();
  ArgsReader(const ArgsReader&) = delete;
  ArgsReader& operator=(const ArgsReader&) = delete;

  [[nodiscard]] bool Has(std::string_view key);
  std::string Text(std::string_view key, std::string otherwise = {});
  std::string RequiredText(std::string_view key);
  bool Flag(std::string_view key, bool otherwise);
  int64_t Integer(std::string_view key, int64_t low, int64_t high, int64_t otherwise);
  // {"key": "value", ...}; numbers are taken as their digits.
  std::vector<std::pair<std::string, std::string>> Values(std::string_view key);
  void Reject(std::string_view key, std::string_view why);
  // Errors: kInvalidArgument: the first thing wrong, or a key that nobody asked for.
  [[nodiscard]] Result<void> Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::control
