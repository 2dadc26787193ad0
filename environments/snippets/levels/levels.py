"""Experience and levels of a game."""


def level(points):
    """Level n begins at n * n * 100 points."""
    reached = 0
    while (reached + 1) ** 2 * 100 <= points:
        reached += 1
    return reached


def missing(points):
    """Points to the next level."""
    return (level(points) + 1) ** 2 * 100 - points


class Hero:
    def __init__(self, health=20):
        self.most = health
        self.health = health

    def hurt(self, damage, armour=0):
        self.health = max(self.health - max(damage - armour, 0), 0)
        return self.health > 0

    def heal(self, points):
        if self.health == 0:
            return
        self.health = min(self.health + points, self.most)
