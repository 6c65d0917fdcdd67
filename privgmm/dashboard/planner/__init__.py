"""The page Planner: how many rows a release would take."""
