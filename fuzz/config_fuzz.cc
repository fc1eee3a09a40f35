// Any bytes are a configuration or an error with a printable message. What is accepted resolves,
// and a live change either resolves too or leaves the tree as it was. The bytes after the first NUL
// are lines of changes: target, key, value.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "catalog/config.h"

namespace {

using weir::catalog::Config;
using weir::catalog::TreeNode;

std::string_view TakeLine(std::string_view* text) {
  const size_t end = text->find('\n');
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return line;
}

void CheckError(const weir::Error& error) {
  WEIR_CHECK(weir::IsUtf8(error.message));
  WEIR_CHECK(error.message.find('\n') == std::string::npos);
}

std::vector<TreeNode> ResolveAll(const Config& config) {
  std::vector<TreeNode> all;
  std::vector<std::string> devices;
  for (const weir::catalog::Device& device : config.devices) devices.push_back(device.name);
  if (devices.empty()) devices.emplace_back();
  for (const std::string& device : devices) {
    const auto nodes = weir::catalog::Resolve(config, device, 0, nullptr);
    WEIR_CHECK(nodes.has_value());
    for (size_t i = 0; i < nodes->size(); ++i) {
      const TreeNode& node = (*nodes)[i];
      WEIR_CHECK(node.parent < static_cast<int>(i));
      for (int d = 0; d < weir::kDimensions; ++d) {
        WEIR_CHECK(node.params.min[d] >= 0 && node.params.min[d] <= node.params.max[d][2]);
        for (const int64_t max : node.params.max[d]) WEIR_CHECK(max > 0);
      }
      WEIR_CHECK(node.params.weight >= 0 && node.params.weight <= weir::kMaxWeight);
      all.push_back(node);
    }
  }
  return all;
}

void Change(Config* config, std::string_view* changes) {
  const std::vector<TreeNode> before = ResolveAll(*config);
  const std::string_view target = TakeLine(changes);
  const std::string_view key = TakeLine(changes);
  const auto done = weir::catalog::ApplyChange(config, target, key, TakeLine(changes));
  const std::vector<TreeNode> after = ResolveAll(*config);
  if (done) return;
  CheckError(done.error());
  WEIR_CHECK(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i) WEIR_CHECK(after[i].params == before[i].params);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string_view changes;
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    changes = text.substr(nul + 1);
    text = text.substr(0, nul);
  }
  weir::Result<Config> config = weir::catalog::ParseConfig(text, "fuzz");
  if (!config) {
    CheckError(config.error());
    return 0;
  }
  for (int i = 0; i < 8 && !changes.empty(); ++i) Change(&*config, &changes);
  ResolveAll(*config);
  return 0;
}
