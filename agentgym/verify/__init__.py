"""What counts as solved: the agent's diff, hidden tests in a fresh sandbox, and the reward."""
