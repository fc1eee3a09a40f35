// What names a group across processes and restarts.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

// FNV-1a, 64 bit, of the group's path ("unit/group"), and never 0.
[[nodiscard]] uint64_t GroupToken(std::string_view path);

}  // namespace weir
