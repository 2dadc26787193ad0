"""A text that can be taken back."""


class Editor:
    def __init__(self, text=""):
        self.text = text
        self.before = []
        self.after = []

    def change(self, text):
        if text == self.text:
            return
        self.before.append(self.text)
        self.after.clear()
        self.text = text

    def undo(self):
        """True where there was something to take back."""
        if not self.before:
            return False
        self.after.append(self.text)
        self.text = self.before.pop()
        return True

    def redo(self):
        if not self.after:
            return False
        self.before.append(self.text)
        self.text = self.after.pop()
        return True
