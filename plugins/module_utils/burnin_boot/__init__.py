"""Which kernel the boot loader starts next, and how to make it another. Runs on the node: Python 3.9, standard library."""
