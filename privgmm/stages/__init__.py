"""What is done to confidential rows: stages, each with its price and its proof.

A stage does one thing to rows under one price: `agreement` lets blocks vote and masks what they
agree on, `refinement` takes noisy moments seen through a public mixture. A stage says its price,
prepares without noise, draws, describes itself in words, and is read back from plain numbers.
The next room, `methods`, makes plans out of stages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
