"""Noughts and crosses on a text of nine places."""

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return None


def turn(board):
    """Whose turn it is; x begins."""
    return "x" if board.count("x") <= board.count("o") else "o"


def winning_move(board):
    """The first place that wins at once, None where there is none."""
    player = turn(board)
    for place, mark in enumerate(board):
        if mark == "." and winner(board[:place] + player + board[place + 1 :]) == player:
            return place
    return None
