"""Counting words."""


def words(text):
    """Lower-case words; everything but letters and apostrophes inside words separates."""
    found = []
    word = ""
    for letter in text.lower() + " ":
        if letter.isalpha() or (letter == "'" and word):
            word += letter
        elif word:
            found.append(word.rstrip("'"))
            word = ""
    return found


def frequencies(text):
    counts = {}
    for word in words(text):
        counts[word] = counts.get(word, 0) + 1
    return counts


def top(text, number):
    """The most frequent words; alphabetical where equally frequent."""
    ordered = sorted(frequencies(text).items(), key=lambda item: (-item[1], item[0]))
    return [word for word, _ in ordered[:number]]


def is_palindrome(text):
    letters = [letter for letter in text.lower() if letter.isalnum()]
    return letters == letters[::-1]
