from rle_image import flipped, ink, pack, unpack


def test_pack():
    assert pack("..###.") == [2, 3, 1]


def test_pack_begins_black():
    assert pack("#..") == [0, 1, 2]


def test_unpack():
    assert unpack([1, 2, 1]) == ".##."


def test_unpack_begins_black():
    assert unpack([0, 2]) == "##"


def test_flipped():
    assert flipped(["#..", ".#."]) == ["..#", ".#."]


def test_ink():
    assert ink(["#..", "##."]) == 3
