"""New bugs in healthy code, kept where a test notices them.

operators   one small function per kind of mistake: a syntax node → the wrong nodes a person might have written
mutants     every place in a module where an operator applies; seeded choice, deduplicated
trial       run the tests on mutants in one sandbox: which tests notice?
bases       where the healthy code comes from: a package release, or a directory
write       a noticed mutant as a task directory
"""

from agentgym.tasks.mutation.family import mutate
from agentgym.tasks.mutation.mutants import Mutant, mutants_of

__all__ = ["Mutant", "mutants_of", "mutate"]
