from stopwatch import Laps


def test_laps_add_up():
    laps = Laps()
    laps.add(61)
    laps.add(59)
    assert laps.total == 120


def test_best_lap():
    laps = Laps()
    laps.add(61)
    laps.add(59)
    assert laps.best == 59


def test_no_laps_have_no_best():
    assert Laps().best is None
