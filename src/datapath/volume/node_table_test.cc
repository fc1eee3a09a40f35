// Nodes and open files keep their meaning from one daemon to the next; stale ids are recognised.
#include "datapath/volume/node_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <map>

#include "base/random.h"
#include "datapath/volume/handle_table.h"
#include "datapath/volume/journal.h"

namespace weir::volume {
namespace {

// Zero bytes, virtual until touched.
class Region {
 public:
  explicit Region(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Region() { munmap(data_, bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  [[nodiscard]] std::span<std::byte> span() const {
    return {static_cast<std::byte*>(data_), bytes_};
  }

 private:
  size_t bytes_;
  void* data_;
};

NodeIdentity File(uint64_t inode, uint32_t generation = 1) {
  NodeIdentity identity{.inode = inode, .type = S_IFREG};
  identity.handle.bytes = 4;
  identity.handle.data[0] = static_cast<std::byte>(generation);
  return identity;
}

bool KeepAll(uint64_t /*node*/, const NodeIdentity& /*identity*/, int /*fd*/) { return true; }

TEST(NodeTable, AnInodeNumberUsedAgainIsAnotherNode) {
  const Region region(NodeTable::StateBytes());
  NodeTable table(region.span(), kMaxNodes);
  table.Recover(KeepAll);
  const uint64_t first = table.Remember(File(7, 1), -1)->node;
  const uint64_t second = table.Remember(File(7, 2), -1)->node;
  EXPECT_NE(first, second);
  EXPECT_EQ(table.Known(File(7, 1)), first);
  EXPECT_FALSE(table.Known(File(7, 3)).has_value());
  EXPECT_TRUE(table.Forget(first, 1));
  EXPECT_EQ(table.Known(File(7, 2)), second);
}

// Against a model, over seeds, with successors in between: ids, counts and pins agree.
TEST(NodeTable, RandomUseAgreesWithAModelAcrossSuccessors) {
  struct Model {
    NodeIdentity identity;
    uint64_t lookups = 0;
    int fd = -1;
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const Region region(NodeTable::StateBytes());
    auto table = std::make_unique<NodeTable>(region.span(), 50);
    table->Recover(KeepAll);
    std::map<uint64_t, Model> model;
    for (int i = 0; i < 3000; ++i) {
      const NodeIdentity identity = File(static_cast<uint64_t>(random.Range(1, 70)));
      const auto known = table->Known(identity);
      if (random.Chance(0.5)) {
        const int pin = random.Chance(0.3) ? 1000 + i : -1;
        const auto remembered = table->Remember(identity, pin);
        if (!remembered.has_value()) {
          ASSERT_EQ(model.size(), 50u) << "seed " << seed;
          continue;
        }
        ASSERT_EQ(known.has_value(), model.contains(remembered->node)) << "seed " << seed;
        Model& node = model[remembered->node];
        node.identity = identity;
        ++node.lookups;
        if (remembered->pinned) node.fd = pin;
      } else if (known.has_value()) {
        Model& node = model.at(*known);
        if (random.Chance(0.3) && node.fd < 0) {
          node.fd = 5000 + i;
          ASSERT_TRUE(table->Pin(*known, node.fd));
        }
        const auto count = static_cast<uint64_t>(random.Range(1, 2));
        const bool gone = count >= node.lookups;
        ASSERT_EQ(table->Forget(*known, count), gone) << "seed " << seed;
        node.lookups -= std::min(count, node.lookups);
        if (gone) {
          EXPECT_FALSE(table->Find(*known).has_value());
          EXPECT_EQ(table->Hints(*known), nullptr);
          model.erase(*known);
        }
      }
      if (random.Chance(0.01)) {
        table = std::make_unique<NodeTable>(region.span(), 50);
        std::map<uint64_t, int> pinned;
        table->Recover([&](uint64_t node, const NodeIdentity&, int fd) {
          return pinned.emplace(node, fd).second;
        });
        for (const auto& [id, node] : model) {
          ASSERT_TRUE(table->Find(id).has_value()) << "seed " << seed;
          EXPECT_EQ(table->Find(id)->inode, node.identity.inode);
          EXPECT_EQ(pinned.contains(id) ? pinned[id] : -1, node.fd);
        }
        ASSERT_EQ(table->size(), model.size()) << "seed " << seed;
      }
    }
  }
}

TEST(HandleTable, HandlesGoOnAndStaleOnesAreNothing) {
  const Region region(HandleTable::StateBytes());
  auto table = std::make_unique<HandleTable>(region.span(), 2);
  table->Recover([](const OpenFile&) { return true; });
  const OpenFile file{.fd = 10, .direct_fd = 11, .node = 5, .flags = 2};
  const uint64_t first = table->Open(file, 100).value();
  const uint64_t second = table->Open(file, 102).value();
  EXPECT_FALSE(table->Open(file, 104).has_value()) << "the maximum";
  EXPECT_TRUE(table->Close(first).has_value());
  EXPECT_FALSE(table->Close(first).has_value()) << "closed once";
  EXPECT_FALSE(table->Find(first).has_value());
  // Dies here, before Reuse(): the entry comes back all the same.
  table = std::make_unique<HandleTable>(region.span(), 2);
  int seen = 0;
  table->Recover([&](const OpenFile& open) { return ++seen, open.fd == 10; });
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(table->OpenedFor(102), second);
  EXPECT_FALSE(table->OpenedFor(100).has_value());
  EXPECT_EQ(table->Find(second)->direct_fd, 11);
  const uint64_t third = table->Open(file, 106).value();
  EXPECT_NE(third, first);
  EXPECT_FALSE(table->Find(first).has_value());
  // A descriptor that is not what it should be: the file is closed.
  table = std::make_unique<HandleTable>(region.span(), 2);
  table->Recover([](const OpenFile&) { return false; });
  EXPECT_FALSE(table->Find(third).has_value());
  EXPECT_EQ(table->size(), 0u);
}

TEST(Journal, KeepsWhatWasBegunUntilItsRequestComesAgain) {
  const Region region(Journal::StateBytes());
  auto journal = std::make_unique<Journal>(region.span());
  journal->Recover();
  const auto slot = journal->Begin(10, 1, Before{.first = 3, .second = 4});
  ASSERT_TRUE(slot.has_value());
  journal = std::make_unique<Journal>(region.span());
  journal->Recover();
  EXPECT_FALSE(journal->Begun(10, 2).has_value()) << "another opcode";
  EXPECT_FALSE(journal->Begun(12, 1).has_value());
  const auto again = journal->Begun(10, 1);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(journal->BeforeOf(*again).second, 4u);
  std::array<std::byte, 8> payload{};
  payload[3] = std::byte{9};
  EXPECT_FALSE(journal->Repeat(*again, payload).has_value()) << "begun, not done";
  journal->Done(*again, 8, payload);
  journal = std::make_unique<Journal>(region.span());
  journal->Recover();
  const auto done = journal->Begun(10, 1);
  ASSERT_TRUE(done.has_value());
  std::array<std::byte, 8> repeated{};
  EXPECT_EQ(journal->Repeat(*done, repeated), 8);
  EXPECT_EQ(repeated, payload);
  EXPECT_EQ(journal->Repeat(*done, std::span(repeated).first(4)), -EIO);
}

// Daemons that died over and over leave slots whose requests were answered: the oldest go.
TEST(Journal, NeverRunsOutOfSlots) {
  const Region region(Journal::StateBytes());
  uint64_t unique = 2;
  for (uint32_t i = 0; i < kJournalSlots + 100; ++i, unique += 2) {
    Journal journal(region.span());
    journal.Recover();
    ASSERT_TRUE(journal.Begin(unique, 1, Before{}).has_value()) << i;
  }
  Journal journal(region.span());
  journal.Recover();
  EXPECT_TRUE(journal.Begun(unique - 2, 1).has_value()) << "the newest is there";
  EXPECT_FALSE(journal.Begun(2, 1).has_value()) << "the oldest is not";
}

}  // namespace
}  // namespace weir::volume
