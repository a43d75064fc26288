"""The node program: runs ON the node, from one zipapp. Standard library and pynvml only, Python 3.9 and later."""
