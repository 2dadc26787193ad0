"""A Qwen-class model on SWE-bench-like tasks, on one machine with GPUs: SAO against a vLLM server, the learner under torchrun.

    settings.py   what qwen3-8b.toml may say
    memory.py     what each GPU and the host must hold, from the model's shape
    plan.py       the commands, in order, with the config each one reads

`python -m recipes.swe recipes/swe/qwen3-8b.toml` prints all of it and writes the configs. **It was never run**: the project has
had no GPU. What is checked is that every command and every config is one the program accepts, and that the memory adds up;
the learner itself runs in two processes in the tests, on CPUs.
"""
