"""What the site does to a page: pictures where the tests took some, and plain words for links that leave docs/.

`<!-- picture NAME: what it shows -->` becomes the picture `pictures/NAME.png` where that file exists, and nothing elsewhere: the
same page reads well in a repository browser, which has none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent / "pictures"
_PICTURE = re.compile(r"<!-- picture ([a-z-]+): (.+?) -->")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return _OUTSIDE.sub(r"\1", _PICTURE.sub(_picture, markdown))


def _picture(found: re.Match[str]) -> str:
    name, shows = found.groups()
    return f"![{shows}](pictures/{name}.png)" if (PICTURES / f"{name}.png").is_file() else ""
