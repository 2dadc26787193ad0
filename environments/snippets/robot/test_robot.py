from robot import Robot


def test_starts_north():
    robot = Robot()
    robot.walk()
    assert (robot.x, robot.y) == (0, 1)


def test_turn():
    robot = Robot()
    robot.turn(1)
    assert robot.facing == "E"


def test_turn_round():
    robot = Robot(facing="W")
    robot.turn(1)
    assert robot.facing == "N"


def test_turn_left():
    robot = Robot()
    robot.turn(-1)
    assert robot.facing == "W"


def test_walk():
    robot = Robot(1, 1, "S")
    robot.walk(3)
    assert (robot.x, robot.y) == (1, -2)


def test_walk_east():
    robot = Robot(1, 1, "E")
    robot.walk(2)
    assert (robot.x, robot.y) == (3, 1)


def test_obey():
    robot = Robot()
    robot.obey("FFRFLF")
    assert (robot.x, robot.y, robot.facing) == (1, 3, "N")


def test_distance():
    assert Robot(-2, 3).distance() == 5
