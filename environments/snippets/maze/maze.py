"""The way through a maze of text rows ("#" is a wall)."""


def find(maze, mark):
    for row, line in enumerate(maze):
        if mark in line:
            return row, line.index(mark)
    return None


def steps(maze):
    """The fewest steps from S to G, None where there is no way."""
    start = find(maze, "S")
    goal = find(maze, "G")
    seen = {start}
    places = [start]
    count = 0
    while places:
        if goal in places:
            return count
        count += 1
        following = []
        for row, column in places:
            for r, c in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                inside = 0 <= r < len(maze) and 0 <= c < len(maze[r])
                if inside and maze[r][c] != "#" and (r, c) not in seen:
                    seen.add((r, c))
                    following.append((r, c))
        places = following
    return None
