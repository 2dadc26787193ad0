"""Songs one after the other."""


class Playlist:
    def __init__(self, songs, repeat=False):
        self.songs = list(songs)
        self.repeat = repeat
        self.place = 0

    def current(self):
        if self.place >= len(self.songs):
            return None
        return self.songs[self.place][0]

    def skip(self):
        self.place += 1
        if self.repeat and self.place == len(self.songs):
            self.place = 0
        return self.current()

    def back(self):
        if self.place > 0:
            self.place -= 1
        return self.current()

    def left(self):
        """Seconds from the current song to the end."""
        return sum(seconds for _, seconds in self.songs[self.place :])
