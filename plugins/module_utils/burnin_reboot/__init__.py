"""Whether a node must be rebooted, read from its state. Runs on the node: Python 3.9, standard library."""
