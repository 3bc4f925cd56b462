// The other side of the tests in tests/udt4.rs: a program over libudt. It does one thing and says what came of it.
//
//   peer ROLE KIND LOCAL_PORT PEER_PORT ACTION [ARGUMENT...]
//
// ROLE: listen, connect, rendezvous. KIND: stream, message. Everything is on 127.0.0.1. PEER_PORT of a listener is 0.
// ACTION: send FILE; receive FILE SIZE; echo SIZE; messages COUNT SIZE LIFETIME_MS ORDERED; collect.
#include <arpa/inet.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <udt/udt.h>

static void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
  std::_Exit(1);
}

static sockaddr_in loopback(int port) {
  sockaddr_in address;
  std::memset(&address, 0, sizeof(address));
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  return address;
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

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  std::string role = argv[1], kind = argv[2], action = argv[5];
  int local = std::atoi(argv[3]), remote = std::atoi(argv[4]);
  UDT::startup();
  UDTSOCKET socket = UDT::socket(AF_INET, kind == "stream" ? SOCK_STREAM : SOCK_DGRAM, 0);
  check(socket != UDT::INVALID_SOCK, "socket");
  if (const char* mss = std::getenv("PEER_MSS")) {
    int value = std::atoi(mss);
    check(UDT::setsockopt(socket, 0, UDT_MSS, &value, sizeof(int)) != UDT::ERROR, "mss");
  }
  if (const char* packets = std::getenv("PEER_BUFFER")) {
    int value = std::atoi(packets) * 1456;
    check(UDT::setsockopt(socket, 0, UDT_RCVBUF, &value, sizeof(int)) != UDT::ERROR, "rcvbuf");
    check(UDT::setsockopt(socket, 0, UDT_SNDBUF, &value, sizeof(int)) != UDT::ERROR, "sndbuf");
  }
  if (role == "rendezvous") {
    bool yes = true;
    check(UDT::setsockopt(socket, 0, UDT_RENDEZVOUS, &yes, sizeof(bool)) != UDT::ERROR, "rendezvous");
  }
  sockaddr_in address = loopback(local);
  check(UDT::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != UDT::ERROR, "bind");
  if (role == "listen") {
    check(UDT::listen(socket, 10) != UDT::ERROR, "listen");
    int length = sizeof(address);
    UDT::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
    std::printf("port %d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    UDTSOCKET listener = socket;
    length = sizeof(address);
    socket = UDT::accept(listener, reinterpret_cast<sockaddr*>(&address), &length);
    check(socket != UDT::INVALID_SOCK, "accept");
  } else {
    sockaddr_in peer = loopback(remote);
    check(UDT::connect(socket, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != UDT::ERROR, "connect");
  }

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
