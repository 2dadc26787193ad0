from mirror_words import common_prefix, is_rotation, occurrences, rotations


def test_rotations():
    assert rotations("abc") == ["abc", "bca", "cab"]


def test_is_rotation():
    assert is_rotation("waterbottle", "erbottlewat")


def test_no_rotation():
    assert not is_rotation("abc", "acb")


def test_part_is_no_rotation():
    assert not is_rotation("abc", "ab")


def test_common_prefix():
    assert common_prefix(["flower", "flow", "flight"]) == "fl"


def test_no_common_prefix():
    assert common_prefix(["ab", "cd"]) == ""


def test_occurrences():
    assert occurrences("banana", "ana") == [1, 3]


def test_occurrence_at_the_start():
    assert occurrences("abcab", "ab") == [0, 3]


def test_no_occurrence():
    assert occurrences("abc", "x") == []
