"""What the site does to a page: pictures where the tests took some, and plain words for links that leave docs/.

`<!-- picture NAME: what it shows -->` becomes the picture `pictures/NAME.png` where that file exists, and nothing elsewhere: the
same page reads well in a repository browser, which has none. `<!-- openapi -->` becomes the server's own document.
"""

from __future__ import annotations

import posixpath
import re
import tempfile
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parent / "pictures"
OPENAPI = "<!-- openapi -->"
_PICTURE = re.compile(r"<!-- picture ([a-z-]+): (.+?) -->")
_UPWARDS = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]*)[^)]*\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """MkDocs calls this with the text of each page."""

    def inside(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), found[2]))
        return found[1] if target.startswith("..") else found[0]

    if OPENAPI in markdown:
        markdown = markdown.replace(OPENAPI, _openapi())
    return _UPWARDS.sub(inside, _PICTURE.sub(_picture, markdown))


def _openapi() -> str:
    """What the server says of itself, as Markdown. The one error document that all routes share is left to the text above."""
    from openapidocs.mk.v3 import OpenAPIV3DocumentationHandler

    from agentgym.server import create_app

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(str(Path(folder) / "store.db"))
        document = _without_null(app.openapi())
        app.state.store.close()
        app.state.registry.close()
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("summary", None)  # the name of a function; `description` is for people
            operation["responses"] = {code: one for code, one in operation["responses"].items() if code.startswith("2")}
    written = OpenAPIV3DocumentationHandler(document, style="MARKDOWN").write().partition("---")[2]
    return re.sub(
        r"^### (Response .*)", r"**\1**", written, flags=re.MULTILINE
    )  # part of its route, not a heading beside it


def _without_null(value: Any) -> Any:
    """OpenAPI with optional values as the type that they have: what may be null says so in its description or default."""
    if isinstance(value, list):
        return [_without_null(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_null(one) for key, one in value.items() if key != "anyOf"}
    kinds = [_without_null(one) for one in value.get("anyOf", ()) if one != {"type": "null"}]
    return kept | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})


def _picture(found: re.Match[str]) -> str:
    name, shows = found.groups()
    return f"![{shows}](pictures/{name}.png)" if (PICTURES / f"{name}.png").is_file() else ""
