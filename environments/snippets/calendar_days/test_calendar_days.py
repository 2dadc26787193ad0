from calendar_days import day_of_year, days_in, is_leap, next_day


def test_leap_years():
    assert [is_leap(year) for year in (1996, 1900, 2000, 2023)] == [True, False, True, False]


def test_days():
    assert days_in(2024, 2) == 29
    assert days_in(2023, 2) == 28
    assert days_in(2023, 12) == 31
    assert days_in(2024, 4) == 30


def test_day_of_year():
    assert day_of_year(2023, 1, 1) == 1
    assert day_of_year(2023, 3, 1) == 60
    assert day_of_year(2024, 12, 31) == 366


def test_next_day():
    assert next_day(2023, 2, 28) == (2023, 3, 1)
    assert next_day(2024, 2, 28) == (2024, 2, 29)
    assert next_day(2023, 12, 31) == (2024, 1, 1)
