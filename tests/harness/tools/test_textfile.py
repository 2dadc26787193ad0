"""A file is bytes: what is not edited stays what it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tools.textfile import NotText, TextFile


@given(st.binary().filter(lambda data: b"\0" not in data))
def test_any_text_bytes_survive(data):
    assert TextFile.decode(data).encode() == data


@given(st.text(), st.sampled_from(["utf-8-sig", "utf-16"]))
def test_byte_order_marks_survive(text, encoding):
    data = text.encode(encoding, errors="replace")

    file = TextFile.decode(data)

    assert file.encode() == data
    assert not file.text.startswith("\ufeff")


def test_binary_and_unencodable_are_refused():
    with pytest.raises(NotText, match="binary"):
        TextFile.decode(b"\x7fELF\0")
    latin = TextFile.decode(b"caf\xe9")
    with pytest.raises(NotText, match="latin-1, which has no '日'"):
        latin.with_text(latin.text + "日").encode()


def test_lines_are_those_of_newlines_only():
    assert TextFile("a\x0cb\u2028c\r\nd").lines == ["a\x0cb\u2028c\r\n", "d"]
    assert TextFile("a\r\nb\r\nc\n").eol == "\r\n"
    assert TextFile("a").eol == "\n"
