// Goal: many clients, each answered in its order; limits hold; nothing a client sends ends the
// server. Then what a volume answers: real sockets, a real engine, a real file.
#include "control/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/random.h"
#include "control/client.h"
#include "control/engine_handler.h"

namespace weir::control {
namespace {

using Json = nlohmann::json;

class Echo : public Handler {
 public:
  Result<std::string> Handle(const Request& request) override {
    ++handled;
    if (request.op == "fail") return Fail(ErrorCode::kNotFound, "not here");
    if (request.op == "large") return "\"" + std::string(1'000'000, 'x') + "\"";
    return request.args;
  }
  std::atomic<int> handled{0};
};

class SocketTest : public ::testing::Test {
 protected:
  SocketTest() {
    std::string pattern = ::testing::TempDir() + "/control_XXXXXX";
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/run/socket";
  }
  ~SocketTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Serve(Handler* handler) {
    auto server = Server::Start({path_, handler, false});
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
  }
  Client Connect() {
    auto client = Client::Connect(path_);
    if (!client) throw std::runtime_error(client.error().message);
    return std::move(*client);
  }
  // Bytes sent as they are.
  int RawConnect() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static std::string ReadLine(int fd) {
    std::string line;
    char c = 0;
    while (::read(fd, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

  std::string directory_, path_;
  std::unique_ptr<Server> server_;
};

TEST_F(SocketTest, TheSocketIsForItsUserOnlyAndGoesWithTheServer) {
  Echo echo;
  Serve(&echo);
  struct stat st = {};
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(Connect().Call("x", R"({"a":1})").value(), R"({"a":1})");
  EXPECT_EQ(FindSocket(directory_ + "/run").value(), path_);
  server_.reset();
  EXPECT_NE(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(FindSocket(directory_ + "/run").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Client::Connect(path_).error().code, ErrorCode::kNotFound);
}

TEST_F(SocketTest, ASecondServerIsRefusedButADeadOnesSocketIsReplaced) {
  Echo echo;
  Serve(&echo);
  const auto second = Server::Start({path_, &echo, false});
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find("another process listens there"), std::string::npos);
  EXPECT_TRUE(Connect().Call("x", "{}").has_value());
  server_.reset();

  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  EXPECT_EQ(Client::Connect(path_).error().code, ErrorCode::kUnavailable);
  Serve(&echo);
  EXPECT_TRUE(Connect().Call("x", "{}").has_value());
  server_.reset();

  std::ofstream(path_) << "precious";
  EXPECT_FALSE(Server::Start({path_, &echo, false}).has_value());
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(Server::Start({std::string(200, 'x'), &echo, false}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(SocketTest, ASuccessorTakesTheSocketOverWithTheDescriptorsOfOneThatDied) {
  // As in a process that shares descriptors with a daemon that was killed.
  std::filesystem::create_directories(directory_ + "/run");
  const int inherited = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(inherited, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(inherited, 5), 0);
  const int client = RawConnect();
  const int accepted = ::accept(inherited, nullptr, nullptr);
  ASSERT_GE(accepted, 0);
  Echo echo;
  EXPECT_FALSE(Server::Start({path_, &echo, false}).has_value());
  auto server = Server::Start({path_, &echo, true});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  server_ = std::move(*server);
  char c = 0;
  EXPECT_EQ(::read(client, &c, 1), 0) << "the old connection has ended";
  EXPECT_TRUE(Connect().Call("x", "{}").has_value());
  ::close(client);
}

TEST_F(SocketTest, ManyClientsAreEachAnsweredInTheirOrder) {
  Echo echo;
  Serve(&echo);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Client client = Connect();
      for (int i = 0; i < 200; ++i) {
        const std::string args = "{\"n\":" + std::to_string(t * 1000 + i) + "}";
        EXPECT_EQ(client.Call("x", args).value(), args);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(echo.handled, 1600);
}

TEST_F(SocketTest, LinesMayComeInAnyPiecesAndManyAtOnce) {
  Echo echo;
  Serve(&echo);
  const int fd = RawConnect();
  const std::string line = "{\"id\":1,\"op\":\"x\",\"args\":{\"a\":\"\\n\"}}\n";
  for (const char c : line) ASSERT_EQ(::send(fd, &c, 1, 0), 1);
  EXPECT_EQ(ReadLine(fd), R"({"id":1,"ok":true,"result":{"a":"\n"}})");
  std::string many = "\n \r\n";
  for (int i = 0; i < 100; ++i) many += "{\"id\":" + std::to_string(i) + ",\"op\":\"fail\"}\r\n";
  ASSERT_EQ(::send(fd, many.data(), many.size(), 0), static_cast<ssize_t>(many.size()));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ReadLine(fd), "{\"id\":" + std::to_string(i) +
                                ",\"ok\":false,\"error\":{\"code\":\"not found\",\"message\":"
                                "\"not here\"}}");
  }
  ::close(fd);
}

TEST_F(SocketTest, AClientThatDoesNotReadHoldsUpNobody) {
  Echo echo;
  Serve(&echo);
  const int fd = RawConnect();
  std::string many;
  for (int i = 0; i < 50; ++i) many += "{\"op\":\"large\"}\n";
  ASSERT_EQ(::send(fd, many.data(), many.size(), 0), static_cast<ssize_t>(many.size()));
  Client other = Connect();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(other.Call("x", "{}").has_value());
  EXPECT_LE(echo.handled, 102);  // one answer waits for the reader, not fifty
  for (int i = 0; i < 3; ++i) EXPECT_GT(ReadLine(fd).size(), 1'000'000u);
  ::close(fd);
  EXPECT_EQ(other.Call("large", "{}").value().size(), 1'000'002u);
}

TEST_F(SocketTest, ALineWithoutEndIsRefusedByNameAndOthersGoOn) {
  Echo echo;
  Serve(&echo);
  const int fd = RawConnect();
  const std::string piece(1 << 20, 'a');
  std::thread sender([&] {
    for (size_t sent = 0; sent <= kMaxLineBytes + piece.size(); sent += piece.size()) {
      if (::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) return;
    }
  });
  EXPECT_NE(ReadLine(fd).find("a request is at most 16777216 bytes"), std::string::npos);
  sender.join();
  ::close(fd);
  EXPECT_TRUE(Connect().Call("x", "{}").has_value());
}

TEST_F(SocketTest, MoreClientsThanTheMaximumWaitForTheirTurn) {
  Echo echo;
  Serve(&echo);
  std::vector<int> idle;
  for (size_t i = 0; i < kMaxClients; ++i) idle.push_back(RawConnect());
  std::thread late([&] { EXPECT_TRUE(Connect().Call("x", "{}").has_value()); });
  for (size_t i = 0; i < 10; ++i) ::close(idle[i]);
  late.join();
  for (size_t i = 10; i < idle.size(); ++i) ::close(idle[i]);
}

TEST_F(SocketTest, AnyBytesAreSurvived) {
  Echo echo;
  Serve(&echo);
  Random random(4);
  for (int round = 0; round < 50; ++round) {
    const int fd = RawConnect();
    std::string bytes(static_cast<size_t>(random.Range(0, 5000)), ' ');
    for (char& c : bytes) c = random.Range(0, 20) == 0 ? '\n' : static_cast<char>(random.Next());
    static_cast<void>(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    ::close(fd);  // with answers on their way
  }
  EXPECT_TRUE(Connect().Call("x", "{}").has_value());
}

constexpr char kConfig[] = R"(
[[unit]]
name = "tp_unit"
min_iops = 1000
max_iops = 20000
plan = "htap"
[[unit]]
name = "slow"
max_raw_iops = 50
burst = "0s"
[[plan]]
name = "htap"
[[plan.directive]]
group = "oltp"
min_iops = 60
[[plan.directive]]
group = "olap"
max_iops = 50
[[group]]
name = "oltp"
[[group]]
name = "olap"
[[match]]
uid = 27
group = "tp_unit/oltp"
)";

class EngineSocketTest : public SocketTest {
 protected:
  void SetUp() override {
    auto engine = Engine::Create({});
    ASSERT_TRUE(engine.has_value()) << engine.error().message;
    engine_ = std::move(*engine);
    PlanState state;
    state.file = "weir.toml";
    state.toml = kConfig;
    auto plans = PlanHolder::Create(engine_.get(), state, {});
    ASSERT_TRUE(plans.has_value());
    plans_ = std::move(*plans);
    EngineHandlerOptions options;
    options.version = "1.2.3";
    options.more_stats = [] { return "\"threads\":5"; };
    options.start_time = [](uint32_t pid) -> Result<uint64_t> {
      if (pid == 7) return 1234;
      return Fail(ErrorCode::kNotFound, "there is no process or thread " + std::to_string(pid));
    };
    handler_ = std::make_unique<EngineHandler>(engine_.get(), plans_.get(), options);
    Serve(handler_.get());
    client_ = std::make_unique<Client>(Connect());
  }
  void TearDown() override {
    server_.reset();
    static_cast<void>(engine_->Stop(StopMode::kCancel));
  }
  Json Call(const std::string& op, const Json& args = Json::object()) {
    const auto result = client_->Call(op, args.dump());
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result ? Json::parse(*result) : Json();
  }
  std::string ErrorOf(const std::string& op, const Json& args) {
    const auto result = client_->Call(op, args.dump());
    EXPECT_FALSE(result.has_value()) << *result;
    return result ? "" : result.error().message;
  }
  static Json ByPath(const Json& groups, const std::string& path) {
    for (const Json& group : groups) {
      if (group["path"] == path) return group;
    }
    return {};
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PlanHolder> plans_;
  std::unique_ptr<EngineHandler> handler_;
  std::unique_ptr<Client> client_;
};

TEST_F(EngineSocketTest, HelloTellsVersions) {
  const Json hello = Call("hello", {{"protocol", 1}});
  EXPECT_EQ(hello["protocol"], 1);
  EXPECT_EQ(hello["what"], "volume");
  EXPECT_EQ(hello["version"], "1.2.3");
  EXPECT_NE(ErrorOf("hello", {{"protocol", 2}}).find("protocol 2 is not spoken here"),
            std::string::npos);
  EXPECT_EQ(Call("ping"), Json::object());
}

TEST_F(EngineSocketTest, ShowShowsWhatRuns) {
  EXPECT_EQ(Call("show")["version"], 1);
  const Json units = Call("show", {{"what", "units"}})["units"];
  EXPECT_EQ(units[0]["params"]["max_iops"], 20000);
  const Json groups = Call("show", {{"what", "groups"}})["groups"];
  EXPECT_EQ(ByPath(groups, "tp_unit/olap")["params"]["max_iops"], 10000);
  EXPECT_EQ(ByPath(groups, "tp_unit/oltp")["params"]["min_iops"], 600);
  EXPECT_EQ(ByPath(groups, "unmatched")["unmatched"], true);
  EXPECT_EQ(ByPath(groups, "slow")["token"].get<std::string>().size(), 16u);
  const Json matches = Call("show", {{"what", "matches"}})["matches"];
  EXPECT_EQ(matches[0]["match"], "uid 27");
  EXPECT_EQ(matches[0]["source"], "file");
  EXPECT_EQ(
      ErrorOf("show", {{"what", "unit"}}),
      "show: what = \"unit\": did you mean \"units\"? it must be one of: plan, units, groups, "
      "matches");
}

TEST_F(EngineSocketTest, SetAndApplyChangeTheEngineOrNothing) {
  const Json changed =
      Call("set", {{"target", "tp_unit"}, {"values", {{"max_iops", 40000}, {"min_iops", "2k"}}}});
  EXPECT_EQ(changed["version"], 2);
  EXPECT_EQ(changed["changes"][0],
            "change tp_unit: min_iops 1,000/s -> 2,000/s, max_iops 20,000/s -> 40,000/s");
  EXPECT_EQ(ErrorOf("set", {{"target", "tp_unit"}, {"values", {{"max_iop", "1"}}}}),
            "change of \"tp_unit\": unknown key \"max_iop\"; did you mean \"max_iops\"?");
  EXPECT_EQ(
      ErrorOf("set", {{"target", "tp_unit/oltq"}, {"values", {{"max_iops", "1"}}}}),
      "change of \"tp_unit/oltq\": there is no group \"oltq\"; did you mean \"oltp\"? in plan "
      "\"htap\"");
  EXPECT_EQ(ErrorOf("apply", {{"toml", "[[unit]]\nname=\"x\"\nmax_iop=1\n"}, {"file", "f.toml"}}),
            "f.toml:3: unit \"x\": unknown key \"max_iop\" = 1; did you mean \"max_iops\"?");
  const Json dry = Call("apply", {{"toml", "[[unit]]\nname=\"x\"\n"}, {"dry_run", true}});
  EXPECT_EQ(dry["version"], 2);
  EXPECT_EQ(dry["changes"][0], "add x");
  EXPECT_EQ(Call("show")["version"], 2);
  EXPECT_EQ(Call("apply", {{"toml", "[[unit]]\nname=\"x\"\n"}})["version"], 3);
  EXPECT_EQ(Call("show", {{"what", "units"}})["units"].size(), 1u);
}

TEST_F(EngineSocketTest, AttachAndDetach) {
  Call("attach", {{"pid", 7}, {"group", "slow"}});
  EXPECT_EQ(plans_->Current()->attached().at(0).pid_start, 1234u);
  Call("attach", {{"cgroup", "/docker/x"}, {"group", "tp_unit"}});
  const Json matches = Call("show", {{"what", "matches"}})["matches"];
  EXPECT_EQ(matches[0]["match"], "cgroup /docker/x");
  EXPECT_EQ(matches[1]["source"], "attached");
  EXPECT_EQ(ErrorOf("attach", {{"pid", 8}, {"group", "slow"}}),
            "attach: there is no process or thread 8");
  EXPECT_EQ(ErrorOf("attach", {{"group", "slow"}}),
            "attach: nothing to match; add at least one of cgroup, uid, user, comm, pid, path");
  Call("detach", {{"pid", 7}});
  EXPECT_EQ(ErrorOf("detach", {{"pid", 7}}),
            "detach pid 7: it is not attached; attached: cgroup /docker/x");
}

TEST_F(EngineSocketTest, StatsAndExplainTellWhoIsServedAndWhoWaitsForWhat) {
  const std::string path = directory_ + "/file";
  auto file = engine_->Open(path, O_RDWR | O_CREAT);
  ASSERT_TRUE(file.has_value());
  const auto plan = plans_->Current();
  const auto group = [&](const char* name) {
    return plan->groups[static_cast<size_t>(plan->FindLeaf(name).value())];
  };
  static char data[4096];
  const Json first = Call("stats");
  EXPECT_TRUE(first["since_start"]);
  std::vector<std::future<IoResult>> done;
  for (int i = 0; i < 50; ++i) {
    done.push_back(
        engine_->SubmitFuture(IoRequest::Write(*file, group("tp_unit/oltp"), data, 4096, 0)));
  }
  for (auto& result : done) EXPECT_TRUE(result.get().ok());
  std::vector<std::future<IoResult>> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(engine_->SubmitFuture(IoRequest::Write(*file, group("slow"), data, 4096, 0)));
  }
  while (engine_->Stats(group("slow"))->queued[1] < 100) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a while in which it is blocked
  const Json stats = Call("stats", {{"since", first["sequence"]}});
  EXPECT_FALSE(stats["since_start"]);
  EXPECT_EQ(stats["engine"]["threads"], 5);
  const double window = stats["window_s"];
  const Json oltp = ByPath(stats["groups"], "tp_unit/oltp");
  EXPECT_NEAR(oltp["write_iops"].get<double>() * window, 50, 0.01);
  EXPECT_NEAR(oltp["write_bytes_per_s"].get<double>() * window, 50 * 4096, 1);
  EXPECT_EQ(oltp["read_iops"], 0);
  EXPECT_EQ(oltp["totals"]["completed"], 50);
  EXPECT_NEAR(oltp["by_reservation"].get<double>() + oltp["by_weight"].get<double>() +
                  oltp["by_leftover"].get<double>(),
              1, 1e-9);
  EXPECT_EQ(ByPath(stats["groups"], "tp_unit")["totals"]["completed"], 50);
  const Json held = ByPath(stats["groups"], "slow");
  EXPECT_EQ(held["blocked_by"], "max_raw_iops");
  EXPECT_TRUE(held["blocked_now"]);
  EXPECT_GT(held["blocked_s"]["max_raw_iops"].get<double>(), 0.04);

  const Json why = Call("explain")["groups"];
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0]["path"], "slow");
  EXPECT_EQ(why[0]["why"], "limit");
  EXPECT_EQ(why[0]["node"], "slow");
  EXPECT_EQ(why[0]["limit"], "max_raw_iops");
  EXPECT_EQ(Call("explain", {{"group", "tp_unit/oltp"}})["groups"][0]["why"], "nothing waits");
  EXPECT_EQ(Call("explain", {{"group", "tp_unit"}})["groups"].size(), 3u);
  EXPECT_EQ(ErrorOf("explain", {{"group", "slov"}}),
            "explain: there is no unit or group \"slov\"; did you mean \"slow\"?");
  static_cast<void>(engine_->Stop(StopMode::kCancel));
}

TEST_F(EngineSocketTest, UnknownOpsAreNamedWithTheNearest) {
  EXPECT_EQ(ErrorOf("aply", Json::object()), "unknown op \"aply\"; did you mean \"apply\"?");
  EXPECT_EQ(ErrorOf("set", {{"targt", "x"}, {"values", Json::object()}}), "set: target is missing");
}

}  // namespace
}  // namespace weir::control
