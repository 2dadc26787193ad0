from scores import grade, ranking, without_extremes


def test_grades():
    assert [grade(points) for points in (100, 90, 89, 80, 79, 70, 69, 60, 59, 0)] == [
        "A",
        "A",
        "B",
        "B",
        "C",
        "C",
        "D",
        "D",
        "F",
        "F",
    ]
    assert grade(9, 10) == "A"


def test_ranking():
    assert ranking({"a": 5, "b": 9, "c": 5, "d": 1}) == {"b": 1, "a": 2, "c": 2, "d": 4}


def test_without_extremes():
    assert without_extremes([1, 5, 9]) == 5
    assert without_extremes([2, 4]) == 3
    assert without_extremes([10, 0, 4, 6]) == 5
