// Patterns of [[match]]: '?' is one character, '*' any number, neither a '/'; '**' any number, also
// of '/'. Everything else stands for itself, byte by byte.
//
// PURE.
#pragma once

#include <string_view>

namespace weir::catalog {

// The whole of `text` fits `pattern`. "a/**/b" fits "a/b" as well. Cost: no recursion, no
// allocation; at worst |pattern| * |text|^2, usually linear.
[[nodiscard]] bool GlobMatches(std::string_view pattern, std::string_view text);

// `text`, or something above it ("/a/b" is above "/a/b/c"), fits: the pattern names a directory or
// cgroup with all below it. "/" is above everything that begins with '/'.
[[nodiscard]] bool GlobMatchesAtOrAbove(std::string_view pattern, std::string_view text);

}  // namespace weir::catalog
