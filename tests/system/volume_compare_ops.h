// Does the same random sequence of file operations in two directories and compares all that a
// program can see: results, errnos, data read, attributes, trees. For tests only.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"

namespace weir::volume {

class Comparer {
 public:
  // Requires: root; both directories empty, on file systems of one kind.
  Comparer(std::string first, std::string second, uint64_t seed);
  ~Comparer();
  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;

  // "" : all alike. Else what differed, the seed and the operations before.
  std::string Run(int operations);
  // Every name, kind, owner, mode, link count, size, content, attribute of both trees.
  std::string CompareTrees() const;

 private:
  struct Side {
    std::string directory;
    std::array<int, 6> files{-1, -1, -1, -1, -1, -1};
  };
  // An operation on one side; what it returns is what a program saw.
  using Operation = std::function<std::string(Side*)>;
  struct Step {
    std::string text;
    Operation operation;
  };

  Step Choose();
  Step ChooseName();
  Step ChooseFile();
  Step ChooseAttribute();
  Step ChooseOpen();
  void ChooseCaller();
  std::string RandomPath();
  int RandomFile() { return static_cast<int>(random_.Range(0, 5)); }

  Random random_;
  const uint64_t seed_;
  std::array<Side, 2> sides_;
  std::deque<std::string> log_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
};

}  // namespace weir::volume
