"""Which problems exist: the task model, the registry, sources and validation."""

from agentgym.tasks.loader import load_task, shipped_tasks
from agentgym.tasks.model import Task, TaskError, TaskMaterial
from agentgym.tasks.registry import RegisteredTask, Registry
from agentgym.tasks.report import ValidationReport

__all__ = [
    "RegisteredTask",
    "Registry",
    "Task",
    "TaskError",
    "TaskMaterial",
    "ValidationReport",
    "load_task",
    "shipped_tasks",
]
