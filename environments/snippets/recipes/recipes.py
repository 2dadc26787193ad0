"""Amounts of a recipe."""


def scaled(recipe, people, base=4):
    """Amounts for another number of people; whole numbers where they are whole."""
    result = {}
    for name, amount in recipe.items():
        wanted = amount * people / base
        result[name] = int(wanted) if wanted == int(wanted) else round(wanted, 2)
    return result


def missing(recipe, pantry):
    """What must be bought."""
    needed = {}
    for name, amount in recipe.items():
        lack = amount - pantry.get(name, 0)
        if lack > 0:
            needed[name] = lack
    return needed


def portions(recipe, pantry):
    """How often the recipe can be made."""
    return min(pantry.get(name, 0) // amount for name, amount in recipe.items())
