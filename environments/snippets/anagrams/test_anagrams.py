from anagrams import are_anagrams, groups, key


def test_key():
    assert key("Tea") == "aet"


def test_anagrams():
    assert are_anagrams("Listen", "silent")


def test_same_word():
    assert not are_anagrams("tea", "TEA")


def test_other_letters():
    assert not are_anagrams("tea", "tee")


def test_groups():
    assert groups(["tea", "dog", "eat", "god", "cat"]) == [["tea", "eat"], ["dog", "god"]]


def test_no_groups():
    assert groups(["one", "two"]) == []
