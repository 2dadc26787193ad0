"""Which words occur how often."""


def words(text):
    found = []
    for word in text.lower().split():
        word = word.strip(".,;:!?\"'")
        if word:
            found.append(word)
    return found


def top(text, number=3):
    """The most frequent words; equal ones by the alphabet."""
    counts = {}
    for word in words(text):
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts, key=lambda word: (-counts[word], word))[:number]


def longest(text):
    return max(words(text), key=len, default="")


def shared(first, second):
    return sorted(set(words(first)) & set(words(second)))
