"""How a benchmark's row is run, and what its log says: asked of the benchmark's own package, never copied from it.

`swebench` 4.1 (and `swesmith`, for SWE-smith's rows) know per repository and version which Python, packages, install and
test commands a row needs, and how the log of its test run is read. swebench 5 moved all of that into data set columns
that rows of the earlier releases lack, so 4.1 is what we ask. Both packages bring a hundred others along; they live in an
environment of their own (`make swebench`) and answer through a pipe.

worker       runs there: a row → how to run it; a log → verdicts
client       finds that environment and asks
environment  what is asked once, at import: the script that runs the tests, and the Dockerfile where sources are given
"""

from agentgym.tasks.swebench.client import BenchmarkPackage, MissingPackage, package

__all__ = ["BenchmarkPackage", "MissingPackage", "package"]
