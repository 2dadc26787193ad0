"""Scripts that run inside a grading sandbox; sent as text, never imported by the host."""
