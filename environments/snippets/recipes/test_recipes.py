from recipes import missing, portions, scaled


def test_scaled():
    assert scaled({"flour": 200, "eggs": 2}, 8) == {"flour": 400, "eggs": 4}


def test_scaled_down():
    assert scaled({"eggs": 2, "milk": 5}, 2) == {"eggs": 1, "milk": 2.5}


def test_other_base():
    assert scaled({"rice": 100}, 3, base=2) == {"rice": 150}


def test_missing():
    assert missing({"flour": 200, "eggs": 2}, {"flour": 150, "eggs": 2}) == {"flour": 50}


def test_nothing_in_the_pantry():
    assert missing({"salt": 1}, {}) == {"salt": 1}


def test_portions():
    assert portions({"flour": 200, "eggs": 2}, {"flour": 900, "eggs": 5}) == 2


def test_no_portions():
    assert portions({"salt": 1}, {"flour": 5}) == 0
