"""Sentences and their words."""


def split(text):
    """Sentences end with a dot, a question mark or an exclamation mark."""
    found = []
    sentence = ""
    for letter in text:
        sentence += letter
        if letter in ".?!":
            found.append(sentence.strip())
            sentence = ""
    if sentence.strip():
        found.append(sentence.strip())
    return found


def average_length(text):
    """Words per sentence."""
    sentences = split(text)
    if not sentences:
        return 0
    return sum(len(sentence.split()) for sentence in sentences) / len(sentences)


def questions(text):
    return [sentence for sentence in split(text) if sentence.endswith("?")]
