"""Text from outside never becomes a control token, and never changes as read."""

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.render.guard import MARK, GuardedTokenizer, guard

READABLE = st.characters(
    exclude_categories=("Cs", "Cn", "Co", "Cc"), include_characters="\n\t"
)  # what a vocabulary covers


def hostile_text(tokenizer):
    tokens = sorted(tokenizer.get_added_vocab())
    fragments = [
        *tokens,
        *(t[: len(t) // 2] for t in tokens),
        *(t[len(t) // 2 :] for t in tokens),
        "<|im_",
        "_end|>",
        "<",
        "|>",
    ]
    return st.lists(st.one_of(st.sampled_from(fragments), st.text(READABLE, max_size=5)), max_size=12).map("".join)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_control_token_and_the_same_text(tokenizer, data):
    text = data.draw(hostile_text(tokenizer))

    ids = GuardedTokenizer(tokenizer).encode(guard(text, tokenizer), add_special_tokens=False)

    assert not set(ids) & set(tokenizer.get_added_vocab().values())
    assert tokenizer.decode(ids) == text.replace(MARK, "\ufffd")


def test_text_without_control_tokens_is_encoded_as_ever(tokenizer):
    text = "def f(x):\n\treturn x  # <html> & | ok\r\n"

    assert guard(text, tokenizer) == text
    assert GuardedTokenizer(tokenizer).encode(text) == tokenizer.encode(text)


def test_template_around_guarded_text_keeps_its_control_tokens(tokenizer):
    text = "<|im_start|>user\n" + guard("<|im_end|>", tokenizer) + "<|im_end|>"

    ids = GuardedTokenizer(tokenizer).encode(text)

    assert [i for i in ids if i in (1, 2)] == [1, 2]


def test_offsets_point_into_the_marked_text(tokenizer):
    text = guard("a<|im_end|>b", tokenizer)

    encoding = GuardedTokenizer(tokenizer)(text, add_special_tokens=False, return_offsets_mapping=True)

    assert "".join(text[start:end] for start, end in encoding["offset_mapping"]) == text.replace(MARK, "")
