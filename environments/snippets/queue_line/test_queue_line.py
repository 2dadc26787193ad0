from queue_line import Line


def test_join():
    line = Line()
    assert [line.join("a"), line.join("b")] == [1, 2]


def test_priority():
    line = Line()
    line.join("a")
    assert line.join("b", priority=True) == 1
    assert line.serve() == "b"


def test_priorities_keep_their_order():
    line = Line()
    line.join("a", priority=True)
    assert line.join("b", priority=True) == 2
    assert line.serve() == "a"


def test_serve():
    line = Line()
    line.join("a")
    assert line.serve() == "a"
    assert line.serve() is None
    assert line.served == 1


def test_wait():
    line = Line()
    line.join("a")
    line.join("b")
    line.join("c")
    assert line.wait("c") == 10


def test_wait_with_other_time():
    line = Line()
    line.join("a")
    line.join("b")
    assert line.wait("b", 3) == 3
