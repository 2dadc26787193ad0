"""New bugs in healthy code, kept where a test notices them.

operators   one small function per kind of mistake: a syntax node → the wrong nodes a person might have written
mutants     every place in a module where an operator applies; seeded choice, deduplicated
bases       where the healthy code comes from: a package release, or a directory
trial       which tests notice? (`warm`: the program that tries mutants in a sandbox)
finder      the bugs of one module, as many as are asked for
sets        which modules are for training, and which are held out
write       a noticed mutant as a task directory
family      all of it, for a number of tasks
"""

from agentgym.tasks.mutation.family import mutate
from agentgym.tasks.mutation.mutants import Mutant, mutants_of

__all__ = ["Mutant", "mutants_of", "mutate"]
