"""The two files that the demo hands out, made with the standard library alone."""

import random
import struct
import zlib


def receipt(lines: list[str]) -> bytes:
    """Write a one-page PDF with these lines."""
    text = " ".join(f"({line}) Tj T*" for line in lines).encode("latin-1", "replace")
    stream = b"BT /F1 14 Tf 20 TL 72 760 Td " + text + b" ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
    ]
    pdf, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(pdf))
        pdf += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start, size = len(pdf), len(objects) + 1
    return pdf + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        size,
        table,
        size,
        start,
    )


def picture(label: str, size: int = 24, zoom: int = 6) -> bytes:
    """Draw a PNG of blocks that look like a boarding code, the same for the same label."""
    dice = random.Random(label)
    blocks = [[0 if dice.random() < 0.5 else 255 for _ in range(size)] for _ in range(size)]
    rows = [bytes(shade for shade in row for _ in range(zoom)) for row in blocks for _ in range(zoom)]
    header = struct.pack(">IIBBBBB", size * zoom, size * zoom, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
