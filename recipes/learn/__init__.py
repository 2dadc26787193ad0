"""It learns: a 135M model, a cold start by imitation, then asynchronous SAO against a real vLLM server, on a CPU.

python -m recipes.learn recipes/learn/learn.toml                 everything (make learn)
python -m recipes.learn recipes/learn/learn.toml --arm grpo      another arm from the same start (make learn-controls)
python -m recipes.learn recipes/learn/learn.toml --dry-run       what would be done, and with what memory

settings.py   learn.toml, typed
families.py   which modules the bugs are put into
stages.py     the plan: one stage per `agentgym` command; a stage that is done is not done again
serving.py    the vLLM server of the policy
summary.py    summary.json and the plots
"""
