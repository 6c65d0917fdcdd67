"""Tests of the stages for many columns."""
