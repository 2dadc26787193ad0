"""Whole experiments as commands: each is a plan of `agentgym` commands, resumable and seeded, that can be shown first."""
