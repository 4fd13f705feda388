"""A client of gRPC that does not do what clients do: it sends frames as it likes."""

import socket
import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_INITIAL_WINDOW = 4


class RawHttp2:
    """A connection that has sent its preface.

    Args:
        address: `HOST:PORT`.
        window: Bytes that it lets the server send on each stream.
        pongs: Whether it answers pings.
    """

    def __init__(self, address: str, window: int = 2**16 - 1, *, pongs: bool = True):
        host, _, port = address.rpartition(":")
        self._pongs = pongs
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.sendall(_PREFACE)
        self.send(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW, window))

    def __enter__(self) -> "RawHttp2":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
        length = struct.pack(">I", len(payload))[1:]
        head = length + struct.pack(">BBI", kind, flags, stream)
        self.socket.sendall(head + payload)

    def call(self, method: str, stream: int = 1, **metadata: str) -> None:
        """Sends the headers of a call."""
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": method,
            ":authority": "x",
            "te": "trailers",
            "content-type": "application/grpc",
            **metadata,
        }
        block = b"".join(b"\0" + _text(k) + _text(v) for k, v in headers.items())
        self.send(HEADERS, END_HEADERS, stream, block)

    def message(self, message: bytes, stream: int = 1) -> None:
        """Sends a call's only message."""
        payload = b"\0" + struct.pack(">I", len(message)) + message
        self.send(DATA, END_STREAM, stream, payload)

    def frames(self):
        """Frames that come, as (kind, flags, stream, payload), until the end."""
        while head := self._read(9):
            length = int.from_bytes(head[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            payload = self._read(length)
            if kind == SETTINGS and not flags & ACK:
                self.send(SETTINGS, ACK, 0)
            if kind == PING and not flags & ACK and self._pongs:
                self.send(PING, ACK, 0, payload)
            yield kind, flags, stream, payload

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                got = self.socket.recv(size - len(found))
            except ConnectionResetError:
                return b""
            if not got:
                return b""
            found += got
        return found


def _text(text: str) -> bytes:
    size = len(text)
    if size < 127:
        return bytes([size]) + text.encode()
    size -= 127
    coded = [127]
    while size >= 128:
        coded.append(size % 128 + 128)
        size //= 128
    return bytes([*coded, size]) + text.encode()
