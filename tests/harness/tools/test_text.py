"""Terminal output as a model should read it."""

from hypothesis import given
from hypothesis import strategies as st

from harness.tools.text import readable, shorten


def test_colours_progress_bars_and_control_bytes():
    assert readable(b"\x1b[31mred\x1b[0m \x1b]0;title\x07ok") == "red ok"
    assert readable(b" 10%\r 50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert readable(b"a\x00b\xff\x08") == "a\ufffdb\ufffd\ufffd"


@given(st.binary(max_size=300))
def test_any_bytes_become_text_a_database_takes(data):
    text = readable(data)

    assert not set(text) & {chr(c) for c in range(32) if chr(c) not in "\n\t"}
    text.encode()


@given(st.text(alphabet="ab\n", max_size=400), st.integers(20, 200), st.integers(0, 1000))
def test_short_text_keeps_head_and_tail_and_says_what_is_missing(text, cap, omitted):
    short, truncated = shorten(text, cap, already_omitted=omitted)

    assert truncated == (len(text) > cap or omitted > 0)
    if not truncated:
        assert short == text
        return
    head, _, tail = short.partition("\n[... about ")
    missing, _, tail = tail.partition(" characters left out here ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= cap
    assert 0 <= int(missing) - omitted <= len(text)
