"""Which problems exist: the task model, the registry, sources and validation."""
