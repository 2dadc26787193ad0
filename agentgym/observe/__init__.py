"""What recorded trajectories say: success rates, comparisons, behaviour. Reads the store, changes nothing."""
