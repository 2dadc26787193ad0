"""Log records as one JSON object a line, for machines that collect them; no secret leaves in one.

    {"time": "2026-01-05T10:00:00.123Z", "level": "info", "logger": "agentgym.server", "message": "request", "status": 200, …}

`facts` of a record (`extra=facts(status=200)`) become keys beside the message. Whatever looks like an API token, or stands in
an Authorization header or in a URL's password, is replaced before it is written.
"""

from __future__ import annotations

import json
import logging
import os
import re
from datetime import UTC, datetime
from typing import Any

_SECRETS = (
    re.compile(r"(agym_[0-9a-f]+_)[\w-]+"),
    re.compile(r"(?i)(bearer\s+)[^\s\"']+"),
    re.compile(r"(://[^\s:/@]+:)[^\s@/]+(?=@)"),
)
_FACTS = "agentgym_facts"
VARIABLE = "AGENTGYM_LOG"


def facts(**values: str | float | None) -> dict[str, Any]:
    """`extra` of a log call: keys of its JSON line."""
    return {_FACTS: values}


def redacted(text: str) -> str:
    """The text without what must not be told."""
    for secret in _SECRETS:
        text = secret.sub(r"\1…", text)
    return text


def as_json() -> logging.Handler | None:
    """The handler of JSON lines on stderr, where `AGENTGYM_LOG=json` asks for it."""
    if os.environ.get(VARIABLE) != "json":
        return None
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    return handler


def configure() -> None:
    """Logging of a process that no command line has set up: warnings, and what is ours, on stderr."""
    handler = as_json() or logging.StreamHandler()
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("agentgym").setLevel(logging.INFO)


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        for name, value in getattr(record, _FACTS, {}).items():
            line[name] = redacted(value) if isinstance(value, str) else value
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line)
