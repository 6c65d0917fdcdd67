"""Plan method `sketch`: a public frame, one noisy sketch of all rows, and all fits to it free.

`frames` says how a frame is found, by histograms or by blocks that are set by hand, and what it
leaves of the account; `forecast` how likely it is to be found, and how large the error will be;
`method` chooses the frame and divides what it leaves between the first sketch and the finish.
"""
