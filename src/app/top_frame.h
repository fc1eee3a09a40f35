// What `weir top` shows: the answer to `stats`, read.
//
// PURE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::app {

struct TopRow {
  std::string path;
  int parent = -1;  // index of the row above it in the tree
  int level = 0;
  bool leaf = true;
  double norm_iops = 0, raw_iops = 0, read_iops = 0, write_iops = 0;
  double bytes_per_s = 0;
  uint64_t queued = 0;
  uint64_t in_flight = 0;
  double wait_p50_us = 0, wait_p99_us = 0, service_p50_us = 0, service_p99_us = 0;
  double by_reservation = 0, by_weight = 0, by_leftover = 0;  // sum 1, or 0 when idle
  std::string blocked_by;                                     // a key of weir.toml, or empty
  double blocked_share = 0;                                   // of the time
};

struct TopFrame {
  uint64_t sequence = 0;
  uint64_t version = 0;  // of the plan
  double window_s = 0;
  bool since_start = false;
  double depth = 0, norm_in_flight = 0;
  uint64_t io_errors = 0;
  std::vector<TopRow> rows;  // parents first
};

// Errors: kInternal: not an answer to `stats`. What is missing counts as 0.
[[nodiscard]] Result<TopFrame> ParseTopFrame(std::string_view json);

}  // namespace weir::app
