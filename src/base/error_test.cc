// Goal: errors carry what went wrong as values; the check macro aborts with the place.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/check.h"
#include "base/result.h"

namespace weir {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "odd", 22);
  return value / 2;
}

TEST(Error, FailCarriesCodeMessageAndErrno) {
  EXPECT_EQ(Half(8).value(), 4);
  const Result<int> failed = Half(7);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "odd");
  EXPECT_EQ(failed.error().sys_errno, 22);
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    names.insert(ErrorCodeName(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(ErrorCode::kInternal) + 1);
  EXPECT_EQ(names.count("unknown error"), 0u);
  EXPECT_STREQ(ErrorCodeName(ErrorCode::kNotFound), "not found");
}

TEST(Error, CodeFromOutsideTheEnumIsNamedUnknown) {
  EXPECT_STREQ(ErrorCodeName(static_cast<ErrorCode>(99)), "unknown error");
}

TEST(CheckDeathTest, BrokenInvariantAbortsWithExpressionAndPlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  WEIR_CHECK(1 + 1 == 2);
  EXPECT_DEATH(WEIR_CHECK(1 + 1 == 3),
               "broken invariant: 1 \\+ 1 == 3 \\(.*error_test\\.cc:[0-9]+\\)");
}

}  // namespace
}  // namespace weir
