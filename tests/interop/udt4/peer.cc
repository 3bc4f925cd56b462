// The other side of the tests in tests/udt4 and of the program udt4_path: a program over libudt. It does one thing and
// says what came of it.
//
//   peer ROLE KIND LOCAL_PORT PEER_PORT ACTION [ARGUMENT...]
//
// ROLE: listen, connect, rendezvous. KIND: stream, message. PEER_PORT of a listener is 0.
// ACTION: send FILE; receive FILE SIZE; echo SIZE; generate SEED SIZE; verify SEED SIZE;
//         blast SECONDS; meter SECONDS (prints the bytes that came, each second);
//         messages COUNT SIZE LIFETIME_MS ORDERED; collect.
// Addresses are 127.0.0.1. PEER_LOCAL and PEER_REMOTE set others, of IPv4 or IPv6.
// PEER_MSS sets the MSS in bytes, PEER_BUFFER the buffers in packets.
#include <arpa/inet.h>
#include <netdb.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <udt/udt.h>

// What is sent and received at a time.
static const int64_t PIECE = 1 << 16;

static void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
  std::_Exit(1);
}

// The address that the variable names, or 127.0.0.1.
static addrinfo* address(const char* variable, const std::string& port) {
  const char* host = std::getenv(variable);
  addrinfo hints, *found = nullptr;
  std::memset(&hints, 0, sizeof(hints));
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host ? host : "127.0.0.1", port.c_str(), &hints, &found) != 0) {
    std::fprintf(stderr, "%s is no address\n", variable);
    std::_Exit(2);
  }
  return found;
}

static void send_all(UDTSOCKET socket, const char* bytes, int64_t size) {
  for (int64_t sent = 0; sent < size;) {
    int count = UDT::send(socket, bytes + sent, static_cast<int>(size - sent), 0);
    check(count != UDT::ERROR, "send");
    sent += count;
  }
}

static void receive_all(UDTSOCKET socket, char* bytes, int64_t size) {
  for (int64_t got = 0; got < size;) {
    int count = UDT::recv(socket, bytes + got, static_cast<int>(size - got), 0);
    check(count != UDT::ERROR, "recv");
    got += count;
  }
}

// The stream that both sides can make from a seed: words of xorshift64, little-endian (src/noise.rs has the same).
class Noise {
 public:
  explicit Noise(uint64_t seed) : state_((seed * 0x9E3779B97F4A7C15ull) | 1) {}

  // Fills a piece, whose size must be a multiple of 8.
  void fill(std::vector<char>* piece) {
    for (size_t at = 0; at + 8 <= piece->size(); at += 8) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      for (int byte = 0; byte < 8; ++byte) (*piece)[at + byte] = static_cast<char>(state_ >> (8 * byte));
    }
  }

 private:
  uint64_t state_;
};

static void generate(UDTSOCKET socket, uint64_t seed, int64_t size) {
  Noise noise(seed);
  std::vector<char> piece(PIECE);
  for (int64_t left = size; left > 0; left -= PIECE) {
    noise.fill(&piece);
    send_all(socket, piece.data(), left < PIECE ? left : PIECE);
  }
}

static void verify(UDTSOCKET socket, uint64_t seed, int64_t size) {
  Noise noise(seed);
  std::vector<char> piece(PIECE), expected(PIECE);
  for (int64_t left = size; left > 0; left -= PIECE) {
    int64_t count = left < PIECE ? left : PIECE;
    noise.fill(&expected);
    receive_all(socket, piece.data(), count);
    if (std::memcmp(piece.data(), expected.data(), static_cast<size_t>(count)) != 0) {
      std::printf("wrong bytes behind byte %lld\n", static_cast<long long>(size - left));
      std::fflush(stdout);
      std::_Exit(1);
    }
  }
  std::printf("verified %lld\n", static_cast<long long>(size));
  std::fflush(stdout);
}

static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

static void blast(UDTSOCKET socket, double seconds) {
  std::vector<char> piece(PIECE);
  for (const double end = now() + seconds; now() < end;) send_all(socket, piece.data(), PIECE);
}

static void meter(UDTSOCKET socket, double seconds) {
  std::vector<char> piece(PIECE);
  int64_t bytes = 0;
  double due = 1.0;
  for (const double start = now(); due <= seconds;) {
    int count = UDT::recv(socket, piece.data(), static_cast<int>(PIECE), 0);
    if (count == UDT::ERROR) break;
    bytes += count;
    for (; due <= seconds && now() >= start + due; due += 1.0) std::printf("%lld\n", static_cast<long long>(bytes));
    std::fflush(stdout);
  }
}

static void set_options(UDTSOCKET socket, bool rendezvous) {
  if (const char* mss = std::getenv("PEER_MSS")) {
    int value = std::atoi(mss);
    check(UDT::setsockopt(socket, 0, UDT_MSS, &value, sizeof(int)) != UDT::ERROR, "mss");
  }
  if (const char* packets = std::getenv("PEER_BUFFER")) {
    int value = std::atoi(packets) * 1456;
    check(UDT::setsockopt(socket, 0, UDT_RCVBUF, &value, sizeof(int)) != UDT::ERROR, "rcvbuf");
    check(UDT::setsockopt(socket, 0, UDT_SNDBUF, &value, sizeof(int)) != UDT::ERROR, "sndbuf");
  }
  if (rendezvous) {
    bool yes = true;
    check(UDT::setsockopt(socket, 0, UDT_RENDEZVOUS, &yes, sizeof(bool)) != UDT::ERROR, "rendezvous");
  }
}

// The connection, made in this role.
static UDTSOCKET open(const std::string& role, const std::string& kind, const char* local_port, const char* peer_port) {
  addrinfo* local = address("PEER_LOCAL", local_port);
  UDTSOCKET socket = UDT::socket(local->ai_family, kind == "stream" ? SOCK_STREAM : SOCK_DGRAM, 0);
  check(socket != UDT::INVALID_SOCK, "socket");
  set_options(socket, role == "rendezvous");
  check(UDT::bind(socket, local->ai_addr, static_cast<int>(local->ai_addrlen)) != UDT::ERROR, "bind");
  if (role != "listen") {
    addrinfo* peer = address("PEER_REMOTE", peer_port);
    int connected = UDT::connect(socket, peer->ai_addr, static_cast<int>(peer->ai_addrlen));
    check(connected != UDT::ERROR, "connect");
    return socket;
  }
  check(UDT::listen(socket, 10) != UDT::ERROR, "listen");
  sockaddr_storage at;
  std::memset(&at, 0, sizeof(at));
  int length = static_cast<int>(local->ai_addrlen);
  UDT::getsockname(socket, reinterpret_cast<sockaddr*>(&at), &length);
  // The port is at the same place in both families.
  std::printf("port %d\n", ntohs(reinterpret_cast<sockaddr_in*>(&at)->sin_port));
  std::fflush(stdout);
  length = static_cast<int>(local->ai_addrlen);
  socket = UDT::accept(socket, reinterpret_cast<sockaddr*>(&at), &length);
  check(socket != UDT::INVALID_SOCK, "accept");
  return socket;
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  std::string action = argv[5];
  UDT::startup();
  UDTSOCKET socket = open(argv[1], argv[2], argv[3], argv[4]);

  if (action == "send") {
    std::ifstream file(argv[6], std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    send_all(socket, bytes.data(), static_cast<int64_t>(bytes.size()));
  } else if (action == "receive") {
    std::vector<char> bytes(std::strtoull(argv[7], nullptr, 10));
    receive_all(socket, bytes.data(), static_cast<int64_t>(bytes.size()));
    std::ofstream(argv[6], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  } else if (action == "echo") {
    std::vector<char> bytes(std::strtoull(argv[6], nullptr, 10));
    receive_all(socket, bytes.data(), static_cast<int64_t>(bytes.size()));
    send_all(socket, bytes.data(), static_cast<int64_t>(bytes.size()));
  } else if (action == "generate") {
    generate(socket, std::strtoull(argv[6], nullptr, 10), std::strtoll(argv[7], nullptr, 10));
  } else if (action == "verify") {
    verify(socket, std::strtoull(argv[6], nullptr, 10), std::strtoll(argv[7], nullptr, 10));
  } else if (action == "blast") {
    blast(socket, std::atof(argv[6]));
  } else if (action == "meter") {
    meter(socket, std::atof(argv[6]));
    std::_Exit(0);
  } else if (action == "messages") {
    // Message N has SIZE + N bytes: its number in decimal, then '.'.
    int count = std::atoi(argv[6]), size = std::atoi(argv[7]), lifetime = std::atoi(argv[8]);
    bool ordered = std::atoi(argv[9]) != 0;
    for (int n = 0; n < count; ++n) {
      std::string message = std::to_string(n);
      message.resize(static_cast<size_t>(size + n), '.');
      int sent = UDT::sendmsg(socket, message.data(), static_cast<int>(message.size()), lifetime, ordered);
      check(sent == static_cast<int>(message.size()), "sendmsg");
    }
  } else if (action == "collect") {
    // Receives messages until the other side closes, and prints the number and the length of each.
    std::vector<char> bytes(1 << 22);
    for (;;) {
      int count = UDT::recvmsg(socket, bytes.data(), static_cast<int>(bytes.size()));
      if (count == UDT::ERROR) break;
      std::printf("message %d %d\n", std::atoi(std::string(bytes.data(), 12).c_str()), count);
    }
  }
  UDT::close(socket);
  std::printf("done\n");
  std::fflush(stdout);
  UDT::cleanup();
  return 0;
}
