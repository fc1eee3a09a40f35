#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>

namespace weir {
namespace {

constexpr size_t kMaxMatchedWord = 64;

// Insertions, deletions, replacements and swaps of neighbours, ASCII case not counted (optimal
// string alignment, three rows). Requires: both at most kMaxMatchedWord bytes.
size_t EditDistance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

// Length of the well-formed sequence at the start of `text`, 0 if there is none.
size_t Utf8SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

std::string Escape(std::string_view text, size_t max_bytes, bool quotes) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    const auto byte = static_cast<uint8_t>(c);
    const size_t length = Utf8SequenceLength(text.substr(i));
    if (i + std::max<size_t>(length, 1) > max_bytes) return out + "...";
    if (quotes && (c == '"' || c == '\\')) {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F || length == 0) {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += text.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out;
}

// "weight_iops" -> {"iops", "weight"}.
std::vector<std::string_view> SortedWords(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t end = name.find('_');
    words.push_back(name.substr(0, end));
    if (end == std::string_view::npos) break;
    name.remove_prefix(end + 1);
  }
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace

std::string Quote(std::string_view text, size_t max_bytes) {
  return '"' + Escape(text, max_bytes, true) + '"';
}

std::string Printable(std::string_view text, size_t max_bytes) {
  return Escape(text, max_bytes, false);
}

std::string ClosestMatch(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kMaxMatchedWord) return {};
  size_t best = std::min(word.size(), std::max<size_t>(1, word.size() / 3) + 1);
  std::string match;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kMaxMatchedWord) continue;
    const size_t distance =
        SortedWords(word) == SortedWords(candidate) ? 0 : EditDistance(word, candidate);
    if (distance < best) {
      best = distance;
      match = candidate;
    }
  }
  return match;
}

std::string DirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string JoinNames(const std::vector<std::string>& names, size_t max_items) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == max_items) return out + fmt::format(" and {} more", names.size() - i);
    if (i > 0) out += ", ";
    out += names[i];
  }
  return out;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace weir
