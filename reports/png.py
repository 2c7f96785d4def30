"""Pictures made of pixels: PNG (RFC 2083) with colour and opacity, for maps of many cells."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def as_link(pixels: NDArray[np.uint8]) -> str:
    """An address that holds the picture itself; `pixels` are (height, width, 4), RGBA."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)  # 8 bits, RGBA
    parts = (
        (b"IHDR", header),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
