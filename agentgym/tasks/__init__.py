"""Which problems exist: the task model, the registry, sources and validation."""

from agentgym.tasks.loader import load_task, shipped_tasks
from agentgym.tasks.model import Task, TaskError, TaskMaterial

__all__ = ["Task", "TaskError", "TaskMaterial", "load_task", "shipped_tasks"]
