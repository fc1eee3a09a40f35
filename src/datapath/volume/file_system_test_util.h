// Drives FileSystem::Handle as a kernel would, on a temporary directory. For tests only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datapath/volume/file_system.h"

namespace weir::volume {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "weir-volume-XXXXXX";
    path_ = mkdtemp(pattern.data());
    chmod(path_.c_str(), 0755);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A state region, as the supervisor makes it.
class StateRegion {
 public:
  StateRegion()
      : data_(mmap(nullptr, FileSystem::StateBytes(), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~StateRegion() { munmap(data_, FileSystem::StateBytes()); }
  StateRegion(const StateRegion&) = delete;
  StateRegion& operator=(const StateRegion&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), FileSystem::StateBytes()};
  }

 private:
  void* data_;
};

// What Handle() said.
struct Reply {
  Answer answer = 0;
  std::vector<std::byte> payload;
  template <typename T>
  [[nodiscard]] T As(size_t offset = 0) const {
    T value{};
    EXPECT_LE(offset + sizeof(T), payload.size()) << "answer " << answer;
    if (offset + sizeof(T) <= payload.size()) {
      std::memcpy(&value, payload.data() + offset, sizeof(T));
    }
    return value;
  }
  [[nodiscard]] std::string Text() const {
    return {reinterpret_cast<const char*>(payload.data()), payload.size()};
  }
};

// "name\0", or several.
inline std::string Names(std::initializer_list<std::string_view> names) {
  std::string bytes;
  for (const std::string_view name : names) {
    bytes += name;
    bytes += '\0';
  }
  return bytes;
}

class FakeKernel {
 public:
  explicit FakeKernel(FileSystem* files) : files_(files) {}
  [[nodiscard]] FileSystem* files() const { return files_; }

  Caller caller{};
  bool resend_next = false;  // the next request has been delivered before
  uint64_t next_unique = 2;
  size_t room = 65'536;  // for an answer

  Reply SendBytes(uint32_t opcode, uint64_t node, std::string_view fixed, std::string_view rest) {
    Request request;
    request.unique = next_unique;
    next_unique += 2;
    request.opcode = opcode;
    request.node = node;
    request.caller = caller;
    request.resent = std::exchange(resend_next, false);
    if (request.resent) request.unique |= uint64_t{1} << 63;
    // Copies of the exact size, so that a sanitizer sees every byte too far.
    const std::vector<char> fixed_copy(fixed.begin(), fixed.end());
    const std::vector<char> rest_copy(rest.begin(), rest.end());
    request.fixed = std::as_bytes(std::span(fixed_copy));
    request.rest = std::as_bytes(std::span(rest_copy));
    Reply reply;
    reply.payload.resize(room);
    reply.answer = files_->Handle(request, reply.payload);
    EXPECT_LE(reply.answer, static_cast<Answer>(room));
    reply.payload.resize(static_cast<size_t>(std::max(reply.answer, 0)));
    return reply;
  }
  template <typename T>
  Reply Send(uint32_t opcode, uint64_t node, const T& fixed, std::string_view rest = {}) {
    return SendBytes(opcode, node, {reinterpret_cast<const char*>(&fixed), sizeof(T)}, rest);
  }
  Reply SendNames(uint32_t opcode, uint64_t node, std::initializer_list<std::string_view> names) {
    return SendBytes(opcode, node, {}, Names(names));
  }

  // The node under a name; 0 when there is none.
  uint64_t Lookup(uint64_t parent, std::string_view name) {
    const Reply reply = SendNames(FUSE_LOOKUP, parent, {name});
    return reply.answer < 0 ? 0 : reply.As<fuse_entry_out>().nodeid;
  }
  fuse_attr Attributes(uint64_t node) {
    return Send(FUSE_GETATTR, node, fuse_getattr_in{}).As<fuse_attr_out>().attr;
  }
  struct Created {
    Answer answer = 0;
    uint64_t node = 0;
    uint64_t fh = 0;
    uint32_t open_flags = 0;
    fuse_attr attributes{};
  };
  Created Create(uint64_t parent, std::string_view name, uint32_t flags = O_RDWR | O_EXCL,
                 uint32_t mode = 0644, uint32_t mask = 022) {
    const fuse_create_in in{
        .flags = flags | O_CREAT, .mode = S_IFREG | mode, .umask = mask, .open_flags = 0};
    return CreatedOf(Send(FUSE_CREATE, parent, in, Names({name})));
  }
  static Created CreatedOf(const Reply& reply) {
    Created created{.answer = reply.answer};
    if (reply.answer < 0) return created;
    const auto entry = reply.As<fuse_entry_out>();
    const auto open = reply.As<fuse_open_out>(sizeof(fuse_entry_out));
    created.node = entry.nodeid;
    created.attributes = entry.attr;
    created.fh = open.fh;
    created.open_flags = open.open_flags;
    return created;
  }
  Reply Open(uint64_t node, uint32_t flags) {
    return Send(FUSE_OPEN, node, fuse_open_in{.flags = flags, .open_flags = 0});
  }
  Answer Release(uint64_t fh) {
    fuse_release_in in{};
    in.fh = fh;
    return Send(FUSE_RELEASE, kRootNode, in).answer;
  }
  Answer Mkdir(uint64_t parent, std::string_view name, uint32_t mode = 0755, uint32_t mask = 022) {
    return Send(FUSE_MKDIR, parent, fuse_mkdir_in{.mode = mode, .umask = mask}, Names({name}))
        .answer;
  }
  Answer Rename(uint64_t from, std::string_view old_name, uint64_t to, std::string_view new_name,
                uint32_t flags = 0) {
    const fuse_rename2_in in{.newdir = to, .flags = flags, .padding = 0};
    return Send(FUSE_RENAME2, from, in, Names({old_name, new_name})).answer;
  }
  Answer Link(uint64_t target, uint64_t parent, std::string_view name) {
    return Send(FUSE_LINK, parent, fuse_link_in{.oldnodeid = target}, Names({name})).answer;
  }
  Answer Unlink(uint64_t parent, std::string_view name) {
    return SendNames(FUSE_UNLINK, parent, {name}).answer;
  }
  Answer Rmdir(uint64_t parent, std::string_view name) {
    return SendNames(FUSE_RMDIR, parent, {name}).answer;
  }
  void Forget(uint64_t node, uint64_t lookups) {
    Send(FUSE_FORGET, node, fuse_forget_in{.nlookup = lookups});
  }

 private:
  FileSystem* files_;
};

inline std::unique_ptr<FileSystem> OpenFiles(const std::string& path, const StateRegion& region,
                                             FileSystemOptions options = {}) {
  options.backing_path = path;
  options.state = region.bytes();
  auto files = FileSystem::Open(options);
  EXPECT_TRUE(files.has_value()) << files.error().message;
  return files.has_value() ? std::move(*files) : nullptr;
}

inline size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count - 1;
}

class FileSystemTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "making files in others' names needs root";
    files_ = OpenFiles(directory_.path(), region_);
    kernel_ = std::make_unique<FakeKernel>(files_.get());
  }
  void TearDown() override {
    if (files_ != nullptr) files_->CloseAll();
  }
  // As after a kill: another object on the same region and descriptors.
  void Restart() {
    files_ = OpenFiles(directory_.path(), region_);
    const uint64_t unique = kernel_->next_unique;
    kernel_ = std::make_unique<FakeKernel>(files_.get());
    kernel_->next_unique = unique;
  }
  struct stat Stat(const std::string& name) {
    struct stat status {};
    EXPECT_EQ(lstat((directory_ / name).c_str(), &status), 0) << name;
    return status;
  }
  bool Exists(const std::string& name) {
    struct stat status {};
    return lstat((directory_ / name).c_str(), &status) == 0;
  }
  void WriteFile(const std::string& name, const std::string& text) {
    const int fd = open((directory_ / name).c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(fd);
  }

  TemporaryDirectory directory_;
  StateRegion region_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<FakeKernel> kernel_;
};

}  // namespace weir::volume
