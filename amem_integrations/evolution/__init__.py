"""Notes are made, linked and evolved: the steps of the paper (arXiv 2502.12110, section 3) and ours."""
