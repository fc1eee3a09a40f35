#include "catalog/glob.h"

namespace weir::catalog {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Where to go on when what follows a star does not fit: the star takes more.
struct Retry {
  size_t pattern = kNone;  // after the star; kNone: there is none
  size_t text = 0;
  bool whole_directories = false;  // "**/": takes up to and with the next '/'
};

bool TakeMore(Retry* star, std::string_view text, bool may_cross) {
  if (star->pattern == kNone || star->text >= text.size()) return false;
  if (star->whole_directories) {
    const size_t slash = text.find('/', star->text);
    if (slash == kNone) return false;
    star->text = slash + 1;
    return true;
  }
  if (!may_cross && text[star->text] == '/') return false;
  ++star->text;
  return true;
}

}  // namespace

// Only the last '*' and the last '**' need to be tried again: what comes after a '**' could as well
// be taken by it, and a '*' before the last one is held by the '/' or the text between them.
bool GlobMatches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  Retry star;
  Retry stars;
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (pattern.substr(p, 2) == "**") {
        p += 2;
        const bool begins_part = p == 2 || pattern[p - 3] == '/';
        const bool directories = begins_part && p < pattern.size() && pattern[p] == '/';
        if (directories) ++p;
        stars = {p, t, directories};
        star = {};
      } else {
        star = {++p, t, false};
      }
      continue;
    }
    if (t < text.size() && p < pattern.size() &&
        (pattern[p] == text[t] || (pattern[p] == '?' && text[t] != '/'))) {
      ++p;
      ++t;
      continue;
    }
    if (t == text.size() && p == pattern.size()) return true;
    if (TakeMore(&star, text, false)) {
      p = star.pattern;
      t = star.text;
    } else if (TakeMore(&stars, text, true)) {
      p = stars.pattern;
      t = stars.text;
      star = {};
    } else {
      return false;
    }
  }
}

bool GlobMatchesAtOrAbove(std::string_view pattern, std::string_view text) {
  while (true) {
    if (GlobMatches(pattern, text)) return true;
    const size_t slash = text.rfind('/');
    if (slash == kNone || text == "/") return false;
    text = text.substr(0, slash == 0 ? 1 : slash);
  }
}

}  // namespace weir::catalog
