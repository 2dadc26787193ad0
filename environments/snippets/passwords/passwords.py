"""How good a password is."""


def kinds(password):
    """How many kinds of letters occur: lower, upper, digits, others."""
    found = 0
    if any(letter.islower() for letter in password):
        found += 1
    if any(letter.isupper() for letter in password):
        found += 1
    if any(letter.isdigit() for letter in password):
        found += 1
    if any(not letter.isalnum() for letter in password):
        found += 1
    return found


def strength(password):
    if len(password) < 8:
        return "weak"
    if len(password) >= 12 and kinds(password) >= 3:
        return "strong"
    return "fair"


def masked(password, shown=2):
    hidden = max(len(password) - shown, 0)
    return "*" * hidden + password[hidden:]
