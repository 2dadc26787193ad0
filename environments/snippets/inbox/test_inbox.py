from inbox import matches, preview, sort_out


def test_matches():
    assert matches("Your Invoice from May", "may invoice")


def test_all_words_are_needed():
    assert not matches("Your invoice", "may invoice")


def test_sort_out():
    rules = [("invoice", "bills"), ("your", "personal")]
    assert sort_out(["Your invoice", "Your day", "News"], rules) == {
        "bills": ["Your invoice"],
        "personal": ["Your day"],
        "inbox": ["News"],
    }


def test_several_in_a_folder():
    assert sort_out(["a", "b"], []) == {"inbox": ["a", "b"]}


def test_preview():
    assert preview("A long first line\nmore") == "A long first..."


def test_preview_fits():
    assert preview("exactly 12 c") == "exactly 12 c"


def test_first_line_only():
    assert preview("one\ntwo") == "one"
