"""Who may do what: tokens with a scope, and the checks every request passes before a route sees it.

tokens.py   make, check, list and revoke tokens
scopes.py   the dependency that lets a route ask for a scope
rate.py     how fast a client may ask, whichever process answers
guard.py    host and origin, size, rate, headers, audit, metrics: one ASGI layer around everything
"""
