"""One group of the stack made true on a node: sources, pins, packages, holds, files, services. Runs on the node: Python 3.9, standard library."""
