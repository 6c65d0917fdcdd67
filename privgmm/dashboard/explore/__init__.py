"""The page Explore: what privacy costs, seen on one data set."""
