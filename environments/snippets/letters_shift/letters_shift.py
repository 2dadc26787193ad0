"""Keyboards and alphabets."""


def next_letter(letter):
    """The one after it; a follows z."""
    if letter == "z":
        return "a"
    return chr(ord(letter) + 1)


def column(number):
    """The name of a spreadsheet column, A for 1 and AA for 27."""
    name = ""
    while number > 0:
        number, place = divmod(number - 1, 26)
        name = chr(ord("A") + place) + name
    return name


def column_number(name):
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def is_pangram(text):
    return len({letter for letter in text.lower() if "a" <= letter <= "z"}) == 26
