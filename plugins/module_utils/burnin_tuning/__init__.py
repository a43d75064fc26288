"""How a node is set up for GPU work: what is wanted, what is there, and how the one becomes the other. Runs on the node: Python 3.9, standard library."""
