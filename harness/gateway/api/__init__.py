"""The APIs that clients speak, one file each: from a request body to an `Ask`, and from an `Answer` to bodies and events.

    chat.py         POST /v1/chat/completions   OpenAI
    completions.py  POST /v1/completions        OpenAI, raw prompts as text or token ids
    responses.py    POST /v1/responses          OpenAI
    messages.py     POST /v1/messages           Anthropic

Each is a `Dialect`; nothing else knows their shapes. What a request asks for and cannot have is refused by name, never ignored.
"""
