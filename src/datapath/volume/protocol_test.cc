// The decoder: tables of good messages, every prefix and every kind of bad name, and INIT.
#include "datapath/volume/protocol.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace weir::volume {
namespace {

constexpr uint64_t kUnique = 0x1234;

std::vector<std::byte> Message(uint32_t opcode, const std::string& body) {
  fuse_in_header header{};
  header.len = static_cast<uint32_t>(sizeof(header) + body.size());
  header.opcode = opcode;
  header.unique = kUnique;
  header.nodeid = 7;
  header.uid = 1;
  header.gid = 2;
  header.pid = 3;
  std::vector<std::byte> message(header.len);
  std::memcpy(message.data(), &header, sizeof(header));
  if (!body.empty()) std::memcpy(message.data() + sizeof(header), body.data(), body.size());
  return message;
}

template <typename T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Name(const std::string& name) { return name + '\0'; }

// A message that every opcode accepts: zeros and the names it needs.
std::string GoodBody(uint32_t opcode) {
  std::string body(FixedBytes(opcode), '\0');
  switch (opcode) {
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_SYMLINK:
      return body + Name("a") + Name("b");
    default:
      return body + Name("a");
  }
}

TEST(ProtocolTest, GivesHeaderFixedPartAndNames) {
  fuse_rename2_in in{};
  in.newdir = 9;
  const auto message = Message(FUSE_RENAME2, Bytes(in) + Name("old") + Name("new"));
  const Decoded decoded = Decode(message);
  ASSERT_EQ(decoded.error, 0);
  const Request& request = decoded.request;
  EXPECT_EQ(request.unique, kUnique);
  EXPECT_EQ(request.node, 7u);
  EXPECT_EQ(request.caller.uid, 1u);
  EXPECT_EQ(request.caller.gid, 2u);
  EXPECT_EQ(request.caller.pid, 3u);
  EXPECT_FALSE(request.resent);
  EXPECT_EQ(FixedAs<fuse_rename2_in>(request).newdir, 9u);
  EXPECT_EQ(NameAt(request, 0), "old");
  EXPECT_EQ(NameAt(request, 1), "new");
  EXPECT_EQ(OpcodeName(request.opcode), "RENAME2");
}

TEST(ProtocolTest, AResentRequestIsToldByItsUnique) {
  auto message = Message(FUSE_STATFS, "");
  message[15] = std::byte{0x80};  // the top byte of unique
  const Decoded decoded = Decode(message);
  EXPECT_TRUE(decoded.request.resent);
  EXPECT_EQ(decoded.request.unique, kUnique | abi::kUniqueResend);
}

// Every known opcode takes its whole message, and no prefix of what it needs.
TEST(ProtocolTest, EveryPrefixOfEveryOpcodeIsAnError) {
  int known = 0;
  for (uint32_t opcode = 0; opcode < 2 * abi::kMostOpcodes; ++opcode) {
    if (OpcodeName(opcode) == "UNKNOWN") {
      EXPECT_EQ(Decode(Message(opcode, "xxxx")).error, -ENOSYS) << opcode;
      continue;
    }
    ++known;
    const auto whole = Message(opcode, GoodBody(opcode));
    EXPECT_EQ(Decode(whole).error, 0) << OpcodeName(opcode);
    for (size_t length = 0; length < sizeof(fuse_in_header) + FixedBytes(opcode); ++length) {
      const std::vector<std::byte> prefix(whole.begin(),
                                          whole.begin() + static_cast<ptrdiff_t>(length));
      EXPECT_EQ(Decode(prefix).error, length < sizeof(fuse_in_header) ? -EBADMSG : -EINVAL)
          << OpcodeName(opcode) << " of " << length;
    }
  }
  EXPECT_GE(known, 45);
}

TEST(ProtocolTest, NamesThatLeadElsewhereAreRefused) {
  const std::string long_name(kMaxNameBytes, 'x');
  EXPECT_EQ(Decode(Message(FUSE_LOOKUP, Name(long_name))).error, 0);
  EXPECT_EQ(Decode(Message(FUSE_LOOKUP, Name(long_name + "x"))).error, -ENAMETOOLONG);
  for (const std::string name : {"", ".", "..", "a/b", "/", "../x"}) {
    EXPECT_EQ(Decode(Message(FUSE_LOOKUP, Name(name))).error, -EINVAL) << name;
    EXPECT_EQ(Decode(Message(FUSE_SYMLINK, Name(name) + Name("t"))).error, -EINVAL) << name;
    EXPECT_EQ(Decode(Message(FUSE_RENAME, std::string(8, '\0') + Name("a") + Name(name))).error,
              -EINVAL)
        << name;
  }
  EXPECT_EQ(Decode(Message(FUSE_LOOKUP, "unterminated")).error, -EINVAL);
  EXPECT_EQ(Decode(Message(FUSE_SYMLINK, Name("l") + Name("../anywhere/at all"))).error, 0);
  EXPECT_EQ(Decode(Message(FUSE_SYMLINK, Name("l") + Name(std::string(4096, 't')))).error,
            -ENAMETOOLONG);
}

TEST(ProtocolTest, SizesMustAgreeWithWhatIsThere) {
  fuse_write_in write{};
  write.size = 4;
  EXPECT_EQ(Decode(Message(FUSE_WRITE, Bytes(write) + "data")).error, 0);
  EXPECT_EQ(Decode(Message(FUSE_WRITE, Bytes(write) + "dat")).error, -EINVAL);
  write.offset = UINT64_MAX;
  EXPECT_EQ(Decode(Message(FUSE_WRITE, Bytes(write) + "data")).error, -EINVAL);
  fuse_read_in read{};
  read.size = kMaxTransferBytes + 1;
  EXPECT_EQ(Decode(Message(FUSE_READ, Bytes(read))).error, -EINVAL);
  fuse_setxattr_in xattr{};
  xattr.size = 3;
  EXPECT_EQ(Decode(Message(FUSE_SETXATTR, Bytes(xattr) + Name("user.a") + "abc")).error, 0);
  EXPECT_EQ(Decode(Message(FUSE_SETXATTR, Bytes(xattr) + Name("user.a") + "ab")).error, -EINVAL);
  xattr.size = UINT32_MAX;
  EXPECT_EQ(Decode(Message(FUSE_SETXATTR, Bytes(xattr) + Name("user.a") + "ab")).error, -E2BIG);
  fuse_batch_forget_in forget{};
  forget.count = UINT32_MAX;
  EXPECT_EQ(Decode(Message(FUSE_BATCH_FORGET, Bytes(forget) + std::string(64, 'x'))).error,
            -EINVAL);
  auto lies = Message(FUSE_STATFS, "");
  lies[0] = std::byte{200};  // fuse_in_header::len
  EXPECT_EQ(Decode(lies).error, -EINVAL);
}

TEST(ProtocolTest, InitAgreesOnWhatBothKnow) {
  fuse_init_in in{};
  in.major = 7;
  in.minor = 45;
  in.max_readahead = 131072;
  in.flags = UINT32_MAX;
  in.flags2 = UINT32_MAX;
  InitAnswer answer;
  auto agreed = NegotiateInit(Message(FUSE_INIT, Bytes(in)),
                              {.over_io_uring = false, .max_background = 6000}, &answer);
  ASSERT_TRUE(agreed) << agreed.error().message;
  EXPECT_TRUE(agreed->can_resend());
  EXPECT_FALSE(agreed->over_io_uring());
  EXPECT_EQ(answer.header.len, sizeof(answer));
  EXPECT_EQ(answer.header.unique, kUnique);
  EXPECT_EQ(answer.init.max_background, 6000);
  EXPECT_EQ(answer.init.max_write, kMaxTransferBytes);
  EXPECT_EQ(answer.init.max_readahead, 131072u);
  EXPECT_EQ(answer.init.flags & FUSE_WRITEBACK_CACHE, 0u);
  EXPECT_EQ(answer.init.flags & (FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS), 0u);

  agreed = NegotiateInit(Message(FUSE_INIT, Bytes(in)), {.over_io_uring = true}, &answer);
  EXPECT_TRUE(agreed->over_io_uring());

  // An older kernel sends only the first 16 bytes and knows no second half of the flags.
  in.minor = 31;
  in.flags = FUSE_ASYNC_READ;
  agreed = NegotiateInit(Message(FUSE_INIT, Bytes(in).substr(0, 16)), {}, &answer);
  ASSERT_TRUE(agreed);
  EXPECT_FALSE(agreed->can_resend());
  EXPECT_EQ(answer.init.minor, 31u);
  EXPECT_EQ(answer.init.flags, static_cast<uint32_t>(FUSE_ASYNC_READ));

  in.minor = 30;
  EXPECT_FALSE(NegotiateInit(Message(FUSE_INIT, Bytes(in)), {}, &answer));
  EXPECT_FALSE(NegotiateInit(Message(FUSE_LOOKUP, Name("a")), {}, &answer));
  EXPECT_FALSE(NegotiateInit({}, {}, &answer));
}

TEST(ProtocolTest, AnswersCarryAnErrorOrALength) {
  EXPECT_EQ(AnswerHeader(5, 100).len, 116u);
  EXPECT_EQ(AnswerHeader(5, 100).error, 0);
  EXPECT_EQ(AnswerHeader(5, -EIO).len, 16u);
  EXPECT_EQ(AnswerHeader(5, -EIO).error, -EIO);
  EXPECT_EQ(AnswerHeader(5, -EIO).unique, 5u);
  EXPECT_EQ(ResendMessage().unique, 0u);
  EXPECT_EQ(ResendMessage().error, 7);
}

}  // namespace
}  // namespace weir::volume
