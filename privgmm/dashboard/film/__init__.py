"""The page How it works: one release as a film."""
