// Checks of option values that CLI11 does not have. Only for files that include CLI11 anyway.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/text.h"

namespace weir::app {

// An empty name would silently mean "none".
inline CLI::Validator NotEmpty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("it is empty; give a value or leave the option out")
                                : std::string();
          },
          ""};
}

// Read as unsigned, "-1" and numbers beyond 64 bits would silently become another seed.
inline CLI::Validator Seed() {
  return {[](const std::string& text) {
            const bool digits =
                !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            return digits && text.size() <= 18
                       ? std::string()
                       : "a seed is a whole number from 0 to 999999999999999999, not " +
                             Quote(text);
          },
          ""};
}

// A number within low .. high; the range is for the help to say. Also refuses NaN.
template <typename T>
CLI::Validator Between(T low, T high) {
  return {[low, high](const std::string& text) {
            T value{};
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) {
              return std::string();
            }
            return Quote(text) + " is not a number from " + CLI::detail::to_string(low) + " to " +
                   CLI::detail::to_string(high);
          },
          ""};
}

}  // namespace weir::app
