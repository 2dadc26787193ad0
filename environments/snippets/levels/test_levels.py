from levels import Hero, level, missing


def test_level():
    assert [level(points) for points in (0, 99, 100, 399, 400)] == [0, 0, 1, 1, 2]


def test_missing():
    assert missing(150) == 250


def test_hurt():
    hero = Hero()
    assert hero.hurt(5) is True
    assert hero.health == 15


def test_armour():
    hero = Hero()
    hero.hurt(5, armour=3)
    assert hero.health == 18


def test_strong_armour():
    hero = Hero()
    hero.hurt(5, armour=9)
    assert hero.health == 20


def test_death():
    hero = Hero(5)
    assert hero.hurt(7) is False
    assert hero.health == 0


def test_heal():
    hero = Hero()
    hero.hurt(10)
    hero.heal(4)
    assert hero.health == 14


def test_heal_to_the_full():
    hero = Hero()
    hero.hurt(3)
    hero.heal(9)
    assert hero.health == 20


def test_no_healing_of_the_dead():
    hero = Hero(5)
    hero.hurt(5)
    hero.heal(5)
    assert hero.health == 0
