"""How evidence becomes an update.

A batch of stored trajectories passes these files once, top to bottom:

    evidence.py      which trajectories may teach, as tensors; every one left out is counted by reason
    batch.py         rows into length-sorted micro-batches; chain.py: the action tokens of a trajectory, end to end
    models.py        log π of the action tokens; critic.py: V of the prefix before each
    credit/          rewards → advantages          (one file per family, chosen by name)
    objectives/      advantages → loss             (one file per algorithm, chosen by name)
    learner.py       one step: critic updates, then one policy update; diagnostics.py: what to look at afterwards
    checkpoint.py    all of it on disk, atomically, for an exact resume
    loop.py          steps until the evidence or the budget ends

Every per-token quantity (log probabilities, values, advantages, weights) is one flat tensor over the batch's action
tokens, in chain order; nothing is matched by zipping lists of different length. The store is the only way in: this
package never imports the harness.
"""
