#!/usr/bin/env python3
"""Prints the records of a live stream as JSON lines: subscriber.py tcp://HOST:PORT [COUNT]

Ends after COUNT records that are no heartbeats. Needs pyzmq and msgpack (Debian: python3-zmq, python3-msgpack). docs/stream.md has the wire format.
"""
import json
import struct
import sys

import msgpack
import zmq


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    address, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(address)
    expected = None
    while True:
        frames = socket.recv_multipart()
        if len(frames) != 3:
            print(f"a message of {len(frames)} frames is passed over", file=sys.stderr)
            continue
        _, number, payload = frames
        (sequence,) = struct.unpack(">Q", number)
        lost = sequence - expected if expected is not None and sequence > expected else 0
        expected = sequence + 1
        record = msgpack.unpackb(payload)
        if record["version"] != 1:
            print(f"a record of version {record['version']} is passed over", file=sys.stderr)
            continue
        print(json.dumps({"sequence": sequence, "lost": lost, "record": record}), flush=True)
        if record["wall_time"] != 0:
            count -= 1
            if count == 0:
                return


main()
