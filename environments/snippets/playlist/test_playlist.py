from playlist import Playlist

SONGS = [("one", 60), ("two", 90), ("three", 30)]


def test_current():
    assert Playlist(SONGS).current() == "one"


def test_skip():
    assert Playlist(SONGS).skip() == "two"


def test_end():
    songs = Playlist(SONGS)
    songs.skip()
    songs.skip()
    assert songs.skip() is None


def test_repeat():
    songs = Playlist(SONGS, repeat=True)
    songs.skip()
    songs.skip()
    assert songs.skip() == "one"


def test_back():
    songs = Playlist(SONGS)
    songs.skip()
    assert songs.back() == "one"


def test_back_at_the_start():
    assert Playlist(SONGS).back() == "one"


def test_left():
    songs = Playlist(SONGS)
    songs.skip()
    assert songs.left() == 120
