"""How evidence becomes an update: sequences, credit, objectives, critic, learner."""
