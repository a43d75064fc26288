"""What dkms has built for which kernel, and how to have it build. Runs on the node: Python 3.9, standard library."""
