"""Spaces in which fits are compared and masked: a distance, a mask and, if lifted, a mean."""
