"""Streams of a PDF are counted without being held, and the count comes to an end."""

import random
import zlib

import pytest

from context_engine.ingest.loaded_document import LoadedDocument
from context_engine.ingest.loaders import load
from context_engine.ingest.loaders.pdf_file import is_bomb

WIDTH, HEIGHT = 800, 700


def picture():
    """Return the packed bytes of an 800 × 700 picture whose last block unpacks to over a megabyte.

    Its first 86,000 pixels are noise, packed 1:1 to some 258 kB, the other 474,000 are white: 1.4 MB that pack to a few
    bytes. The limit of 256 MB cannot be reached by less than 254 kB, so the guard unpacks the stream to be sure.
    """
    noise = random.Random(11).randbytes(86_000 * 3)
    packed = zlib.compress(noise + b"\xff" * (WIDTH * HEIGHT * 3 - len(noise)), 9)
    assert 258_000 < len(packed) < 265_000
    return packed


def pdf(packed):
    """Return a PDF of one page with a picture and a line of text; a newline stands before each `endstream`."""
    text = b"BT /F1 12 Tf 72 100 Td (Harbour limit: EUR 25 million) Tj ET q 200 0 0 175 72 200 cm /I Do Q"
    uses = b"<< /Font << /F1 5 0 R >> /XObject << /I 6 0 R >> >>"
    image = f"/Type /XObject /Subtype /Image /Width {WIDTH} /Height {HEIGHT} /ColorSpace /DeviceRGB "
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources %s >>" % uses,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< %s/BitsPerComponent 8 /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream"
        % (image.encode(), len(packed), packed),
    ]
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(bodies, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 7\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer\n<< /Size 7 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start)


def test_what_follows_the_end_of_a_packed_picture_does_not_keep_the_count_going(folder):
    root = folder({"letter.pdf": pdf(picture())})
    [document] = load(root / "letter.pdf", root)
    assert isinstance(document, LoadedDocument)
    assert "Harbour limit: EUR 25 million" in document.text


@pytest.mark.slow
def test_a_stream_that_unpacks_to_more_than_a_page_can_hold_is_a_bomb():
    packed = zlib.compressobj(9)
    bomb = b"".join(packed.compress(bytes(1 << 20)) for _ in range(300)) + packed.flush()
    assert is_bomb(b"<< /Filter /FlateDecode >>\nstream\n" + bomb + b"\nendstream")
