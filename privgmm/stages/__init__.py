"""What is done to private rows: stages, each with its price and its proof.

A stage does one thing to rows under one price: `agreement` lets blocks vote and masks what they
agree on, `refinement` takes noisy moments seen through a public mixture. A stage says its price,
prepares without noise, draws, describes itself in words, and is read back from plain numbers.
The next room, `methods`, makes plans out of stages.
"""
