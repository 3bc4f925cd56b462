// SRT memory to memory: what libsrt itself moves, without a program around it. Its rules for files (SRTT_FILE), as a
// stream, without encryption.
//
//     srt recv PORT SENDERS MTU hot|cold
//     srt send HOST PORT SECONDS MTU hot|cold
//
// `hot` sends from and receives into one buffer that stays in the cache; `cold` walks through 1 GiB. The last line of
// output is a JSON object with bytes and seconds.
#include <arpa/inet.h>
#include <srt/srt.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPiece = 1 << 20;
constexpr int64_t kHotBytes = kPiece;
constexpr int64_t kColdBytes = int64_t{1} << 30;
constexpr size_t kHugePage = 2 << 20;
// As in udt.cc, so that both have the same.
constexpr int kSrtBuffer = 32 << 20;
constexpr int kUdpBuffer = 4 << 20;

struct Moved {
  int64_t bytes = 0;
  Clock::time_point first, last;
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "srt: %s: %s\n", what.c_str(), srt_getlasterror_str());
  std::exit(1);
}

// The memory to send from or receive into. Huge pages keep the cost of filling it out of the measurement.
class Memory {
 public:
  explicit Memory(const std::string& kind) : size_(kind == "cold" ? kColdBytes : kHotBytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, kHugePage, size_) != 0) std::abort();
    madvise(memory, size_, MADV_HUGEPAGE);
    std::memset(memory, 'x', size_);
    start_ = static_cast<char*>(memory);
  }

  // Where the next piece stands.
  char* piece() { return start_ + at_; }

  // Goes on behind `moved` bytes, and back to the start when no whole piece is left.
  void advance(int moved) { at_ = at_ + moved + kPiece <= size_ ? at_ + moved : 0; }

 private:
  int64_t size_;
  int64_t at_ = 0;
  char* start_ = nullptr;  // lives as long as the process
};

SRTSOCKET Socket(int mtu) {
  const SRTSOCKET s = srt_create_socket();
  if (s == SRT_INVALID_SOCK) Die("create");
  const auto set = [s](SRT_SOCKOPT option, const auto& value) {
    if (srt_setsockflag(s, option, &value, sizeof value) == SRT_ERROR) Die("setsockflag");
  };
  // First, because it sets others.
  set(SRTO_TRANSTYPE, SRTT_FILE);
  set(SRTO_MSS, mtu);
  // In packets; the receive buffer is no larger than this.
  set(SRTO_FC, std::max(32, kSrtBuffer / (mtu - 28)));
  set(SRTO_SNDBUF, kSrtBuffer);
  set(SRTO_RCVBUF, kSrtBuffer);
  set(SRTO_UDP_SNDBUF, kUdpBuffer);
  set(SRTO_UDP_RCVBUF, kUdpBuffer);
  return s;
}

sockaddr_in Address(const char* host, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) Die(std::string("not an IPv4 address: ") + host);
  return address;
}

void Report(int64_t bytes, double seconds) {
  std::printf("{\"bytes\": %lld, \"seconds\": %.6f}\n", static_cast<long long>(bytes), seconds);
}

// Receives until the sender closes.
Moved Drain(SRTSOCKET s, Memory& memory) {
  Moved moved;
  for (;;) {
    const int n = srt_recv(s, memory.piece(), kPiece);
    if (n == SRT_ERROR || n == 0) break;
    moved.last = Clock::now();
    if (moved.bytes == 0) moved.first = moved.last;
    moved.bytes += n;
    memory.advance(n);
  }
  srt_close(s);
  return moved;
}

void Receive(const char* port, int senders, int mtu, const std::string& kind) {
  // Before anybody can connect, so that no sender waits for memory to be filled.
  std::vector<Memory> memories;
  for (int i = 0; i < senders; i++) memories.emplace_back(kind);
  const SRTSOCKET listener = Socket(mtu);
  const sockaddr_in address = Address("0.0.0.0", port);
  if (srt_bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == SRT_ERROR) Die("bind");
  if (srt_listen(listener, senders) == SRT_ERROR) Die("listen");
  std::vector<Moved> moved(senders);
  std::vector<std::thread> threads;
  for (int i = 0; i < senders; i++) {
    const SRTSOCKET s = srt_accept(listener, nullptr, nullptr);
    if (s == SRT_INVALID_SOCK) Die("accept");
    threads.emplace_back([&moved, &memories, i, s] { moved[i] = Drain(s, memories[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  srt_close(listener);
  Moved all = moved.front();
  all.bytes = 0;
  for (const Moved& one : moved) {
    all.bytes += one.bytes;
    all.first = std::min(all.first, one.first);
    all.last = std::max(all.last, one.last);
  }
  Report(all.bytes, std::chrono::duration<double>(all.last - all.first).count());
}

void Send(const char* host, const char* port, double seconds, int mtu, const std::string& kind) {
  Memory memory(kind);
  const SRTSOCKET s = Socket(mtu);
  const sockaddr_in address = Address(host, port);
  if (srt_connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) == SRT_ERROR) Die("connect");
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  int64_t bytes = 0;
  while (Clock::now() < end) {
    const int n = srt_send(s, memory.piece(), kPiece);
    if (n == SRT_ERROR) Die("send");
    bytes += n;
    memory.advance(n);
  }
  srt_close(s);  // lingers until all of it is acknowledged
  Report(bytes, std::chrono::duration<double>(Clock::now() - start).count());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  srt_startup();
  if (mode == "recv" && argc == 6) {
    Receive(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argv[5]);
  } else if (mode == "send" && argc == 7) {
    Send(argv[2], argv[3], std::atof(argv[4]), std::atoi(argv[5]), argv[6]);
  } else {
    std::fprintf(stderr, "usage: srt recv PORT SENDERS MTU hot|cold\n       srt send HOST PORT SECONDS MTU hot|cold\n");
    return 2;
  }
  srt_cleanup();
  return 0;
}
