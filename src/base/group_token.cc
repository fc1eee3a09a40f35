#include "base/group_token.h"

namespace weir {

uint64_t GroupToken(std::string_view path) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash == 0 ? 1 : hash;
}

}  // namespace weir
