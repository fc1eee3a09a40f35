#include "control/protocol.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace weir::control {
namespace {

using Json = nlohmann::json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What could exhaust stack or memory is refused before it is parsed.
Result<void> CheckSize(std::string_view text) {
  int depth = 0;
  size_t values = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') ++depth, ++values;
    if (c == '}' || c == ']') --depth;
    if (c == ',') ++values;
    if (depth > kMaxJsonDepth) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the request nests deeper than {} levels", kMaxJsonDepth));
    }
    if (values > kMaxJsonValues) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the request has more than {} values", kMaxJsonValues));
    }
  }
  return {};
}

tl::unexpected<Error> Bad(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

std::string Cut(const Json& json) { return Printable(Dump(json), 64); }

Result<Request> FromObject(const Json& object, std::string* id) {
  if (!object.is_object()) return Bad("a request is a JSON object: {\"id\":1,\"op\":\"ping\"}");
  Request request;
  if (const auto it = object.find("id"); it != object.end()) {
    const bool fits = it->is_number_integer() || it->is_null() ||
                      (it->is_string() && it->get_ref<const std::string&>().size() <= 256);
    if (!fits) return Bad("id: it must be a whole number or a text of at most 256 bytes");
    request.id = *id = Dump(*it);
  }
  for (const auto& [key, value] : object.items()) {
    if (key == "id") continue;
    if (key == "op") {
      if (!value.is_string()) return Bad("op: it must be a text");
      request.op = value.get<std::string>();
    } else if (key == "args") {
      if (!value.is_object()) return Bad("args: it must be an object");
      request.args = Dump(value);
    } else {
      return Bad(fmt::format("unknown key {}; known: id, op, args", Quote(key)));
    }
  }
  if (request.op.empty()) return Bad("op is missing; say what to do, for example \"ping\"");
  return request;
}

ErrorCode CodeOfName(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
    if (name == ErrorCodeName(static_cast<ErrorCode>(i))) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kInternal;
}

}  // namespace

Result<Request> ParseRequest(std::string_view line, std::string* id) {
  *id = "null";
  if (line.size() > kMaxLineBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the request is longer than {} bytes", kMaxLineBytes));
  }
  if (Result<void> fits = CheckSize(line); !fits) return tl::unexpected(std::move(fits.error()));
  try {
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded()) {
      return Bad("not valid JSON; a request is one line like {\"id\":1,\"op\":\"ping\"}");
    }
    return FromObject(object, id);
  } catch (const std::exception& e) {  // out of memory
    return Fail(ErrorCode::kResourceExhausted, fmt::format("cannot be read: {}", e.what()));
  }
}

std::string OkLine(std::string_view id, std::string_view result) {
  return fmt::format("{{\"id\":{},\"ok\":true,\"result\":{}}}\n", id, result);
}

std::string ErrorLine(std::string_view id, const Error& error) {
  Json body = {{"code", ErrorCodeName(error.code)}, {"message", error.message}};
  if (error.sys_errno != 0) body["errno"] = error.sys_errno;
  return fmt::format("{{\"id\":{},\"ok\":false,\"error\":{}}}\n", id, Dump(body));
}

std::string RequestLine(uint64_t id, std::string_view op, std::string_view args) {
  return fmt::format("{{\"id\":{},\"op\":{},\"args\":{}}}\n", id, Dump(Json(std::string(op))),
                     args);
}

Result<std::string> ParseAnswer(std::string_view line) {
  const auto strange = [] {
    return Fail(ErrorCode::kInternal, "the other side does not speak Weir's control protocol");
  };
  try {
    const Json answer = Json::parse(line, nullptr, false);
    if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean()) {
      return strange();
    }
    if (answer["ok"].get<bool>()) return answer.contains("result") ? Dump(answer["result"]) : "{}";
    const Json error = answer.value("error", Json::object());
    if (!error.is_object()) return strange();
    return Fail(CodeOfName(error.value("code", "internal error")),
                error.value("message", "no message"), error.value("errno", 0));
  } catch (const std::exception&) {
    return strange();
  }
}

// --- ArgsReader ---------------------------------------------------------------------------------

struct ArgsReader::Impl {
  std::string op;
  Json args;
  std::vector<std::string> known;
  std::string problem;

  const Json* Find(std::string_view key) {
    known.emplace_back(key);
    const auto it = args.find(std::string(key));
    return it == args.end() ? nullptr : &*it;
  }
  void Report(std::string message) {
    if (problem.empty()) problem = fmt::format("{}: {}", op, message);
  }
};

ArgsReader::ArgsReader(std::string op, std::string_view args) : impl_(std::make_unique<Impl>()) {
  impl_->op = std::move(op);
  impl_->args = Json::parse(args, nullptr, false);
  if (!impl_->args.is_object()) {
    impl_->args = Json::object();
    impl_->Report("args must be an object");
  }
}
ArgsReader::~ArgsReader() = default;

bool ArgsReader::Has(std::string_view key) { return impl_->Find(key) != nullptr; }

std::string ArgsReader::Text(std::string_view key, std::string otherwise) {
  const Json* value = impl_->Find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  impl_->Report(fmt::format("{} = {}: it must be a text", key, Cut(*value)));
  return otherwise;
}

std::string ArgsReader::RequiredText(std::string_view key) {
  std::string text = Text(key);
  if (text.empty()) impl_->Report(fmt::format("{} is missing", key));
  return text;
}

bool ArgsReader::Flag(std::string_view key, bool otherwise) {
  const Json* value = impl_->Find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  impl_->Report(fmt::format("{} = {}: it must be true or false", key, Cut(*value)));
  return otherwise;
}

int64_t ArgsReader::Integer(std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  const Json* value = impl_->Find(key);
  if (value == nullptr) return otherwise;
  const bool in_range = value->is_number_unsigned()
                            ? high >= 0 && value->get<uint64_t>() <= static_cast<uint64_t>(high) &&
                                  (low <= 0 || value->get<uint64_t>() >= static_cast<uint64_t>(low))
                            : value->is_number_integer() && value->get<int64_t>() >= low &&
                                  value->get<int64_t>() <= high;
  if (in_range) return value->get<int64_t>();
  impl_->Report(fmt::format("{} = {}: it must be a whole number between {} and {}", key,
                            Cut(*value), low, high));
  return otherwise;
}

std::vector<std::pair<std::string, std::string>> ArgsReader::Values(std::string_view key) {
  std::vector<std::pair<std::string, std::string>> values;
  const Json* object = impl_->Find(key);
  if (object == nullptr || !object->is_object()) {
    impl_->Report(fmt::format("{}: it must be an object of keys and values", key));
    return values;
  }
  for (const auto& [name, value] : object->items()) {
    if (value.is_string()) {
      values.emplace_back(name, value.get<std::string>());
    } else if (value.is_number()) {
      values.emplace_back(name, Dump(value));
    } else {
      impl_->Report(fmt::format("{} = {}: it must be a text or a number", Quote(name), Cut(value)));
    }
  }
  return values;
}

void ArgsReader::Reject(std::string_view key, std::string_view why) {
  impl_->Report(fmt::format("{}: {}", key, why));
}

Result<void> ArgsReader::Finish() {
  for (const auto& [key, value] : impl_->args.items()) {
    const auto& known = impl_->known;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string match = ClosestMatch(key, known);
    impl_->Report(fmt::format("unknown key {}; {}", Quote(key),
                              match.empty()
                                  ? "known: " + (known.empty() ? "none" : JoinNames(known))
                                  : fmt::format("did you mean {}?", Quote(match))));
  }
  if (impl_->problem.empty()) return {};
  return Bad(impl_->problem);
}

}  // namespace weir::control
