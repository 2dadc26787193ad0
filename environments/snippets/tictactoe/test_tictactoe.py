from tictactoe import turn, winner, winning_move


def test_row():
    assert winner("oo.xxx...") == "x"


def test_column():
    assert winner("xo.xo..ox") == "o"


def test_diagonal():
    assert winner("x.o.xo..x") == "x"


def test_nobody():
    assert winner("xx.oo....") is None


def test_x_begins():
    assert turn(".........") == "x"


def test_then_o():
    assert turn("x........") == "o"


def test_winning_move():
    assert winning_move("xx.oo....") == 2


def test_o_wins():
    assert winning_move("xx.oo.x..") == 5


def test_no_winning_move():
    assert winning_move("x...o....") is None
