"""How models write tool calls, one parser per way, recognised by what the model's own chat template writes.

    hermes          <tool_call>{"name": ..., "arguments": {...}}</tool_call>          Hermes, Qwen2.5, SmolLM3
    qwen-xml        <tool_call><function=NAME><parameter=KEY>VALUE</parameter>...     Qwen3-Coder
    mistral         [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]              Mistral Nemo
    mistral-args    [TOOL_CALLS]NAME[ARGS]{...}                                       Devstral
    deepseek        <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>    DeepSeek V3.1
    llama-json      {"name": ..., "parameters": {...}} and nothing else               Llama 3.1

A parser reports every attempt with its status and repairs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from renderers import ParsedResponse, ParsedToolCall, ToolCallParseStatus

from harness.render.hermes import named_call, parse_hermes

Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """markers: what a template of this dialect contains. parse: sampled text (no stop token) and tools -> prose and calls."""

    name: str
    markers: tuple[str, ...]
    parse: Callable[[str, Tools], ParsedResponse]


_DEEPSEEK = re.compile(r"<｜tool▁call▁begin｜>(.*?)<｜tool▁sep｜>(.*?)(<｜tool▁call▁end｜>|\Z)", re.DOTALL)
_ARGS = re.compile(r"\[TOOL_CALLS\]\s*([^\[\s]*)\s*\[ARGS\](.*?)(?=\[TOOL_CALLS\]|\Z)", re.DOTALL)
_XML_BLOCK = re.compile(r"<tool_call>(.*?)(</tool_call>|\Z)", re.DOTALL)
_XML_FUNCTION = re.compile(r"\s*<function=([^>\n]*)>(.*)</function>\s*", re.DOTALL)
_XML_PARAMETER = re.compile(r"<parameter=([^>\n]*)>\n?(.*?)\n?</parameter>", re.DOTALL)


def _hermes(text: str, tools: Tools) -> ParsedResponse:
    return parse_hermes(text)


def _deepseek(text: str, tools: Tools) -> ParsedResponse:
    calls = [
        named_call(match[1].strip(), match[2], raw=match[0])
        if match[3]
        else ParsedToolCall(raw=match[0], status=ToolCallParseStatus.UNCLOSED_BLOCK)
        for match in _DEEPSEEK.finditer(text)
    ]
    return ParsedResponse(content=text.partition("<｜tool▁call")[0].strip(), tool_calls=calls)


def _mistral_args(text: str, tools: Tools) -> ParsedResponse:
    calls = [named_call(match[1], match[2], raw=match[0]) for match in _ARGS.finditer(text)]
    if not calls and "[TOOL_CALLS]" in text:
        calls = [ParsedToolCall(raw=text, status=ToolCallParseStatus.MALFORMED_STRUCTURE)]
    return ParsedResponse(content=text.partition("[TOOL_CALLS]")[0].strip(), tool_calls=calls)


def _mistral(text: str, tools: Tools) -> ParsedResponse:
    content, opened, body = text.partition("[TOOL_CALLS]")
    if not opened:
        return ParsedResponse(content=text.strip())
    try:
        listed = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        listed = [ParsedToolCall(raw=body, status=ToolCallParseStatus.INVALID_JSON)]
    return ParsedResponse(content=content.strip(), tool_calls=[_object(item, "arguments") for item in listed])


def _llama_json(text: str, tools: Tools) -> ParsedResponse:
    body = text.strip().removeprefix("<|python_tag|>").strip()
    if not body.startswith("{"):
        return ParsedResponse(content=text.strip())
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return ParsedResponse(
            content="", tool_calls=[ParsedToolCall(raw=body, status=ToolCallParseStatus.INVALID_JSON)]
        )
    return ParsedResponse(content="", tool_calls=[_object(value, "parameters")])


def _object(value: Any, key: str) -> ParsedToolCall:
    """A call given as {"name": ..., key: ...}."""
    if isinstance(value, ParsedToolCall):
        return value
    if not isinstance(value, dict):
        return ParsedToolCall(raw=str(value), status=ToolCallParseStatus.MALFORMED_STRUCTURE)
    raw = json.dumps(value, ensure_ascii=False)
    return named_call(value.get("name"), value.get(key, {}), raw=raw)


def _qwen_xml(text: str, tools: Tools) -> ParsedResponse:
    calls = [
        _xml_call(match[1], closed=bool(match[2]), raw=match[0], tools=tools) for match in _XML_BLOCK.finditer(text)
    ]
    return ParsedResponse(content=_XML_BLOCK.sub("", text).strip(), tool_calls=calls)


def _xml_call(body: str, *, closed: bool, raw: str, tools: Tools) -> ParsedToolCall:
    if not closed:
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.UNCLOSED_BLOCK)
    function = _XML_FUNCTION.fullmatch(body)
    if function is None:
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.MALFORMED_STRUCTURE)
    name = function[1].strip()
    if not name:
        return ParsedToolCall(raw=raw, status=ToolCallParseStatus.MISSING_NAME)
    types = _string_parameters(name, tools)
    arguments: dict[str, Any] = {}
    for key, value in _XML_PARAMETER.findall(function[2]):
        arguments[key] = value if key in types else _read_value(value)
    return ParsedToolCall(raw=raw, name=name, arguments=arguments)


def _string_parameters(name: str, tools: Tools) -> set[str]:
    """Parameters whose text is taken as it stands: "true" in a string argument is not a boolean."""
    for tool in tools:
        function = tool.get("function", tool)
        if function.get("name") == name:
            properties = function.get("parameters", {}).get("properties", {})
            return {key for key, schema in properties.items() if schema.get("type") == "string"}
    return set()


def _read_value(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text


DIALECTS = (
    Dialect("mistral-args", ("[TOOL_CALLS]", "[ARGS]"), _mistral_args),
    Dialect("mistral", ("[TOOL_CALLS]",), _mistral),
    Dialect("deepseek", ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"), _deepseek),
    Dialect("qwen-xml", ("<function=", "<parameter="), _qwen_xml),
    Dialect("hermes", ("<tool_call>",), _hermes),
    Dialect("llama-json", ('"parameters": ', '"name": '), _llama_json),
)
"""In the order they are tried: a template may hold the markers of more than one."""
