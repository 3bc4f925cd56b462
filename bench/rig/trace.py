"""Runs a command in a host of an emulated network, and writes down when it began and ended and which packets crossed the host's device:
`python3 trace.py FILE COMMAND [ARGUMENT ...]`. Needs nothing of the rig, since it runs in the host.

The kernel notes the packets with its own clock, in a ring that is read after the command has ended: so this costs next to nothing meanwhile."""

import json
import mmap
import os
import socket
import struct
import sys
import time

DEVICE = "grid0"
# A program that was started just before may still be reading its configuration when its port is open.
SETTLE_SECONDS = 0.3
# A frame holds the headers and the first bytes of a packet. A file of 10 MB takes some 10,000 if no segments are merged.
FRAME_BYTES = 256
FRAMES_IN_BLOCK = 256
BLOCKS = 256
# <linux/if_packet.h>
PACKET_RX_RING = 5
PACKET_STATISTICS = 6
PACKET_VERSION = 10
TPACKET_V2 = 1
PACKET_OUTGOING = 4
SOL_PACKET = 263
ETH_P_ALL = 3
HEADER = struct.Struct("=IIIHHII")  # tpacket2_hdr as far as its time
LINK_PACKET_TYPE_AT = 32 + 10  # of the sockaddr_ll behind it
TCP, UDP = 6, 17


def main():
    file, *command = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as tap:
        tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        frames = BLOCKS * FRAMES_IN_BLOCK
        tap.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("=IIII", FRAMES_IN_BLOCK * FRAME_BYTES, BLOCKS, FRAME_BYTES, frames))
        with mmap.mmap(tap.fileno(), frames * FRAME_BYTES) as ring:
            tap.bind((DEVICE, ETH_P_ALL))
            time.sleep(SETTLE_SECONDS)
            # The clock of the kernel's notes.
            began = time.clock_gettime_ns(time.CLOCK_REALTIME)
            _, status = os.waitpid(os.posix_spawnp(command[0], command, os.environ), 0)
            ended = time.clock_gettime_ns(time.CLOCK_REALTIME)
            seen = [packet(ring[at:at + FRAME_BYTES], began) for at in range(0, frames * FRAME_BYTES, FRAME_BYTES) if ring[at] & 1]
        _, missed = struct.unpack("=II", tap.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    packets = sorted(one for one in seen if one)
    with open(file, "w", encoding="utf-8") as out:
        json.dump({"seconds": (ended - began) / 1e9, "missed": missed, "packets": packets}, out)
    sys.exit(os.waitstatus_to_exitcode(status))


def packet(frame, began):
    """Seconds since the command began; whether it came; `tcp` or `udp`; the ports of source and destination; bytes behind the headers; TCP's
    flags, or the datagram's first byte behind eight. None if it is neither, and if it came before."""
    _status, _length, _kept, _link, at, seconds, nanoseconds = HEADER.unpack_from(frame)
    when = (seconds * 10**9 + nanoseconds - began) / 1e9
    came = frame[LINK_PACKET_TYPE_AT] != PACKET_OUTGOING
    header, protocol = (frame[at] & 15) * 4, frame[at + 9]
    if when < 0 or frame[at] >> 4 != 4 or protocol not in (TCP, UDP):
        return None
    length = int.from_bytes(frame[at + 2:at + 4], "big") - header
    at += header
    ports = struct.unpack_from("!HH", frame, at)
    if protocol == TCP:
        return [when, came, "tcp", *ports, length - (frame[at + 12] >> 4) * 4, frame[at + 13]]
    return [when, came, "udp", *ports, length - 8, frame[at + 16] if length > 16 else 0]


if __name__ == "__main__":
    main()
