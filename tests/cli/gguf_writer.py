# SPDX-License-Identifier: MIT
"""Writes tensors to a GGUF file, with nothing but the standard library."""

import struct

F32, I32 = 0, 26  # ggml's type numbers
ALIGNMENT = 32


def _string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_tensors(path, tensors):
    """tensors: list of (name, type, shape fastest first, flat values)."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), 0)
    data = b""
    for name, kind, shape, values in tensors:
        header += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += struct.pack(f"<{len(values)}{'f' if kind == F32 else 'i'}", *values)
        data += bytes(-len(data) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % ALIGNMENT) + data)
