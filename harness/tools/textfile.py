"""A text file as bytes, editable without changing anything but what was edited.

Encoding (UTF-8, UTF-16 with BOM, otherwise Latin-1, which maps every byte to itself), BOM and line endings are those of
the file. Inside, line ends are kept as they stand; text that is put in takes the line ending of its surroundings.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""One line with its ending: the editor's lines are those of `\\n`, not of form feeds or Unicode separators."""


class NotText(ValueError):
    """The bytes, or the wanted change, do not fit a text file of this encoding; the message is for the policy."""


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> TextFile:
        for bom, encoding in _BOMS:
            if data.startswith(bom):
                try:
                    return cls(data[len(bom) :].decode(encoding), encoding, bom)
                except UnicodeDecodeError:
                    break
        if b"\0" in data:
            raise NotText("it is a binary file")
        try:
            return cls(data.decode("utf-8"))
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), "latin-1")

    def encode(self) -> bytes:
        try:
            return self.bom + self.text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise NotText(f"the file is not UTF-8 but {self.encoding}, which has no {character!r}") from None

    @property
    def eol(self) -> str:
        """The line ending most lines have."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"

    @property
    def lines(self) -> list[str]:
        """Lines with their endings."""
        return LINE.findall(self.text)

    def with_text(self, text: str) -> TextFile:
        return replace(self, text=text)


def unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def native(text: str, eol: str) -> str:
    return unix(text).replace("\n", eol)
