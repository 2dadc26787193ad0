"""Long work that a request starts: it runs in a process of its own and outlives the server.

    launch.py     from a request to a directory, a row and a process; stop and resume
    worker.py     that process: runs one `agentgym` command, writes how it ended
    overview.py   what is known of any run, launched here or from a command line
    events.py     the same as server-sent events while it changes

A launched run *is* its command line (`agentgym rollout @ config.toml --run-id ID`), so what a server starts and what a
person starts are recorded, resumed and stopped the same way.
"""
