"""What counts as solved: the agent's diff, hidden tests in a fresh sandbox, and the reward.

`extract_patch` takes the agent's work out of its sandbox as a patch; `grade` judges a patch in a sandbox of its own.
"""

from agentgym.verify.extract import extract_patch
from agentgym.verify.grade import Grade, Patch
from agentgym.verify.grading import grade
from agentgym.verify.pristine import capture as capture_pristine

__all__ = ["Grade", "Patch", "capture_pristine", "extract_patch", "grade"]
