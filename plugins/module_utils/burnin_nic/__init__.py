"""Firmware settings of network adapters, as mlxconfig and mstconfig tell and set them. Runs on the node: Python 3.9, standard library."""
