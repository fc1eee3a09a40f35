// Any bytes are a FUSE request or an error; what is accepted has all its parts within the bytes,
// and names that cannot lead out of a directory.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "datapath/volume/protocol.h"

namespace {

using weir::volume::Decoded;
using weir::volume::Request;

bool Within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

bool StaysInside(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.size() <= weir::volume::kMaxNameBytes;
}

void CheckNames(const Request& request) {
  switch (request.opcode) {
    case FUSE_LOOKUP:
    case FUSE_CREATE:
    case FUSE_UNLINK:
      WEIR_CHECK(StaysInside(NameAt(request, 0)));
      break;
    case FUSE_RENAME2:
      WEIR_CHECK(StaysInside(NameAt(request, 0)));
      WEIR_CHECK(StaysInside(NameAt(request, 1)));
      break;
    default:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  const Decoded decoded = weir::volume::Decode(message);
  if (decoded.error == 0) {
    WEIR_CHECK(Within(decoded.request.fixed, message));
    WEIR_CHECK(Within(decoded.request.rest, message));
    WEIR_CHECK(decoded.request.fixed.size() == weir::volume::FixedBytes(decoded.request.opcode));
    CheckNames(decoded.request);
  } else {
    WEIR_CHECK(decoded.error < 0);
  }
  weir::volume::InitAnswer answer;
  static_cast<void>(weir::volume::NegotiateInit(message, {}, &answer));
  // The same bytes in the parts that FUSE over io_uring has.
  const size_t header = size < 40 ? size : 40;
  const size_t fixed = size - header < 128 ? size - header : 128;
  const Decoded parts = weir::volume::Decode(message.first(header), message.subspan(header, fixed),
                                             message.subspan(header + fixed));
  if (parts.error == 0) CheckNames(parts.request);
  return 0;
}
