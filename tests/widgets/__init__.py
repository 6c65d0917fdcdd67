"""Tests of the pieces of a notebook."""
