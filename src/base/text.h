// Small helpers for messages that quote what somebody wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir {

// `text` in double quotes, escaped as in TOML and cut after `max_bytes`, so that a message about
// hostile input stays one readable line: "5x", "a\nb", "aaaa..." .
[[nodiscard]] std::string Quote(std::string_view text, size_t max_bytes = 64);

// The same without the quotes, and with '"' and '\\' as they are.
[[nodiscard]] std::string Printable(std::string_view text, size_t max_bytes);

// The candidate that `word` was probably meant to be: fewest edits, at most a third of the word's
// length (at least one, never the whole word); "weight_iops" and "iops_weight" are near. Empty if
// none is close. Cost: O(candidates * |word|), long words: none.
[[nodiscard]] std::string ClosestMatch(std::string_view word,
                                       const std::vector<std::string>& candidates);

// The directory that a path's file is in: "." for a bare name.
[[nodiscard]] std::string DirectoryOf(const std::string& path);

// "a, b, c" with at most `max_items` items, then "and 7 more".
[[nodiscard]] std::string JoinNames(const std::vector<std::string>& names, size_t max_items = 12);

// True for well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF).
[[nodiscard]] bool IsUtf8(std::string_view text);

}  // namespace weir
